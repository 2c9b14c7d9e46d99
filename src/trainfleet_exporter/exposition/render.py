"""From model objects to sample lines. No timestamps, no heads: the lines fit both formats as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import perf_counter

from trainfleet_exporter.exposition.changes import Basis, Column, Comparison, Row, sort_out
from trainfleet_exporter.exposition.pile import Pile
from trainfleet_exporter.exposition.tag_labels import tag_labels
from trainfleet_exporter.exposition.text import cut, escape_label, format_value, is_too_long
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.families.family import Number, NumberByAccelerator
from trainfleet_exporter.model import Readings
from trainfleet_exporter.slices import give_way

__all__ = ["RenderSettings", "Renderer", "Update", "escape_label", "format_value"]

SLICE_OBJECTS = 50
SLICE_SECONDS = 0.0005
SLICE_READINGS = 500
_MANY = 4
"""Steps after which what was rendered is long."""
_REMEMBERED = 50
"""Objects of a part from which on it is worth remembering them, to render only what changed."""


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """What the operator chose to show."""

    deny: tuple[str, ...] = ()
    """Globs on sample names (case matters); a family that matches any is never rendered."""
    job_labels: tuple[str, ...] = ()
    """Names of platform tags, exactly as the platform has them, that become labels of `trainfleet_job_labels`."""


@dataclass(frozen=True, slots=True)
class Update:
    """A part's samples as a board takes them, None for a family that stays as it is; and what to compare with next
    time, where that is worth its memory."""

    rendered: Mapping[str, Sequence[bytes] | None]
    basis: Basis | None
    too_long: int = 0
    """How many label values were cut, and how many objects dropped because their ids are too long."""


class Renderer:
    """Renders objects of the model by the table of families, as the settings allow."""

    def __init__(self, settings: RenderSettings) -> None:
        self._job_labels = frozenset(settings.job_labels)
        self._rows: dict[type, list[Row]] = {of: [] for of in KEYS}
        self._columns: dict[tuple[type, str], Column] = {}
        for family in FAMILIES:
            if any(fnmatchcase(family.name, glob) for glob in settings.deny):
                continue
            read = family.read
            get = read.value if isinstance(read, Number) else None
            self._rows[family.of].append(Row(family.name, family.labels, read, get, get))
            if isinstance(read, Number | NumberByAccelerator):
                by_accelerator = isinstance(read, NumberByAccelerator)
                self._columns[family.of, read.path] = Column(family.name, by_accelerator)

    def render(self, provider: str, objects: Sequence[object]) -> dict[str, list[bytes]]:
        """Sample lines of the objects, family by family, in pieces of at most 1 MB that end with a line.

        A single line over 1 MB is a piece of its own. Families without samples are not in the answer. Objects come in
        the order given, and may be of several classes of `KEYS`, or `Readings`. A label value over 4,096 bytes is cut;
        an object with such an id is dropped.
        """
        work = _Rendering(self, provider, objects, None)
        for _ in work.steps():
            pass
        return work.finished()

    async def update(self, provider: str, objects: Sequence[object], basis: Basis | None) -> Update:
        """The same in slices, so that scrapes go on being answered. Of a part that was rendered before, which `basis`
        tells, only the families that changed are rendered."""
        work = _Rendering(self, provider, objects, basis)
        is_long = await _in_slices(work.steps()) >= _MANY
        if is_long:
            await give_way()
        rendered: dict[str, list[bytes] | None] = {**work.finished()}
        if is_long:
            await give_way()  # to show a megabyte is a slice by itself, as to put it together was
        if basis is not None:
            rendered |= dict.fromkeys(basis.families - work.stale, None)
        work.now.families = frozenset(rendered)
        is_remembered = len(objects) >= _REMEMBERED or bool(work.now.readings)
        return Update(rendered, work.now if is_remembered else None, work.now.too_long.total())

    def rows(self, of: type) -> Sequence[Row]:
        """The families of a class that are shown."""
        return self._rows[of]

    def comparison(self) -> Comparison:
        """What finds out which families have changed."""
        return Comparison(self._rows, self._columns)

    def column(self, readings: Readings) -> Column | None:
        """The family that shows a column; None where that is denied."""
        return self._columns.get((readings.of, readings.field))

    def further(self, names: tuple[str, ...] | None, values: tuple[str, ...]) -> tuple[str, int]:
        """Labels that come after those that name an object, each with its comma before it; how many values were cut."""
        if names is None:
            tags = dict(zip(values[::2], values[1::2], strict=True))
            pairs = tag_labels(tags, self._job_labels)
        else:
            pairs = list(zip(names, values, strict=True))
        long = [value for _, value in pairs if is_too_long(value)]
        if long:
            pairs = [(name, cut(value) if value in long else value) for name, value in pairs]
        return "".join([f',{name}="{escape_label(value)}"' for name, value in pairs]), len(long)


class _Rendering:
    """One rendering of a part, in steps of about half a millisecond."""

    def __init__(self, renderer: Renderer, provider: str, found: Sequence[object], basis: Basis | None) -> None:
        self._renderer = renderer
        self._first_label = f'provider="{escape_label(provider)}"'
        self._basis = basis
        self._piles: defaultdict[str, Pile] = defaultdict(Pile)
        objects, readings = sort_out(found)
        self.now = Basis(objects, readings)
        self.stale: set[str] = set()
        """The families that are rendered again, where there is a basis."""

    def finished(self) -> dict[str, list[bytes]]:
        """The samples of what was rendered."""
        return {family: pile.finish() for family, pile in self._piles.items()}

    def steps(self) -> Iterator[None]:
        """All the work; it may stop at each step for a while."""
        if self._basis is not None:
            comparison = self._renderer.comparison()
            yield from comparison.steps(self.now, self._basis)
            self.stale = comparison.changed
            for family in self._basis.too_long.keys() - self.stale - KEYS.keys():
                self.now.too_long[family] = self._basis.too_long[family]
        for of, objects in self.now.objects.items():
            yield from self._objects(of, objects)
        for readings in self.now.readings:
            yield from self._readings(readings)

    def _objects(self, of: type, objects: Sequence[object]) -> Iterator[None]:
        known = self._basis.labels.get(of, {}) if self._basis is not None else {}
        rows = [row for row in self._renderer.rows(of) if self._basis is None or row.name in self.stale]
        if not rows:
            self.now.labels[of] = known
            if self._basis is not None and of in self._basis.too_long:
                self.now.too_long[of] = self._basis.too_long[of]
            return
        written: dict[tuple[str, ...], str] = {}
        self.now.labels[of] = written
        names, keys = KEYS[of]
        began, done = perf_counter(), 0
        for found in objects:
            key = keys(found)
            labels = known.get(key) or self._labels(names, key)
            if labels:
                written[key] = labels
                self._lines(found, labels, rows)
            else:
                self.now.too_long[of] += 1
            done += 1
            if done >= SLICE_OBJECTS or perf_counter() - began >= SLICE_SECONDS:
                self._pack()
                yield
                began, done = perf_counter(), 0
        self._pack()

    def _lines(self, found: object, labels: str, rows: Sequence[Row]) -> None:
        piles, further_labels = self._piles, self._renderer.further
        for family, names, read, get, _ in rows:
            if get is not None:
                sample = get(found)
                if sample is not None:
                    piles[family].lines.append(f"{family}{{{labels}}} {format_value(sample)}\n")
                continue
            for values, sample in read(found):
                if names == ():
                    line = f"{family}{{{labels}}} {format_value(sample)}\n"
                else:
                    further, cuts = further_labels(names, values)
                    if not further:
                        continue
                    if cuts:
                        self.now.too_long[family] += cuts
                    line = f"{family}{{{labels}{further}}} {format_value(sample)}\n"
                piles[family].lines.append(line)

    def _readings(self, readings: Readings) -> Iterator[None]:
        column = self._renderer.column(readings)
        if column is None or not readings.subjects or (self._basis is not None and column.name not in self.stale):
            return
        names = KEYS[readings.of][0]
        head = f"{column.name}{{"
        tail = f',accelerator="{readings.accelerator}"}} ' if column.by_accelerator else "} "
        pile = self._piles[column.name]
        add = pile.lines.append
        for start in range(0, len(readings.subjects), SLICE_READINGS):
            end = start + SLICE_READINGS
            for subject, value in zip(readings.subjects[start:end], readings.values[start:end], strict=True):
                labels = subject.labels
                if not labels:
                    labels = subject.labels = self._labels(names, subject.keys)
                    if not labels:
                        self.now.too_long[column.name] += 1
                        continue
                text = repr(value)
                if text[-1] in "0fn":  # a whole number (or one that merely ends so), infinity, none
                    text = format_value(value)
                add(f"{head}{labels}{tail}{text}\n")
            pile.pack()
            yield

    def _labels(self, names: tuple[str, ...], keys: tuple[str, ...]) -> str:
        """The labels that name an object; empty where one of them is too long: cut, it might name another object."""
        if any(map(is_too_long, keys)):
            return ""
        labels = self._first_label
        for name, value in zip(names, keys, strict=True):
            labels += f',{name}="{escape_label(value)}"'
        return labels

    def _pack(self) -> None:
        for pile in self._piles.values():
            if pile.lines:
                pile.pack()


async def _in_slices(steps: Iterator[None]) -> int:
    """Take the steps, each in a slice of its own; how many there were."""
    taken = 0
    for _ in steps:
        taken += 1
        await give_way()
    return taken
