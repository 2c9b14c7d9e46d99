"""Jobs as they were last translated, so that a row in which only time went by is not translated again.

Most rows of a sweep are those of the last one but for how long the job has been running. A digest of the rest tells so
for a tenth of what translating costs, and the job keeps its texts, of which each answer brings new copies.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from trainfleet_exporter.model import Job
from trainfleet_exporter.quantities import UNUSABLE, counting_unusable

Row: TypeAlias = dict[str, Any]

_DIGEST = 16
"""Bytes; two different rows of one job are never met with the same."""
_encode = msgspec.msgpack.Encoder().encode  # unlike JSON it tells NaN from null


@dataclass(frozen=True, slots=True)
class DurationField:
    """Where the rows of a cloud have the time that a job has been running."""

    paths: tuple[tuple[str, ...], ...]
    """Every place of it, each a path of keys from the row."""
    read: Callable[[Row], float | None]
    """The duration in seconds; what is given and cannot be used is counted (quantities.UNUSABLE)."""


@dataclass(slots=True)
class Known:
    """A job, and what it was made of."""

    job: Job
    digest: bytes
    lost: Counter[str] | None
    """What of its row could not be used, by reason, but for its duration."""
    raw: bytes = b""
    """The digest of the bytes of its row, where they may stand for it."""
    is_looked_up: bool = False
    """Whether it was made of a table as well, which has to be looked at anew each time."""


class Translated:
    """The jobs of one workspace by their ids, each with what it was made of."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._raw: dict[bytes, Known] = {}

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
            if known is not None and known.digest == digest:
                counts = UNUSABLE.get()
                if known.lost and counts is not None:
                    counts.update(known.lost)
            else:
                with counting_unusable() as lost:
                    translated = translate(row)
                if translated is None:
                    return None
                known = Known(translated, digest, lost or None)
                if digest:
                    self._forget(job_id)
                    self._known[job_id] = known
        finally:
            _show(hidden)
        return _at(known, duration.read(row))

    def recognize(self, job: Job, raw: bytes, *, is_looked_up: bool = False) -> None:
        """Let the bytes of a row stand for the job that it has just been translated to: see `again`. `raw` is their
        digest without the duration, and with all that the translation depends on."""
        known = self._known.get(job.job_id)
        if known is not None and known.job is job:
            self._raw.pop(known.raw, None)
            known.raw, known.is_looked_up = raw, is_looked_up
            self._raw[raw] = known

    def again(self, raw: bytes, seconds: float) -> Known | None:
        """The job of a row by the digest of its bytes, and by the duration that they tell; None for other bytes."""
        known = self._raw.get(raw)
        if known is not None:
            _at(known, seconds)
        return known

    def keep_only(self, job_ids: Collection[str]) -> None:
        """Forget all other jobs."""
        for job_id in self._known.keys() - job_ids:
            self._forget(job_id)

    def _forget(self, job_id: str) -> None:
        known = self._known.pop(job_id, None)
        if known is not None:
            self._raw.pop(known.raw, None)


def _at(known: Known, seconds: float | None) -> Job:
    """A job at a time; the very same object as before where that is the same."""
    if seconds != known.job.duration:
        known.job = with_duration(known.job, seconds)
    return known.job


def with_duration(job: Job, seconds: float | None) -> Job:
    """The same job at another time: dataclasses.replace, in a third of its time."""
    return msgspec.structs.replace(job, duration=seconds)


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
