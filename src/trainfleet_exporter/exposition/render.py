"""From model objects to sample lines. No timestamps, no heads: the lines fit both formats as they are."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any

from trainfleet_exporter.exposition.families import FAMILIES, KEYS
from trainfleet_exporter.exposition.family import Number, Read
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.exposition.tag_labels import tag_labels
from trainfleet_exporter.exposition.text import escape_label, format_value

__all__ = ["RenderSettings", "Renderer", "escape_label", "format_value"]

SLICE_OBJECTS = 100
SLICE_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """What the operator chose to show."""

    deny: tuple[str, ...] = ()
    """Globs on sample names (case matters); a family that matches any is never rendered."""
    job_labels: tuple[str, ...] = ()
    """Names of platform tags, exactly as the platform has them, that become labels of `trainfleet_job_labels`."""


class _Pile:
    """The lines of one family, packed into pieces while they come."""

    __slots__ = ("_packed", "_pieces", "_size", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._packed: list[bytes] = []
        self._size = 0
        self._pieces: list[bytes] = []

    def pack(self) -> None:
        """Turns the lines at hand into bytes. Called once a slice, so that no slice ends in one long join."""
        data = "".join(self.lines).encode()
        self.lines.clear()
        if self._size + len(data) > PIECE_LIMIT:
            self._close()
        start = 0
        while len(data) - start > PIECE_LIMIT:
            end = data.rfind(b"\n", start, start + PIECE_LIMIT) + 1
            if not end:  # one line longer than a piece: it cannot be cut
                end = data.index(b"\n", start) + 1
            self._pieces.append(data[start:end])
            start = end
        self._packed.append(data[start:])
        self._size += len(data) - start

    def _close(self) -> None:
        if self._size:
            self._pieces.append(b"".join(self._packed))
        self._packed = []
        self._size = 0

    def finish(self) -> list[bytes]:
        self._close()
        return self._pieces


_Row = tuple[str, tuple[str, ...] | None, Read, Callable[[Any], float | int | None] | None]
"""Name, further labels, how to read; and for a single number without further labels, the shorter way to it."""


class Renderer:
    """Renders objects of the model by the table of families, as the settings allow."""

    def __init__(self, settings: RenderSettings) -> None:
        self._job_labels = frozenset(settings.job_labels)
        self._rows: dict[type, list[_Row]] = {of: [] for of in KEYS}
        for family in FAMILIES:
            if not any(fnmatchcase(family.name, glob) for glob in settings.deny):
                get = family.read.value if isinstance(family.read, Number) else None
                self._rows[family.of].append((family.name, family.labels, family.read, get))

    def render(self, provider: str, objects: Sequence[object]) -> dict[str, list[bytes]]:
        """Sample lines of the objects, family by family, in pieces of at most 1 MB that end with a line.

        A single line over 1 MB is a piece of its own. Families without samples are not in the answer. Objects come in
        the order given, and may be of several classes of `KEYS`.
        """
        piles: defaultdict[str, _Pile] = defaultdict(_Pile)
        for _ in self._slices(provider, objects, piles):
            pass
        return _finished(piles)

    async def render_sliced(self, provider: str, objects: Sequence[object]) -> dict[str, list[bytes]]:
        """The same, giving the event loop back about every 2 ms, so that scrapes go on being answered."""
        piles: defaultdict[str, _Pile] = defaultdict(_Pile)
        for _ in self._slices(provider, objects, piles):
            await asyncio.sleep(0)
        return _finished(piles)

    def _slices(self, provider: str, objects: Sequence[object], piles: defaultdict[str, _Pile]) -> Iterator[None]:
        first_label = f'provider="{escape_label(provider)}"'
        began, done = perf_counter(), 0
        for found in objects:
            self._render_one(found, first_label, piles)
            done += 1
            if done >= SLICE_OBJECTS or perf_counter() - began >= SLICE_SECONDS:
                _pack(piles)
                yield
                began, done = perf_counter(), 0
        _pack(piles)

    def _render_one(self, found: object, first_label: str, piles: defaultdict[str, _Pile]) -> None:
        key_names, key_values = KEYS[type(found)]
        labels = first_label
        for name, value in zip(key_names, key_values(found), strict=True):
            labels += f',{name}="{escape_label(value)}"'
        for family, names, read, get in self._rows[type(found)]:
            if get is not None:
                sample = get(found)
                if sample is not None:
                    piles[family].lines.append(f"{family}{{{labels}}} {format_value(sample)}\n")
                continue
            for values, sample in read(found):
                if names == ():
                    line = f"{family}{{{labels}}} {format_value(sample)}\n"
                else:
                    further = self._further(names, values)
                    if not further:
                        continue
                    line = f"{family}{{{labels}{further}}} {format_value(sample)}\n"
                piles[family].lines.append(line)

    def _further(self, names: tuple[str, ...] | None, values: tuple[str, ...]) -> str:
        if names is None:
            tags = dict(zip(values[::2], values[1::2], strict=True))
            pairs = tag_labels(tags, self._job_labels)
        else:
            pairs = list(zip(names, values, strict=True))
        return "".join([f',{name}="{escape_label(value)}"' for name, value in pairs])


def _pack(piles: defaultdict[str, _Pile]) -> None:
    for pile in piles.values():
        if pile.lines:
            pile.pack()


def _finished(piles: defaultdict[str, _Pile]) -> dict[str, list[bytes]]:
    return {family: pile.finish() for family, pile in piles.items()}
