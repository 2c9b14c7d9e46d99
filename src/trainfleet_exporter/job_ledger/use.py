"""Mean and peak utilization of the accelerators of live jobs, of what parts show.

A shown value counts from when its part is put until that is put again or dropped, or the job's end is found. So time
without readings does not count. Memory: about 300 bytes for each job, and about 100 for each latest reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.exposition import PageStore
from trainfleet_exporter.job_ledger.line import AcceleratorUse
from trainfleet_exporter.model import JobUsage, Readings

_UTILIZATION = "values.accelerator_utilization"
_FORGOTTEN = 86400.0
"""Seconds after its last reading, after which a job is forgotten whose end was not seen."""


@dataclass(slots=True)
class _Sum:
    """Of one job, in seconds."""

    last: float
    """When a reading of it was last put (loop time)."""
    seen: float = 0.0
    weighted: float = 0.0
    """Seconds times utilization."""
    peak: float = 0.0


class UseWatch:
    """A page store that also notes the utilization of jobs (see polling.parts.LineStore)."""

    def __init__(self, page_store: PageStore) -> None:
        self._page_store = page_store
        self._sums: dict[tuple[str, str], _Sum] = {}
        """By provider and job."""
        self._shown: dict[Hashable, tuple[str, float, dict[str, float]]] = {}
        """By part, its provider, when it was put, and the utilization by job."""
        self._swept = 0.0

    def put(
        self,
        part: Hashable,
        lines: Mapping[str, Sequence[bytes]],
        *,
        provider: str = "",
        objects: Sequence[object] = (),
    ) -> None:
        """Replace a part (PageStore.put)."""
        self._page_store.put(part, lines, provider=provider, objects=objects)
        now = asyncio.get_running_loop().time()
        self._add_shown(part, now)
        if not (values := dict(_values(objects))):
            return
        self._shown[part] = provider, now, values
        for job_id, value in values.items():
            known = self._sums.setdefault((provider, job_id), _Sum(now))
            known.last = now
            known.peak = max(known.peak, value)
        self._forget(now)

    def drop(self, part: Hashable) -> None:
        """Take a part off the page (PageStore.drop)."""
        self._add_shown(part, asyncio.get_running_loop().time())
        self._page_store.drop(part)

    def take(self, provider: str, job_id: str) -> AcceleratorUse | None:
        """Return what is known of a job, and forget it; None if no reading lasted."""
        known, now = self._sums.pop((provider, job_id), _Sum(0.0)), asyncio.get_running_loop().time()
        for of, since, values in self._shown.values():
            if of == provider and (value := values.pop(job_id, None)) is not None:
                known.seen += now - since
                known.weighted += (now - since) * value
        if known.seen <= 0:
            return None
        return AcceleratorUse(round(known.weighted / known.seen, 6), round(known.peak, 6), round(known.seen, 3))

    def _add_shown(self, part: Hashable, now: float) -> None:
        """Count what a part has shown until now."""
        provider, since, values = self._shown.pop(part, ("", now, {}))
        for job_id, value in values.items():
            if (known := self._sums.get((provider, job_id))) is not None:
                known.seen += now - since
                known.weighted += (now - since) * value

    def _forget(self, now: float) -> None:
        if now < self._swept + 3600:
            return
        self._swept = now
        for key in [key for key, known in self._sums.items() if now - known.last > _FORGOTTEN]:
            del self._sums[key]


def _values(objects: Sequence[object]) -> Iterator[tuple[str, float]]:
    """Yield the utilization of each job in the objects of a part."""
    for found in objects:
        if isinstance(found, Readings):
            if found.of is JobUsage and found.field == _UTILIZATION:
                yield from zip((subject.keys[0] for subject in found.subjects), found.values, strict=True)
        elif isinstance(found, JobUsage) and found.values.accelerator_utilization is not None:
            yield found.job_id, found.values.accelerator_utilization
