"""A machine with a wrong clock shows the same values as one with the right clock, on each simulated cloud."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.clock import START, run_stepped
from tests.support.configs import exporter_of, written
from trainfleet_exporter.exposition import Format
from trainfleet_simulator import Simulator

MINUTES = range(0, 12, 2)
_RIGHT: dict[str, list[list[str]]] = {}


async def _pages(cloud: str, folder: Path, off: float) -> list[list[str]]:
    """What a machine shows at each poll whose clock is `off` seconds behind that of the cloud."""
    loop = asyncio.get_running_loop()
    loop._traveller.shift(-off)  # type: ignore[attr-defined]  # SteppedLoop's own clock
    simulator = Simulator(seed=5, clouds=(cloud,), population=24, clock=lambda: START + loop.time())
    pages = []
    async with simulator.serve() as url:
        exporter = exporter_of(written(folder, simulator.config_yaml(url)))
        try:
            for minute in MINUTES:
                await asyncio.sleep(60 * minute - loop.time())
                for runner in exporter.runners:
                    await runner.tick()
                    assert runner.state.success, (runner.state.collector, runner.state.error)
                text = exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
                pages.append([line for line in text.splitlines() if line[:1] != "#"])
        finally:
            await exporter.aclose()
    return pages


@pytest.mark.parametrize(
    "off", [3600, -3600, *(pytest.param(off, marks=pytest.mark.long) for off in (200, -200, 400, -400))]
)
@pytest.mark.parametrize("cloud", ["pai", "modelarts", "sagemaker"])
def test_wrong_clock_changes_no_value(cloud: str, off: float, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def pages(off: float) -> list[list[str]]:
        found: list[list[str]] = []

        async def main() -> None:
            found.extend(await _pages(cloud, tmp_path, off))

        run_stepped(main)
        return found

    right = _RIGHT[cloud] = _RIGHT.get(cloud) or pages(0)
    for family in ("jobs_finished_total", "job_phase_seconds", "job_accelerator_utilization_ratio"):
        lines = [[line for line in page if line.startswith(f"trainfleet_{family}")] for page in right]
        assert lines[-1]
        assert lines[-1] != lines[0], family
    assert pages(off) == right
    assert [record.levelname for record in caplog.records if "clock of this machine is off" in record.msg] == ["ERROR"]
