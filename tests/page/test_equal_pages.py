"""Every page that is sent equals, byte for byte, what a plain renderer writes: by loops, nothing kept or shared."""

from __future__ import annotations

import asyncio
import gzip
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trainfleet_exporter.families import FAMILIES, KEYS, MetricFamily
from trainfleet_exporter.model import (
    Accelerator,
    ClassicHistogram,
    DeviceUsage,
    JobUsage,
    PodUsage,
    PoolUsage,
    Readings,
    Subject,
    UsageValues,
)
from trainfleet_exporter.page import Format, PageStore, Renderer, RenderSettings
from trainfleet_exporter.page import render as render_module
from trainfleet_exporter.page.tag_labels import tag_labels

from .examples import EXAMPLES, JOB_LABELS

PROVIDER = 'p"1'
SETTINGS = RenderSettings(deny=("trainfleet_job_priority", "trainfleet_pod_disk_*"), job_labels=JOB_LABELS)
OWN = b"# HELP own x\n# TYPE own gauge\nown 1\n"

texts = st.text(st.sampled_from('ab"\\\né€\ud800'), max_size=4)
numbers = st.sampled_from([0.0, -0.0, 1.0, 0.1, 0.12345678901234567, 1e-7, 123456789.5, 1e15, 1e16, 1e300, -2.5]) | (
    st.floats()
)
kinds: st.SearchStrategy[Accelerator] = st.sampled_from(("gpu", "npu"))
USAGE: dict[type, tuple[str, ...]] = {
    JobUsage: ("j",),
    PodUsage: ("j", "p"),
    DeviceUsage: ("j", "p", "0", "gpu"),
    PoolUsage: ("pool",),
}
ACTIONS = (*["update"] * 6, "put", "drop", "look")
DEVICE_FIELDS = DeviceUsage.__struct_fields__[len(USAGE[DeviceUsage]) :]
FIELDS = {
    **dict.fromkeys(USAGE, tuple(f"values.{name}" for name in UsageValues.__struct_fields__ if name != "accelerator")),
    DeviceUsage: DEVICE_FIELDS,
}
FIELDS[PoolUsage] = (*FIELDS[PoolUsage], "disk_utilization", "disk_capacity_bytes", "disk_available_bytes")


@st.composite
def columns(draw: st.DrawFn) -> Readings:
    """Readings of things that are so called by one text; which of them there are differs."""
    of = draw(st.sampled_from(list(USAGE)))
    names = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    subjects = [Subject((name, *USAGE[of][1:])) for name in names]
    values = array("d", [draw(numbers) for _ in names])
    field = draw(st.sampled_from(FIELDS[of][:4]) | st.sampled_from(FIELDS[of]))  # the first are of accelerators
    return Readings(of, field, subjects, values)


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[int, str, list[object]]]:
    """Changes of few parts, which have much in common from one to the next: number, what is done, new objects."""
    objects: list[Any] = list(draw(st.sampled_from(list(EXAMPLES.values()))))
    objects += [replace(one, job_id=draw(texts)) for one in objects if hasattr(one, "job_id")][:3]
    usage = st.builds(UsageValues, cpu=numbers, accelerator=kinds, accelerator_memory=numbers)
    objects += [PodUsage(f"j{number}", "p", values) for number, values in enumerate(draw(st.lists(usage, max_size=2)))]
    picks = [st.lists(st.sampled_from(objects), max_size=4, unique_by=id)]
    for column in draw(st.lists(columns(), min_size=2, max_size=3)):
        renamed = [Subject((f"{subject.keys[0]}x" * 30, *subject.keys[1:])) for subject in column.subjects]
        others = replace(column, subjects=renamed), replace(column, accelerator="npu")
        thirds = replace(column, values=array("d", [value / 3 for value in column.values]))
        picks.append(st.sampled_from([[column], [thirds], *([other] for other in others), []]))
    found = st.tuples(*picks).map(lambda chosen: [one for some in chosen for one in some])
    return draw(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(ACTIONS), found), min_size=4, max_size=12))


def as_objects(found: Readings) -> Iterator[object]:
    """The same readings, an object each."""
    for subject, value in zip(found.subjects, found.values, strict=True):
        outer, _, inner = found.field.rpartition(".")
        given: dict[str, Any] = {} if outer else {inner: value}
        if found.of is not DeviceUsage:
            given["values"] = UsageValues(accelerator=found.accelerator, **({inner: value} if outer else {}))
        keys = dict(zip(KEYS[found.of][0], subject.keys, strict=True))
        yield found.of(**keys, **given)


