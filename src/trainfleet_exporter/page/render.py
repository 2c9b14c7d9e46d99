"""From model objects to sample lines, without timestamps and heads. Both formats use the same lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from trainfleet_exporter.families import FAMILIES, KEYS, MetricFamily
from trainfleet_exporter.families.family import Number, NumberByAccelerator, NumbersByWord, WholeHistogram, Word
from trainfleet_exporter.model import Readings, Subject
from trainfleet_exporter.page.blocks import CHUNK_BYTES
from trainfleet_exporter.page.tag_labels import tag_labels
from trainfleet_exporter.page.text import cut, escape_label, format_value, format_values, is_plain, is_too_long


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """The choices of the config."""

    deny: tuple[str, ...] = ()
    """Globs on sample names, case-sensitive. Families that match one are not rendered."""
    job_labels: tuple[str, ...] = ()
    """Names of platform tags, exactly as the platform has them, that become labels of `trainfleet_job_labels`."""


class ColumnFamily(NamedTuple):
    """The family that shows the `Readings` of a field."""

    name: str
    by_accelerator: bool


@dataclass(slots=True)
class Rendered:
    """The sample lines of a part, by family, in texts of whole lines, of at most CHUNK_BYTES (a longer line apart)."""

    lines: dict[str, list[bytes]] = field(default_factory=dict)
    series: int = 0
    """Number of lines."""
    too_long: int = 0
    """How many label values were cut, and how many objects dropped because their ids are too long."""

    def add(self, family: str, lines: list[str]) -> None:
        """Append lines of a family as one text, or as several where they are long."""
        if lines:
            self.series += len(lines)
            self.lines.setdefault(family, []).extend(_texts("".join(lines).encode()))


class Renderer:
    """Renders objects of the model by the table of families, as the settings allow."""

    def __init__(self, settings: RenderSettings) -> None:
        self._job_labels = frozenset(settings.job_labels)
        self._families: dict[type, list[MetricFamily]] = {of: [] for of in KEYS}
        self._columns: dict[tuple[type, str], ColumnFamily] = {}
        for family in FAMILIES:
            if any(fnmatchcase(family.name, glob) for glob in settings.deny):
                continue
            self._families[family.of].append(family)
            if isinstance(family.read, Number | NumberByAccelerator):
                by_accelerator = isinstance(family.read, NumberByAccelerator)
                self._columns[family.of, family.read.path] = ColumnFamily(family.name, by_accelerator)

    @property
    def shown(self) -> frozenset[str]:
        """The names of the families that the settings allow."""
        return frozenset([family.name for families in self._families.values() for family in families])

    def column(self, readings: Readings) -> ColumnFamily | None:
        """Return the family that shows a column, or None if the config denies it."""
        return self._columns.get((readings.of, readings.field))

    def render(self, provider: str, objects: Sequence[object]) -> Rendered:
        """Render objects of classes of `KEYS`, and `Readings`, in their order.

        A label value over 4,096 bytes is cut; an object with such an id is dropped.
        """
        rendered = Rendered()
        by_class: dict[type, list[Any]] = {}
        for found in objects:
            by_class.setdefault(type(found), []).append(found)
        columns: list[Readings] = by_class.pop(Readings, [])
        for of, group in by_class.items():
            self._objects(provider, of, group, rendered)
        for column in columns:
            self._readings(provider, column, rendered)
        return rendered

    def _objects(self, provider: str, of: type, objects: Sequence[Any], rendered: Rendered) -> None:
        families = self._families[of]
        if not families:
            return
        names, keys = KEYS[of]
        naming = _Naming(provider, names)
        labelled = [(naming.labels(keys(found)), found) for found in objects]
        named = [(labels, found) for labels, found in labelled if labels]
        rendered.too_long += len(labelled) - len(named)
        for family in families:
            if isinstance(family.read, Number):
                rendered.add(family.name, _number_lines(f"{family.name}{{", family.read.value, named))
            elif isinstance(family.read, WholeHistogram):
                rendered.add(family.name, _histogram_lines(family.name, family.read, named))
            else:
                further = _Further(family.labels, self._job_labels)
                make = _lines
                if isinstance(family.read, Word):
                    make = _word_lines
                elif isinstance(family.read, NumbersByWord):
                    make = _numbers_by_word_lines
                rendered.add(family.name, make(f"{family.name}{{", family.read, further, named))
                rendered.too_long += further.cuts

    def _readings(self, provider: str, readings: Readings, rendered: Rendered) -> None:
        column = self.column(readings)
        if column is None:
            return
        naming = _Naming(provider, KEYS[readings.of][0])
        head = f"{column.name}{{"
        tail = f',accelerator="{readings.accelerator}"}} ' if column.by_accelerator else "} "
        numbers = format_values(list(readings.values))
        labels = [subject.labels or naming.write(subject) for subject in readings.subjects]
        lines = [f"{head}{text}{tail}{number}\n" for text, number in zip(labels, numbers, strict=True) if text]
        rendered.too_long += len(labels) - len(lines)
        rendered.add(column.name, lines)


class _Naming:
    """Writes the labels that name objects of one class: the provider and the class's keys."""

    def __init__(self, provider: str, names: Sequence[str]) -> None:
        self._provider = f'provider="{escape_label(provider)}"'
        self._names = names
        self._template = _template(names)

    def labels(self, keys: tuple[str, ...]) -> str:
        """Return the labels of an object; empty if a key is too long for a label, because a truncated key could name
        another object."""
        if is_plain("".join(keys)):
            return self._provider + self._template % keys
        if any(map(is_too_long, keys)):
            return ""
        return self._provider + self._template % tuple(map(escape_label, keys))

    def write(self, subject: Subject) -> str:
        """Return the labels of a subject, and keep them on it."""
        subject.labels = self.labels(subject.keys)
        return subject.labels


