"""Memory does not grow with days and jobs: what is read goes to the disk, and is written from there in order."""

from __future__ import annotations

import asyncio
import tracemalloc
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.backfill.rig import MIDNIGHT
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.series import Namer
from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.backfill.work import Order, Work
from trainfleet_exporter.config import Global
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.model import Job, PodUsage
from trainfleet_exporter.providers.history import DAY, History, Life, Lives, Range, Sink, Track, Unit

FIELDS = ("values.cpu", "values.memory", "values.network_receive", "values.network_transmit")


class _Fleet(History):
    """A past in which so many jobs ran all the time, each with one pod."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    async def learn(self, deadline: float) -> bytes:
        return b""

    def recall(self, learned: bytes, job_id: str) -> None:
        pass

    def searches(self, wanted: Range, now: float) -> Sequence[Sequence[Unit]]:
        return [[Unit("all", {}, self._search)]]

    async def _search(self, sink: Sink, deadline: float) -> None:
        for number in range(self._jobs):
            job = Job(job_id=f"job-{number}", name="job", created=float(MIDNIGHT), started=float(MIDNIGHT))
            sink.life(Life(job=job))

    def readings(self, day: Range, lives: Lives) -> Iterator[Unit]:
        for life in lives(day):
            yield Unit(life.job.job_id, {"api": 1}, partial(self._read, life.job.job_id, day))

    async def _read(self, job_id: str, day: Range, sink: Sink, deadline: float) -> None:
        for field in FIELDS:
            times = array("q", range(day.start, day.end, 300))
            values = array("d", [0.25]) * len(times)
            sink.track(Track(PodUsage, field, (job_id, f"{job_id}-0"), times, values))

    async def aclose(self) -> None:
        pass


def _peak(folder: Path, days: int, jobs: int) -> tuple[int, int]:
    """The most memory (bytes) that a backfill held at a time, and the bytes that it wrote."""
    folder.mkdir()

    async def run() -> None:
        with Spool(folder / "spool") as spool:
            order = Order(
                provider="p",
                wanted=Range(MIDNIGHT, MIDNIGHT + days * DAY),
                begun=0.0,
                job_id="",
                out=folder,
                step=240,
                retention=0.0,
                workers=4,
                families=FAMILIES,
            )
            work = Work(_Fleet(jobs), spool, Namer("p", Global(), {}), order, Progress(None))
            await work.learn()
            await work.find()
            outcome = await work.run()
            assert len(outcome.files) == days

    tracemalloc.start()
    try:
        asyncio.run(run())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak, sum(path.stat().st_size for path in folder.glob("*.om"))


@pytest.mark.long
def test_twelve_times_as_much_takes_no_more_memory(tmp_path: Path) -> None:
    _peak(tmp_path / "warm", 1, 2)  # what is made once
    small, written = _peak(tmp_path / "small", 1, 10)
    large, much = _peak(tmp_path / "large", 3, 40)
    assert much > 11 * written
    assert large < 1.5 * small + 200_000
    assert large < 10_000_000
