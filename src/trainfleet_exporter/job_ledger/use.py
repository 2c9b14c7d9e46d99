"""Mean and peak utilization of the accelerators of live jobs, of what parts show.

A shown value counts from when its part is put until the part is put again or dropped. So the time without readings
does not count. Memory: about 300 bytes for each job, and the latest readings of each part, which the page has anyway.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.job_ledger.line import AcceleratorUse
from trainfleet_exporter.model import JobUsage, Readings
from trainfleet_exporter.page import PageStore

_UTILIZATION = "values.accelerator_utilization"
_FORGOTTEN = 86400.0
"""Seconds after its last reading, after which a job is forgotten whose end was not seen."""


@dataclass(slots=True)
class _Sum:
    """Of one job, in seconds."""

    last: float
    """When a reading of it was last put (Unix seconds)."""
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
        self._shown: dict[Hashable, tuple[str, float, list[object]]] = {}
        """By part, its provider, when it was put, and what of it is about the use of accelerators."""
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
        now = time.time()
        self._add_shown(part, now)
        kept = [found for found in objects if _is_use(found)]
        if not kept:
            return
        self._shown[part] = provider, now, kept
        for job_id, value in _values(kept):
            known = self._sums.get((provider, job_id))
            if known is None:
                known = self._sums[provider, job_id] = _Sum(now)
            known.last = now
            known.peak = max(known.peak, value)
        self._forget(now)

    def drop(self, part: Hashable) -> None:
        """Take a part off the page (PageStore.drop)."""
        self._add_shown(part, time.time())
        self._page_store.drop(part)

    def take(self, provider: str, job_id: str) -> AcceleratorUse | None:
        """Return what is known of a job, and forget it; None if no reading lasted."""
        known = self._sums.pop((provider, job_id), None)
        if known is None or known.seen <= 0:
            return None
        return AcceleratorUse(round(known.weighted / known.seen, 6), round(known.peak, 6), round(known.seen, 3))

    def _add_shown(self, part: Hashable, now: float) -> None:
        """Count what a part has shown until now."""
        provider, since, objects = self._shown.pop(part, ("", now, []))
        seconds = now - since
        if seconds <= 0:
            return
        for job_id, value in _values(objects):
            if (known := self._sums.get((provider, job_id))) is not None:
                known.seen += seconds
                known.weighted += seconds * value

    def _forget(self, now: float) -> None:
        if now < self._swept + 3600:
            return
        self._swept = now
        for key in [key for key, known in self._sums.items() if now - known.last > _FORGOTTEN]:
            del self._sums[key]


def _is_use(found: object) -> bool:
    if isinstance(found, Readings):
        return found.of is JobUsage and found.field == _UTILIZATION
    return isinstance(found, JobUsage) and found.values.accelerator_utilization is not None


def _values(objects: Sequence[object]) -> Iterator[tuple[str, float]]:
    for found in objects:
        if isinstance(found, Readings):
            for subject, value in zip(found.subjects, found.values, strict=True):
                yield subject.keys[0], value
        elif isinstance(found, JobUsage) and found.values.accelerator_utilization is not None:
            yield found.job_id, found.values.accelerator_utilization
