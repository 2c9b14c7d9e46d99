"""Backfills of simulated clouds in stepped time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.configs import loaded, written
from trainfleet_exporter.backfill.command import backfill
from trainfleet_exporter.backfill.work import Flags, Outcome
from trainfleet_exporter.config import Config
from trainfleet_exporter.providers.past import DAY, Range
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator
from trainfleet_simulator.world.jobs import Job

MIDNIGHT = int(datetime.fromisoformat("2026-01-02T00:00:00+00:00").timestamp())
PROVIDERS = {"pai": "sim-pai-hangzhou", "modelarts": "sim-modelarts-north4", "sagemaker": "sim-sagemaker-us-east-1"}
RANGES = {"pai": "DescribeMetricList", "modelarts": "ListRangeQueryAomPromPost", "sagemaker": "GetMetricData"}
"""The operation by which each cloud returns most."""
EVENING = Range(MIDNIGHT + DAY - 3600, MIDNIGHT + DAY)
HIDDEN = "98765"
"""A workspace of PAI that the caller is no member of."""
_SAMPLE = re.compile(r"(\w+)\{(.*)\} (\S+) (\d+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass
class Rig:
    """A simulated cloud that has lived on for a day and more, and a config that reaches it."""

    cloud: str
    simulator: Simulator
    config: Config
    printed: list[str]
    calls_before_days: int = 0
    """How many calls the cloud had when the expected ones were printed last."""

    @property
    def provider(self) -> str:
        return PROVIDERS[self.cloud]

    async def backfill(self, out: Path, wanted: Range, **flags: Any) -> tuple[Outcome, str]:
        """One backfill, to its end."""
        asked = Flags(provider=self.provider, wanted=wanted, out=out, **flags)

        def say(text: str) -> None:
            self.printed.append(text)
            if "calls expected" in text:
                self.calls_before_days = self.calls()

        return await backfill(asked, self.config, installed_platforms(), say=say)

    def calls(self) -> int:
        """How many calls the cloud has had."""
        counts = self.simulator._cloud.truth.calls
        return sum(count for api in counts.values() for outcomes in api.values() for count in outcomes.values())

    def id_of(self, job: Job) -> str:
        """The cloud's id of a job."""
        return f"{job.draft.name}-{job.job_id}" if self.cloud == "sagemaker" else job.job_id

    def jobs(self) -> Iterator[Job]:
        """Every job that there ever was in a workspace that the exporter may enter."""
        yield from (job for job in self.simulator.worlds[self.cloud].jobs.values() if job.draft.workspace_id != HIDDEN)


@asynccontextmanager
async def simulated(
    cloud: str, folder: Path, *, change: Callable[[str], str] = lambda text: text, hours: float = 26, patience: int = 20
) -> AsyncIterator[Rig]:
    """Let a small cloud live for some hours from now (midnight) on. `change` changes the config."""
    simulator = Simulator(seed=1, clouds=(cloud,), population=8, patience=patience)
    await asyncio.sleep(hours * 3600)
    async with simulator.serve() as url:
        yield Rig(cloud, simulator, loaded(written(folder, change(simulator.config_yaml(url)))), [])


def samples(path: Path) -> Iterator[tuple[str, dict[str, str], str, int]]:
    """The samples of a file: family, labels, value as it is written, Unix time."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if not line.startswith("#"):
                found = _SAMPLE.fullmatch(line.rstrip("\n"))
                assert found is not None, line
                yield found[1], dict(_LABEL.findall(found[2])), found[3], int(found[4])
