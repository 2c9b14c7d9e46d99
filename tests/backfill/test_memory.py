"""Memory does not grow with days and readings: readings go to the disk, and are written from there in order."""

from __future__ import annotations

import asyncio
import tracemalloc
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.backfill.rig import MIDNIGHT
from tests.backfill.test_command import CONFIG
from tests.support.configs import loaded, written
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.work import Flags, Work
from trainfleet_exporter.model import Job, PodUsage, Readings, Subject
from trainfleet_exporter.providers.past import DAY, Life, Past, PastCall, Range, Track

FIELDS = ("values.cpu", "values.memory", "values.network_receive", "values.network_transmit")


class _Fleet(Past):
    """A past in which jobs ran all the time, each with one pod."""

    async def learn(self, deadline: float) -> None:
        pass

    def searches(self, wanted: Range, now: float) -> Iterator[Sequence[PastCall[Life]]]:
        return iter(())

    def readings(self, day: Range, lives: Sequence[Life]) -> Iterator[PastCall[Track]]:
        return (PastCall(life.job.job_id, {"api": 1}, partial(self._read, life.job.job_id, day)) for life in lives)

    async def _read(self, job_id: str, day: Range, deadline: float) -> AsyncIterator[Track]:
        for field in FIELDS:
            times = array("q", range(day.start, day.end, 300))
            shown = Readings(PodUsage, field, [Subject((job_id, f"{job_id}-0"))], [0.0])
            yield Track(shown, times, array("d", [0.25]) * len(times))

    async def aclose(self) -> None:
        pass


def _peak(folder: Path, days: int, jobs: int) -> tuple[int, int]:
    """The most memory (bytes) that a backfill held at a time, and the bytes that it wrote."""
    folder.mkdir()
    flags = Flags(provider="p", wanted=Range(MIDNIGHT, MIDNIGHT + days * DAY), out=folder)
    config = loaded(written(folder, CONFIG))
    known = (
        Job(job_id=f"job-{number}", name="job", created=float(MIDNIGHT), started=float(MIDNIGHT))
        for number in range(jobs)
    )
    lives = [Life(job=job) for job in known]
    tracemalloc.start()
    try:
        asyncio.run(Work(_Fleet(), flags, config.global_, config.providers[0], Progress()).run(lives, 0))
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
