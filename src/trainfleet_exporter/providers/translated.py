"""Jobs as they were last translated, so that a row in which only time went by is not translated again.

Most rows of a sweep are those of the last one but for how long the job has been running. A digest of the rest tells so
for a tenth of what translating costs, and the job keeps its texts, of which each answer brings new copies.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from trainfleet_exporter.model import Job
from trainfleet_exporter.quantities import UNUSABLE, counting_unusable

Row: TypeAlias = dict[str, Any]

_DIGEST = 16
"""Bytes; two different rows of one job are never met with the same."""
_encode = msgspec.msgpack.Encoder().encode  # unlike JSON it tells NaN from null
_values = attrgetter(*Job.__slots__)
_setters = tuple(getattr(Job, name).__set__ for name in Job.__slots__)
_set_duration = _setters[Job.__slots__.index("duration")]


@dataclass(frozen=True, slots=True)
class DurationField:
    """Where the rows of a cloud have the time that a job has been running."""

    paths: tuple[tuple[str, ...], ...]
    """Every place of it, each a path of keys from the row."""
    read: Callable[[Row], float | None]
    """The duration in seconds; what is given and cannot be used is counted (quantities.UNUSABLE)."""


class Translated:
    """The jobs of one workspace by their ids, each with what it was made of."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, Job, Counter[str] | None]] = {}
        """A digest, the job, and what of its row could not be used, by reason, but for its duration."""

    def __len__(self) -> int:
        return len(self._known)

    def job(
        self, job_id: str, row: Row, duration: DurationField, *, depends: object, translate: Callable[[Row], Job | None]
    ) -> Job | None:
        """What `translate` makes of a row, which it must do by the row and by what `depends` tells alone.

        `depends` is plain data. Where nothing has changed since the last time the answer is the very same object. What
        of the row cannot be used is counted each time.
        """
        hidden = _hide(row, duration.paths)
        try:
            digest = _digest(row, depends)
            known = self._known.get(job_id)
            if known is not None and known[0] == digest:
                found, lost = known[1], known[2]
                counts = UNUSABLE.get()
                if lost and counts is not None:
                    counts.update(lost)
            else:
                with counting_unusable() as lost:
                    translated = translate(row)
                if translated is None:
                    return None
                known, found = None, translated
        finally:
            _show(hidden)
        seconds = duration.read(row)
        if seconds != found.duration:
            found = with_duration(found, seconds)
        elif known is not None:
            return found
        if digest:
            self._known[job_id] = (digest, found, lost or None)
        return found

    def again(self, job_id: str, row: Row, duration: DurationField, *, depends: object) -> Job | None:
        """The job, if its row is the last one but for the duration, and nothing of it has to be counted: then the row
        need not be kept until its list is whole. None otherwise."""
        known = self._known.get(job_id)
        if known is None or known[2]:
            return None
        with counting_unusable() as lost:
            seconds = duration.read(row)
        if lost:
            return None
        hidden = _hide(row, duration.paths)
        try:
            digest = _digest(row, depends)
        finally:
            _show(hidden)
        if known[0] != digest:
            return None
        found = known[1]
        if seconds != found.duration:
            found = with_duration(found, seconds)
            self._known[job_id] = (digest, found, None)
        return found

    def keep_only(self, job_ids: Collection[str]) -> None:
        """Forget all other jobs."""
        for job_id in self._known.keys() - job_ids:
            del self._known[job_id]


def with_duration(job: Job, seconds: float | None) -> Job:
    """The same job at another time: dataclasses.replace, in a third of its time."""
    made = object.__new__(Job)
    for put, value in zip(_setters, _values(job), strict=True):
        put(made, value)
    _set_duration(made, seconds)
    return made


def _hide(row: Row, paths: tuple[tuple[str, ...], ...]) -> list[tuple[Row, str, object]]:
    """Put null in these places of a row; what was there."""
    hidden: list[tuple[Row, str, object]] = []
    for *way, key in paths:
        holder: object = row
        for step in way:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and key in holder:
            hidden.append((holder, key, holder[key]))
            holder[key] = None
    return hidden


def _show(hidden: list[tuple[Row, str, object]]) -> None:
    for holder, key, value in hidden:
        holder[key] = value


def _digest(row: Row, depends: object) -> bytes:
    """Empty for what cannot be digested: numbers of more than 64 bits, nesting beyond reason."""
    try:
        return hashlib.blake2b(_encode((row, depends)), digest_size=_DIGEST).digest()
    except (OverflowError, ValueError, RecursionError):
        return b""
