"""From model objects to sample lines, without timestamps and heads. Both formats use the same lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from trainfleet_exporter.exposition.blocks import CHUNK_BYTES
from trainfleet_exporter.exposition.text import cut, escape_label, format_value, format_values, is_plain, is_too_long
from trainfleet_exporter.families import FAMILIES, KEYS, MetricFamily
from trainfleet_exporter.families.family import Samples, is_denied
from trainfleet_exporter.model import ClassicHistogram, Readings, Subject

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_]")
"""What a label name cannot hold."""
_AT_ONCE = 1000
"""Objects that are rendered together: the lines of all would take much memory, and objects stay in the fast caches."""


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """The choices of the config."""

    deny: tuple[str, ...] = ()
    """Globs on sample names, case-sensitive. Families that match one are not rendered."""
    job_labels: tuple[str, ...] = ()
    """Names of platform tags, exactly as the platform has them, that become labels of `trainfleet_job_labels`."""


@dataclass(slots=True)
class Rendered:
    """The sample lines of a part, by family, in texts of whole lines, of at most CHUNK_BYTES (a longer line apart)."""

    lines: dict[str, list[bytes]] = field(default_factory=dict)
    series: int = 0
    """Number of lines."""
    too_long: int = 0
    """How many label values were cut, and how many objects dropped because their ids are too long."""

    def add(self, family: str, pieces: Sequence[str], lines: int) -> None:
        """Append so many lines of a family as one text, or as several where they are long."""
        if lines:
            self.series += lines
            self.lines.setdefault(family, []).extend(_texts("".join(pieces).encode()))

    def add_column(self, family: str, names: Sequence[str], ends: Sequence[str], values: Sequence[float]) -> None:
        """Append a line for each value, with the labels of its object, and its further labels and what closes them."""
        pieces = [f"{family}{{", "", "", "", "\n"] * len(names)
        pieces[1::5], pieces[2::5], pieces[3::5] = names, ends, format_values(values)
        self.add(family, pieces, len(names))


class Renderer:
    """Renders objects of the model by the table of families, as the settings allow."""

    def __init__(self, settings: RenderSettings) -> None:
        self._job_labels = frozenset(settings.job_labels)
        self._families: defaultdict[type, list[MetricFamily]] = defaultdict(list)
        for family in FAMILIES:
            if not is_denied(family.name, settings.deny) and (settings.job_labels or family.labels is not None):
                self._families[family.of].append(family)

    def render(self, provider: str, objects: Sequence[object]) -> Rendered:
        """Render objects of classes of `KEYS`, and `Readings`, in their order.

        A label value over 4,096 bytes is cut; an object with such an id is dropped.
        """
        rendered = Rendered()
        by_class: defaultdict[type, list[Any]] = defaultdict(list)
        for found in objects:
            by_class[type(found)].append(found)
        columns: list[Readings] = by_class.pop(Readings, [])
        for of, found in by_class.items():
            names, keys = KEYS[of]
            naming = _Naming(provider, names)
            for start in range(0, len(found) if self._families[of] else 0, _AT_ONCE):
                group = found[start : start + _AT_ONCE]
                labels = [naming.labels(keys(each)) for each in group]
                rendered.too_long += labels.count("")
                kept, labels = list(compress(group, labels)), list(filter(None, labels))
                for shown in self._families[of]:
                    self._write(shown, shown.read(kept, labels), rendered)
        for column in columns:
            for family in [each for each in self._families[column.of] if each.field == column.field]:
                naming, kind = _Naming(provider, KEYS[column.of][0]), (column.accelerator,) if family.labels else ()
                end = f"{_Further(family.labels, self._job_labels).labels(kind)}}} "
                for start in range(0, len(column.subjects), _AT_ONCE):
                    subjects = column.subjects[start : start + _AT_ONCE]
                    labels = [subject.labels or naming.write(subject) for subject in subjects]
                    rendered.too_long += labels.count("")
                    values = list(compress(column.values[start : start + _AT_ONCE], labels))
                    rendered.add_column(family.name, list(filter(None, labels)), [end] * len(values), values)
        return rendered

    def _write(self, family: MetricFamily, samples: Samples, rendered: Rendered) -> None:
        """Write samples of a family: the labels of their objects, the values of further labels, the values."""
        names, further, values = samples
        if family.kind == "histogram":
            lines = [line for each in zip(names, values, strict=True) for line in _histogram_lines(family.name, *each)]
            rendered.add(family.name, lines, len(lines))
            return
        writer = _Further(family.labels, self._job_labels)
        texts = {each: f"{writer.labels(each)}}} " for each in set(further)}  # many samples have the same
        rendered.too_long += sum([writer.cuts[each] for each in further]) if writer.cuts else 0
        ends = ["} "] * len(names) if family.labels == () else [texts[each] for each in further]
        if family.labels is None:  # an object may have none of the labels that are shown
            has_any = [end != "} " for end in ends]
            names, ends, values = ([*compress(column, has_any)] for column in (names, ends, values))
        rendered.add_column(family.name, names, ends, values)


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
        self.cuts: Counter[tuple[str, ...]] = Counter()
        """How many of some values were too long."""

    def labels(self, values: tuple[str, ...]) -> str:
        """Return the labels; empty without any."""
        if self._names is not None:
            if is_plain("".join(values)):
                return self._template % values
            return self._template % tuple([self._escaped(value, values) for value in values])
        pairs = _tag_labels(dict(zip(values[::2], values[1::2], strict=True)), self._job_labels)
        return "".join([f',{name}="{self._escaped(value, values)}"' for name, value in pairs])

    def _escaped(self, value: str, values: tuple[str, ...]) -> str:
        if is_too_long(value):
            self.cuts[values] += 1
            value = cut(value)
        return escape_label(value)


def _template(names: Sequence[str]) -> str:
    return "".join([f',{name}="%s"' for name in names])


def _histogram_lines(name: str, labels: str, shown: ClassicHistogram) -> Iterator[str]:
    """Yield the lines of a histogram: bounds are written as OpenMetrics wants them, with a point."""
    for bound, count in (*zip(map(repr, map(float, shown.bounds)), shown.counts, strict=True), ("+Inf", shown.count)):
        yield f'{name}_bucket{{{labels},le="{bound}"}} {count}\n'
    yield f"{name}_sum{{{labels}}} {format_value(shown.sum)}\n"
    yield f"{name}_count{{{labels}}} {shown.count}\n"


def _texts(data: bytes) -> Iterator[bytes]:
    """Yield the lines in texts of at most CHUNK_BYTES. A longer line is a separate text."""
    start = 0
    while len(data) - start > CHUNK_BYTES:
        end = data.rfind(b"\n", start, start + CHUNK_BYTES) + 1 or data.index(b"\n", start) + 1
        yield data[start:end]
        start = end
    yield data[start:] if start else data


def _tag_labels(tags: Mapping[str, str], wanted: Container[str]) -> list[tuple[str, str]]:
    """Return label names and values of the wanted tags of a platform, sorted by tag name.

    Tags whose names differ only in characters that a label name cannot hold (`team-a`, `team.a`) would share a label:
    all of them, also the first, get `_conflict1`, `_conflict2` and so on in the order of their names. A number that
    would meet a tag that is really called so is passed over, as in kube-state-metrics.
    """
    chosen = [(f"label_{_ILLEGAL.sub('_', tag)}", tags[tag]) for tag in sorted(tags) if tag in wanted]
    if len({name for name, _ in chosen}) == len(chosen):
        return chosen
    uses = Counter(name for name, _ in chosen)
    taken = {name for name, times in uses.items() if times == 1}
    numbers: Counter[str] = Counter()
    labels = []
    for name, value in chosen:
        label = name
        if uses[name] > 1:
            while label == name or label in taken:
                numbers[name] += 1
                label = f"{name}_conflict{numbers[name]}"
            taken.add(label)
        labels.append((label, value))
    return labels
