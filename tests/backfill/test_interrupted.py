"""Cut short anywhere and gone on with, a backfill writes the same bytes; begun otherwise, it refuses."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.backfill.rig import MIDNIGHT, PROVIDERS, Rig, simulated
from tests.e2e.processes import COMMAND, eventually, running_cloud
from trainfleet_exporter.backfill.days import shown
from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.providers.history import DAY, Range
from trainfleet_simulator.faults import Fault

AROUND_MIDNIGHT = Range(MIDNIGHT + DAY - 5400, MIDNIGHT + DAY + 1800)
"""Parts of two days."""
RANGES = {"pai": "DescribeMetricList", "modelarts": "ListRangeQueryAomPromPost"}
"""The operation by which each cloud tells most."""


def _files(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.om"))}


class _Cut:
    """Cancels whoever does the n-th unit, before it counts or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 10**9
        real_done = Spool.done

        def done(spool: Spool, unit: int) -> None:
            self.left -= 1
            if self.left == 0:
                raise asyncio.CancelledError
            real_done(spool, unit)

        monkeypatch.setattr(Spool, "done", done)


@pytest.mark.long
@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_cancelled_at_random_units(cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut, rng = _Cut(monkeypatch), random.Random(7)

    async def work(rig: Rig) -> None:
        await rig.backfill(tmp_path / "whole", AROUND_MIDNIGHT)
        units = 10**9 - cut.left
        assert units > 50
        cuts = 0
        while True:
            cut.left = rng.randint(1, units * 3 // 4)  # the search for jobs is done whole or begun anew
            try:
                await rig.backfill(tmp_path / "cut", AROUND_MIDNIGHT)
            except asyncio.CancelledError:
                cuts += 1
            else:
                break
        assert cuts >= 2
        assert len(_files(tmp_path / "whole")) == 2
        assert _files(tmp_path / "cut") == _files(tmp_path / "whole")
        # Done is done: nothing is asked any more.
        calls = _calls(rig)
        outcome, _ = await rig.backfill(tmp_path / "cut", AROUND_MIDNIGHT)
        assert len(outcome.files) == 2
        assert _calls(rig) == calls

    simulated(cloud, work, tmp_path)


def _calls(rig: Rig) -> int:
    counts = rig.simulator._cloud.truth.show(0.0)["calls"]
    return sum(count for api in counts.values() for outcomes in api.values() for count in outcomes.values())


@pytest.mark.long
@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_a_unit_that_fails_leaves_its_day_unwritten(cloud: str, tmp_path: Path) -> None:
    metric = {"MetricName": "JOB_CPU_UTIL"} if cloud == "pai" else {"metric": "ma_container_cpu_util"}

    async def work(rig: Rig) -> None:
        rig.simulator.faults.add(Fault({"operation": RANGES[cloud], **metric}, kind="server_error"))
        outcome, words = await rig.backfill(tmp_path / "out", AROUND_MIDNIGHT)
        assert outcome.files == []
        assert outcome.missing == ["2026-01-02", "2026-01-03"]
        assert "Run the same command again" in words
        assert not list((tmp_path / "out").glob("*.om"))
        rig.simulator.faults.clear()
        outcome, _ = await rig.backfill(tmp_path / "out", AROUND_MIDNIGHT)
        await rig.backfill(tmp_path / "whole", AROUND_MIDNIGHT)
        assert _files(tmp_path / "out") == _files(tmp_path / "whole")

    simulated(cloud, work, tmp_path)


def test_a_folder_that_was_begun_otherwise_is_refused(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        wanted = Range(MIDNIGHT, MIDNIGHT + 1800)
        await rig.backfill(tmp_path / "out", wanted)
        with pytest.raises(StartError, match="was started with another value of --to: start again with another --out"):
            await rig.backfill(tmp_path / "out", Range(MIDNIGHT, MIDNIGHT + 3600))
        with pytest.raises(StartError, match="another value of --job, --label"):
            await rig.backfill(tmp_path / "out", wanted, job_id="dlc1", labels={"instance": "a"})

    simulated("pai", work, tmp_path)


def test_two_at_a_time_are_refused(tmp_path: Path) -> None:
    with Spool(tmp_path / "spool"), pytest.raises(StartError, match="another backfill is running in this folder"):
        Spool(tmp_path / "spool")


@pytest.mark.long
@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_killed_and_gone_on_with(cloud: str, tmp_path: Path) -> None:
    with running_cloud(seed=1, clouds=(cloud,), population=8) as (simulator, url):
        config = tmp_path / "config.yaml"
        config.write_text(simulator.config_yaml(url).replace("per_second: 200", "per_second: 60"), encoding="utf-8")
        end = int(time.time()) // 3600 * 3600 - 3600
        flags = [f"--config.file={config}", f"--provider={PROVIDERS[cloud]}"]
        flags += [f"--from={shown(end - 2 * 3600)}", f"--to={shown(end)}"]

        def run(out: Path) -> subprocess.Popen[str]:
            command = [*COMMAND, "backfill", *flags, f"--out={out}"]
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
            )

        def calls(only: str = "") -> int:
            told = httpx.get(f"{url}/truth", trust_env=False).json()["calls"]
            operations = [(name, counts) for api in told.values() for name, counts in api.items()]
            return sum(sum(counts.values()) for name, counts in operations if only in ("", name))

        whole = run(tmp_path / "whole")
        printed, told = whole.communicate()
        assert whole.returncode == 0, told
        assert "promtool tsdb create-blocks-from openmetrics" in printed
        needed, ranges = calls(), calls(RANGES[cloud])
        assert ranges > 10
        # From half of them on they hang, so that it surely is under way when it is killed.
        simulator.faults.add(Fault({"operation": RANGES[cloud]}, delay=4.0, skip=ranges // 2))
        cut = run(tmp_path / "cut")
        eventually(lambda: calls(RANGES[cloud]) >= ranges + ranges // 2, what="half of the ranges")
        cut.send_signal(signal.SIGKILL)
        cut.communicate()
        simulator.faults.clear()
        assert _files(tmp_path / "cut") != _files(tmp_path / "whole")
        before = calls()
        asked = run(tmp_path / "cut")
        eventually(lambda: calls() > before, what="the next call")
        asked.send_signal(signal.SIGTERM)
        _, told = asked.communicate()
        assert (asked.returncode, "interrupted" in told) in {(1, True), (0, False)}
        again = run(tmp_path / "cut")
        _, told = again.communicate()
        assert again.returncode == 0, told
        assert _files(tmp_path / "cut") == _files(tmp_path / "whole")
        assert calls() < before + needed  # which is what all of it takes