class _Further:
    """Writes the labels of a family that come after those that name an object, each with its comma before it."""

    def __init__(self, names: tuple[str, ...] | None, job_labels: frozenset[str]) -> None:
        self._names = names
        self._job_labels = job_labels
        self._template = _template(names or ())
        self.cuts = 0
        """How many values were too long."""

    def labels(self, values: tuple[str, ...]) -> str | None:
        """None if the family has labels but there is nothing to show."""
        if self._names is not None:
            if is_plain("".join(values)):
                return self._template % values
            return self._template % tuple(map(self._escaped, values))
        tags = dict(zip(values[::2], values[1::2], strict=True))
        pairs = tag_labels(tags, self._job_labels)
        return "".join([f',{name}="{self._escaped(value)}"' for name, value in pairs]) or None

    def _escaped(self, value: str) -> str:
        if is_too_long(value):
            self.cuts += 1
            value = cut(value)
        return escape_label(value)


def _template(names: Sequence[str]) -> str:
    return "".join([f',{name}="%s"' for name in names])


def _number_lines(head: str, get: Callable[[Any], float | None], named: Sequence[tuple[str, object]]) -> list[str]:
    """The lines of a family that reads one number of an object."""
    shown = [(labels, value) for labels, found in named if (value := get(found)) is not None]
    numbers = format_values([value for _, value in shown])
    return [f"{head}{labels}}} {text}\n" for (labels, _), text in zip(shown, numbers, strict=True)]


def _word_lines(head: str, read: Any, further: _Further, named: Sequence[tuple[str, object]]) -> list[str]:
    """The lines of a family with one word as its label. Many objects have the same one."""
    shown = [(labels, word) for labels, found in named if (word := read.value(found))]
    ends = {word: f"{further.labels((word,))}}} 1\n" for word in {word for _, word in shown}}
    further.cuts = sum(is_too_long(word) for _, word in shown)
    return [f"{head}{labels}{ends[word]}" for labels, word in shown]


def _numbers_by_word_lines(head: str, read: Any, further: _Further, named: Sequence[tuple[str, object]]) -> list[str]:
    """The lines of a family with some numbers for each object, by word. Many objects have the same words."""
    shown = [(labels, read.word(entry), entry) for labels, found in named for entry in read.entries(found)]
    numbers = format_values([read.value(entry) for _, _, entry in shown])
    ends = {word: f"{further.labels((word,))}}} " for word in {word for _, word, _ in shown}}
    further.cuts = sum([is_too_long(word) for _, word, _ in shown])
    return [f"{head}{labels}{ends[word]}{text}\n" for (labels, word, _), text in zip(shown, numbers, strict=True)]


def _histogram_lines(name: str, read: WholeHistogram, named: Sequence[tuple[str, object]]) -> list[str]:
    """The lines of a histogram: bounds are written as OpenMetrics wants them, with a point."""
    lines: list[str] = []
    for labels, found in named:
        if (shown := read.value(found)) is not None:
            buckets = [*zip(map(repr, map(float, shown.bounds)), shown.counts, strict=True), ("+Inf", shown.count)]
            lines += [f'{name}_bucket{{{labels},le="{bound}"}} {count}\n' for bound, count in buckets]
            lines += [
                f"{name}_sum{{{labels}}} {format_value(shown.sum)}\n",
                f"{name}_count{{{labels}}} {shown.count}\n",
            ]
    return lines


def _lines(head: str, read: Callable[[Any], Any], further: _Further, named: Sequence[tuple[str, object]]) -> list[str]:
    """The lines of any family."""
    lines: list[str] = []
    for labels, found in named:
        for values, value in read(found):
            more = further.labels(values)
            if more is not None:
                lines.append(f"{head}{labels}{more}}} {'1' if value == 1 else format_value(value)}\n")
    return lines


def _texts(data: bytes) -> Iterator[bytes]:
    """Yield the lines in texts of at most CHUNK_BYTES. A longer line is a separate text."""
    start = 0
    while len(data) - start > CHUNK_BYTES:
        end = data.rfind(b"\n", start, start + CHUNK_BYTES) + 1
        if not end:
            end = data.index(b"\n", start) + 1
        yield data[start:end]
        start = end
    yield data[start:] if start else data
