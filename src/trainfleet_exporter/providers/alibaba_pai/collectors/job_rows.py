"""Rows of ListJobs, which are not even decoded where they are those of the last poll but for the duration.

    a row's bytes ──their digest is known──────────────► the job, at another duration
          └────────another, or nothing to go by──► decoded ──► translated ──► its digest is known from now on

What is known by its digest was made of the same bytes but for the digits of its one duration. That these digits are
the row's duration and nothing else is proved once, by other digits in their place: that row must be the same but for
its duration.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from typing import Any

import msgspec

from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.book import WorkspaceJobs
from trainfleet_exporter.providers.listing import Row, Taken, packed, unpacked
from trainfleet_exporter.providers.translated import DurationField
from trainfleet_exporter.quantities import counting_unusable, number, text
from trainfleet_exporter.slices import give_way
from trainfleet_exporter.transport.body import decode_json

_DURATION = DurationField((("Duration",),), lambda row: number(row, "Duration"))
_NAME = b'"Duration"'
_SECONDS = re.compile(rb'"Duration":\s*(0|[1-9][0-9]{0,14})(?=[,}\s])')
_ROWS = 250
"""Rows that are looked at before the loop has its turn: no page that was asked for has as many."""
_DIGEST = 16
"""Bytes; two different rows are never met with the same."""


class _Page(msgspec.Struct):
    """What is looked at of a page of ListJobs before anything of it is decoded."""

    Jobs: list[msgspec.Raw]


_skim = msgspec.json.Decoder(_Page).decode
_decode = msgspec.json.Decoder().decode


class _RawRow(bytes):
    """A row of a page as it came; it can be decoded."""

    __slots__ = ()


class JobRows:
    """The rows of one list of a workspace's jobs. `asked_status` is what it was filtered by."""

    def __init__(self, shared: Shared, page: WorkspaceJobs, asked_status: str = "") -> None:
        self._shared = shared
        self._here = page.workspace_id
        self._translated = page.translated
        self._asked_status = asked_status
        self._needs_machines = False
        """Whether a row was read for which the machine types are needed."""
        self._learn_tables()

    async def decode(self, body: bytes) -> Any:
        """The payload of a page (Call.decode), of whose rows each that has an id is a `Taken`."""
        cut = _cut(body)
        if cut is None:
            return decode_json(body)
        start, end, rows = cut
        payload = decode_json(body[:start] + body[end:])
        if not isinstance(payload, dict) or payload.get("Jobs") != []:
            return decode_json(body)  # there is more amiss, which concerns the whole of the answer
        items: list[object] = []
        for place, data in enumerate(rows, 1):
            if place % _ROWS == 0:
                await give_way()
            item: object = self._recognized(data)
            if item is None:
                try:
                    item = _decode(data)
                except (ValueError, RecursionError):  # as above
                    return decode_json(body)
                if isinstance(item, dict) and (job_id := text(item, "JobId")):
                    self._look_at(item)
                    item = job_id, _RawRow(data)
            items.append(item)
        payload["Jobs"] = items
        return payload

    def keep(self, row: Row) -> object:
        """What is kept of a decoded row until its list is whole."""
        self._look_at(row)
        return packed(row)

    async def have_tables(self, part: Part) -> None:
        """Have what the rows that were read need beside themselves. Awaited before they are translated."""
        if self._needs_machines:
            self._needs_machines = False
            await self._shared.ecs_specs.have(part)
        self._learn_tables()

    def job(self, job_id: str, kept: object) -> Job | None:
        """The job of a row that was kept; None if it is none."""
        if isinstance(kept, Job):
            return kept
        if not isinstance(kept, _RawRow):
            return self._job(job_id, unpacked(kept))
        found = _hole(kept)
        digest = b"" if found is None else self._digest(kept, found)
        if (
            found is not None
            and (known := self._translated.again(digest, float(kept[found[0] : found[1]]))) is not None
        ):
            return known.job
        row = decode_json(kept)
        with counting_unusable() as lost:
            job = self._job(job_id, row)
        # What cannot be used is counted at each poll: that takes the row.
        if job is not None and found is not None and not lost and _is_duration(kept, found, row):
            self._translated.recognize(job, digest, is_looked_up=translate.needs_ecs_specs(row))
        return job

    def _recognized(self, data: bytes) -> Taken | None:
        found = _hole(data)
        if found is None:
            return None
        known = self._translated.again(self._digest(data, found), float(data[found[0] : found[1]]))
        if known is None:
            return None
        if known.is_looked_up:  # it is the same if the machine types still are when they have been asked for
            self._needs_machines = True
            return known.job.job_id, _RawRow(data)
        return known.job.job_id, known.job

    def _look_at(self, row: Row) -> None:
        self._needs_machines = self._needs_machines or translate.needs_ecs_specs(row)

    def _learn_tables(self) -> None:
        """Keep to the tables as they are now: they may change while rows are translated."""
        shared = self._shared
        self._models, self._machines = shared.pool_models, shared.ecs_specs.known
        self._depends = repr((self._asked_status, shared.tables_version)).encode()

    def _digest(self, data: bytes, hole: tuple[int, int]) -> bytes:
        """What the bytes of a row are known by, and what else its translation depends on."""
        rest = b"%b%b%b" % (self._depends, data[: hole[0]], data[hole[1] :])
        return hashlib.blake2b(rest, digest_size=_DIGEST).digest()

    def _job(self, job_id: str, row: Row) -> Job | None:
        models, machines, here = self._models, self._machines, self._here
        depends = self._asked_status, here, *translate.looked_up(row, models, machines)
        translated = partial(
            translate.job,
            asked_status=self._asked_status,
            workspace_id=here,
            pool_models=models,
            ecs_specs=machines,
        )
        return self._translated.job(job_id, row, _DURATION, depends=depends, translate=translated)


def _cut(body: bytes) -> tuple[int, int, list[bytes]] | None:
    """Where the rows of a page begin and end, and these; None for what is no page with rows, or not written closely."""
    try:
        rows = [bytes(row) for row in _skim(body).Jobs]
    except (ValueError, RecursionError):
        return None
    if not rows:
        return None
    start, end = body.find(rows[0]), body.rfind(rows[-1]) + len(rows[-1])
    between = b", " if body.startswith(b", ", start + len(rows[0])) else b","
    # The rows are somewhere in between: if nothing else has room there, they are there.
    fits = end - start == sum(map(len, rows)) + len(between) * (len(rows) - 1)
    return (start, end, rows) if fits else None


def _hole(data: bytes) -> tuple[int, int] | None:
    """Where the digits of the one duration of a row begin and end; None if there is none, or more that look like it."""
    place = data.find(_NAME)
    if place < 0 or data.find(_NAME, place + len(_NAME)) >= 0:
        return None
    match = _SECONDS.match(data, place)
    return None if match is None else match.span(1)


def _is_duration(data: bytes, hole: tuple[int, int], row: Row) -> bool:
    """Whether the digits there are the row's duration, and nothing else of it."""
    start, end = hole
    seconds = int(data[start:end])
    other = seconds ^ 1
    changed = decode_json(b"%b%d%b" % (data[:start], other, data[end:]))
    return row.get("Duration") == seconds and bool(changed == {**row, "Duration": other})
