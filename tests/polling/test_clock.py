"""A wall clock that is set by an hour while all collectors of all clouds poll. The loop's clock never jumps."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.support.accounts import usual_config
from tests.support.clock import START
from tests.support.configs import exporter_of, written
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.exposition import Format
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.transport import Attempt
from trainfleet_simulator import Simulator

HOUR, SPAN = 3600.0, 600.0
CHANGING = ("_finished_", "_reason", "_recover", "_exit_code", "_pending_")
"""Parts of the names of families that are shown only while a job is in a certain state."""


@pytest.mark.long
@pytest.mark.parametrize("cloud_follows", [True, False])
async def test_step_of_the_clock_loses_no_family(
    cloud_follows: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the clocks of the clouds stay, they refuse signatures of ours, and then their own time is used."""
    caplog.set_level(logging.INFO)

    loop, calls = asyncio.get_running_loop(), list[Attempt]()
    clock = {} if cloud_follows else {"clock": lambda: START + loop.time()}
    simulator = Simulator(seed=5, clouds=CLOUDS, population=10, **clock)  # type: ignore[arg-type]
    async with simulator.serve() as url:
        path = written(tmp_path, usual_config(url, *CLOUDS))
        exporter = exporter_of(path, observe=lambda _, attempt: calls.append(attempt))
        schedule = Schedule(exporter.runners)

        async def shown() -> set[tuple[str, ...]]:
            await asyncio.sleep(SPAN)
            assert [runner.state.error for runner in exporter.runners if not runner.state.success] == []
            text = exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
            families = {tuple(line.split('"')[:2]) for line in text.splitlines() if not line.startswith("#")}
            return {family for family in families if not any(part in family[0] for part in CHANGING)}

        try:
            schedule.start()
            before = await shown()
            calls.clear()
            await shown()
            usual = len(calls)
            for step in (-HOUR, HOUR, HOUR, -HOUR):
                caplog.clear()
                calls.clear()
                loop._traveller.shift(step)  # type: ignore[attr-defined]  # SteppedLoop's own clock
                assert before - await shown() == set()
                assert 0.8 * usual < len(calls) < 1.2 * usual
                messages = [record.getMessage() for record in caplog.records]
                assert sum("system clock jumped" in message for message in messages) == 1
                off = sum("clock of this machine is off" in message for message in messages)
                assert off == (0 if cloud_follows else len(CLOUDS))
        finally:
            await schedule.stop()
            await exporter.aclose()
