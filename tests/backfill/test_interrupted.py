"""Interrupted anywhere and continued, a backfill writes the same bytes; with other flags, it refuses to continue."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.backfill.rig import MIDNIGHT, PROVIDERS, RANGES, simulated
from tests.e2e.processes import COMMAND, eventually, running_cloud
from trainfleet_exporter.backfill.days import shown
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.providers.past import DAY, Range
from trainfleet_simulator.faults import Fault

AROUND_MIDNIGHT = Range(MIDNIGHT + DAY - 5400, MIDNIGHT + DAY + 1800)
"""Parts of two days."""
BEGINS = MIDNIGHT


def _files(folder: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.om"))}


@pytest.mark.long
@pytest.mark.parametrize("cloud", RANGES)
async def test_a_call_that_fails_leaves_its_day_unwritten(cloud: str, tmp_path: Path) -> None:
    metrics = {"pai": {"MetricName": "JOB_CPU_UTIL"}, "modelarts": {"metric": "ma_container_cpu_util"}}
    async with simulated(cloud, tmp_path) as rig:
        rig.simulator.faults.add(Fault({"operation": RANGES[cloud], **metrics.get(cloud, {})}, kind="server_error"))
        outcome, words = await rig.backfill(tmp_path / "out", AROUND_MIDNIGHT)
        assert outcome.files == []
        assert [*outcome.failures] == ["2026-01-02", "2026-01-03"]
        assert "Run the same command again" in words
        assert not list((tmp_path / "out").glob("*.om"))
        rig.simulator.faults.clear()
        outcome, _ = await rig.backfill(tmp_path / "out", AROUND_MIDNIGHT)
        await rig.backfill(tmp_path / "whole", AROUND_MIDNIGHT)
        assert _files(tmp_path / "out") == _files(tmp_path / "whole")
        # Whole days are not read again.
        calls = rig.calls()
        outcome, _ = await rig.backfill(tmp_path / "out", AROUND_MIDNIGHT)
        assert len(outcome.files) == 2
        assert rig.calls() == calls


async def test_a_folder_with_other_flags_is_refused(tmp_path: Path) -> None:
    async with simulated("pai", tmp_path) as rig:

        async def is_refused(wanted: Range, **other: Any) -> None:
            with pytest.raises(StartError, match="out has a backfill with other flags or config; choose another"):
                await rig.backfill(tmp_path / "out", wanted, **other)

        wanted = Range(MIDNIGHT, MIDNIGHT + 1800)
        rig.simulator.faults.add(Fault({"operation": RANGES["pai"]}, kind="server_error"))
        outcome, _ = await rig.backfill(tmp_path / "out", wanted)
        assert outcome.files == []  # but its jobs are found
        rig.simulator.faults.clear()
        await is_refused(wanted, job_id="dlc1")
        await is_refused(wanted, labels={"instance": "a"})
        await is_refused(Range(MIDNIGHT, MIDNIGHT + 3600))
        outcome, _ = await rig.backfill(tmp_path / "out", wanted)
        assert len(outcome.files) == 1
        calls = rig.calls()
        await rig.backfill(tmp_path / "out", wanted)
        assert rig.calls() == calls
        (tmp_path / "out" / f".backfill-{rig.provider}.state").unlink()
        await is_refused(wanted)


@pytest.mark.long
@pytest.mark.parametrize("cloud", RANGES)
def test_killed_four_times_it_writes_the_same_files(cloud: str, tmp_path: Path) -> None:
    with running_cloud(seed=1, clouds=(cloud,), population=8) as (simulator, url):
        config = tmp_path / "config.yaml"
        config.write_text(simulator.config_yaml(url).replace("per_second: 200", "per_second: 60"), encoding="utf-8")
        midnight = (int(time.time()) - 2 * 3600) // DAY * DAY
        start, end = midnight - 6 * 3600, midnight + 3600  # parts of two days
        flags = [f"--config.file={config}", f"--provider={PROVIDERS[cloud]}"]
        flags += [f"--from={shown(start)}", f"--to={shown(end)}"]

        def run(out: str) -> subprocess.Popen[str]:
            command = [*COMMAND, "backfill", *flags, f"--out={tmp_path / out}"]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def calls() -> int:
            found = httpx.get(f"{url}/truth", trust_env=False).json()["calls"]
            return sum(sum(counts.values()) for api in found.values() for counts in api.values())

        whole = run("whole")
        printed, logged = whole.communicate()
        assert whole.returncode == 0, logged
        assert "promtool tsdb create-blocks-from openmetrics" in printed
        needed, rng = calls(), random.Random(7)
        for _ in range(4):
            before, more = calls(), rng.randint(1, needed)
            cut = run("cut")
            eventually(lambda: calls() >= before + more or cut.poll() is not None, what="a random call")  # noqa: B023
            cut.send_signal(signal.SIGKILL)
            cut.communicate()
        # A terminated one says that it is unfinished.
        simulator.faults.add(hanging := Fault({"operation": RANGES[cloud]}, delay=600.0, times=1000))
        (tmp_path / "cut" / f"{PROVIDERS[cloud]}-{shown(end)[:10]}.om").unlink(missing_ok=True)
        stopped = run("cut")
        status = Path(f"/proc/{stopped.pid}/status")
        eventually(lambda: int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> 14 & 1, what="a handler")
        eventually(lambda: hanging.times != 1000, what="a call in flight")
        stopped.send_signal(signal.SIGTERM)
        _, logged = stopped.communicate()
        assert (stopped.returncode, "interrupted" in logged) == (1, True)
        simulator.faults.clear()
        again = run("cut")
        _, logged = again.communicate()
        assert again.returncode == 0, logged
        assert len(_files(tmp_path / "whole")) == 2
        assert _files(tmp_path / "cut") == _files(tmp_path / "whole")
        assert not list((tmp_path / "cut").glob("*.part"))