class Plain:
    """The plain renderer."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[int, str]] = {family.name: {} for family in FAMILIES}

    def put(self, part: int, found: Sequence[object]) -> None:
        for family in FAMILIES:
            if any(fnmatchcase(family.name, glob) for glob in SETTINGS.deny):
                continue
            objects = [one for one in found if type(one) is family.of]
            for one in found:
                if isinstance(one, Readings) and one.of is family.of and family.field == one.field:
                    objects += as_objects(one)
            lines = "".join(line for one in objects for line in lines_of(family, one))
            if lines:
                self._samples[family.name][part] = lines  # in its place, or at the end
            else:
                self._samples[family.name].pop(part, None)

    def page(self, fmt: Format) -> bytes:
        page = ""
        for family in FAMILIES:
            samples = "".join(self._samples[family.name].values())
            if samples:
                name, text = family.name, family.help.replace("\\", "\\\\").replace("\n", "\\n")
                if fmt is Format.OPENMETRICS:
                    text = text.replace('"', '\\"')
                    if family.kind == "counter":
                        assert name.endswith("_total")
                        name = name[:-6]
                page += f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n{samples}"
        page += OWN.decode()
        return (page + "# EOF\n" if fmt is Format.OPENMETRICS else page).encode()


def lines_of(family: MetricFamily, found: object) -> Iterator[str]:
    names, keys = KEYS[family.of]
    for values, value in family.read(found):
        if isinstance(value, ClassicHistogram):
            named = [("provider", PROVIDER), *zip(names, keys(found), strict=True)]
            text = ",".join(f"{name}={quoted(value)}" for name, value in named)
            yield from histogram_lines(family.name, text, value)
            continue
        if family.labels is None:
            pairs = tag_labels(dict(zip(values[::2], values[1::2], strict=True)), frozenset(JOB_LABELS))
            if not pairs:
                continue
        else:
            pairs = list(zip(family.labels, values, strict=True))
        labels = [("provider", PROVIDER), *zip(names, keys(found), strict=True), *pairs]
        yield f"{family.name}{{{','.join(f'{name}={quoted(text)}' for name, text in labels)}}} {number(value)}\n"


def histogram_lines(name: str, labels: str, shown: ClassicHistogram) -> Iterator[str]:
    for bound, count in zip(shown.bounds, shown.counts, strict=True):
        yield f'{name}_bucket{{{labels},le="{bound}"}} {count}\n'
    yield f'{name}_bucket{{{labels},le="+Inf"}} {shown.count}\n'
    yield f"{name}_sum{{{labels}}} {number(shown.sum)}\n"
    yield f"{name}_count{{{labels}}} {shown.count}\n"


def quoted(text: str) -> str:
    escaped = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(["\ufffd" if "\ud800" <= c <= "\udfff" else escaped.get(c, c) for c in text]) + '"'


def number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and (isinstance(value, int) or abs(value) < 1e15):
        return str(int(value))
    return repr(value)


@pytest.fixture(autouse=True)
def _everything_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small parts have many texts."""
    monkeypatch.setattr(render_module, "CHUNK_BYTES", 200)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example(name: str) -> None:
    page_store, plain = PageStore(), Plain()
    plain.put(0, EXAMPLES[name])
    page_store.put(0, Renderer(SETTINGS).render(PROVIDER, EXAMPLES[name]).lines)
    check(page_store, plain)


def check(page_store: PageStore, plain: Plain) -> None:
    for fmt in Format:
        expected = plain.page(fmt)
        for page in (page_store.current(), page_store.page()):
            assert page.body(fmt, OWN, gzip=False).joined() == expected
            zipped = page.body(fmt, OWN, gzip=True).joined()
            inflater = zlib.decompressobj(31)
            assert inflater.decompress(zipped) == expected
            assert inflater.eof
            assert inflater.unused_data == b""
            assert gzip.decompress(zipped) == expected


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(sequences())
def test_any_sequence_of_changes(sequence: list[tuple[int, str, list[object]]]) -> None:
    async def main() -> None:
        store, renderer, plain = PageStore(), Renderer(SETTINGS), Plain()
        for part, what, found in sequence:
            match what:
                case "put":
                    store.put(part, renderer.render(PROVIDER, found).lines)
                    plain.put(part, found)
                case "update":
                    rendered = renderer.render(PROVIDER, found)
                    store.put(part, rendered.lines)
                    assert sum(store.series(part).values()) == rendered.series
                    plain.put(part, found)
                case "drop":
                    store.drop(part)
                    plain.put(part, [])
                case "look":
                    check(store, plain)
        store.build()
        check(store, plain)

    asyncio.run(main())


def test_a_page_of_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    subjects = [Subject((f"j{number // 8}", f"p{number}")) for number in range(20_000)]
    values = array("d", [number / 7 for number in range(20_000)])
    found = [Readings(PodUsage, field, subjects, values) for field in ("values.cpu", "values.memory")]

    async def main() -> None:
        store, plain = PageStore(), Plain()
        store.put(0, Renderer(SETTINGS).render(PROVIDER, found).lines)
        plain.put(0, found)
        assert len(store.current().samples("trainfleet_pod_cpu_utilization_ratio")) > 3
        store.build()
        check(store, plain)

    asyncio.run(main())
