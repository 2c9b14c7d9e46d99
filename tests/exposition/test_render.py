"""Rendering: order, texts, and what the settings allow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainfleet_conformance.page import samples
from trainfleet_exporter.exposition.blocks import CHUNK_BYTES
from trainfleet_exporter.exposition.render import Rendered, Renderer, RenderSettings
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.model import Job, JobCount, Pod, PodUsage, Readings, Status, Subject

from .examples import EXAMPLES

ALL = [found for examples in EXAMPLES.values() for found in examples]


def test_denied_families_are_not_rendered() -> None:
    rendered = Renderer(RenderSettings(deny=("*_info", "trainfleet_pool_*", "TRAINFLEET_*"))).render("p", ALL).lines
    expected = {f.name for f in FAMILIES if not f.name.endswith("_info") and "_pool_" not in f.name}
    assert set(rendered) == expected - {"trainfleet_job_labels"}


@given(st.text(st.sampled_from('\\"\n\r\t\0n{}=, #\x85\u2028\ud800😀é')))
@example('"} 2\nother_gauge{a="')
def test_any_label_text_is_read_back(text: str) -> None:
    page = Renderer(RenderSettings()).render("p", [Job(job_id="j", name=text)]).lines["trainfleet_job_info"]
    ((_, labels, _),) = samples(b"".join(page))
    assert labels["job_name"] == text.replace("\ud800", "\ufffd")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([-0.0, 9.9e-5, 1e15]), min_size=1))
@example([5e-324, 1.7976931348623157e308])
@example([9.9e-5, 1e-7])
def test_any_finite_numbers_are_read_back(values: list[float]) -> None:
    subjects = [Subject(("j", f"p{number}")) for number in range(len(values))]
    jobs = [Job(job_id=str(number), duration=value) for number, value in enumerate(values)]
    page = Renderer(RenderSettings()).render("p", [*jobs, Readings(PodUsage, "values.cpu_cores", subjects, values)])
    for family in ("job_duration_seconds", "pod_cpu_usage_cores"):
        lines = b"".join(page.lines[f"trainfleet_{family}"])
        assert [value for *_, value in samples(lines)] == values


@given(
    st.dictionaries(
        st.text(st.sampled_from("ab_.-1é"), min_size=1), st.text(st.sampled_from("xy"), min_size=1), min_size=1
    )
)
@example({"a.b": "x", "a-b": "y", "a_b_conflict1": "x", "c": "y"})
def test_each_wanted_tag_has_a_label_of_its_own(tags: dict[str, str]) -> None:
    renderer = Renderer(RenderSettings(job_labels=tuple(tags)))
    page = renderer.render("p", [Job(job_id="j", tags=(*tags.items(), ("unwanted", "z")))]).lines
    ((_, labels, _),) = samples(b"".join(page["trainfleet_job_labels"]))
    shown = {name: text for name, text in labels.items() if name.startswith("label_")}
    assert sorted(shown.values()) == sorted(tags.values())
    assert all(re.fullmatch(r"label_[a-zA-Z0-9_]+", name) for name in shown)
    taken = Counter(re.sub("[^a-zA-Z0-9_]", "_", f"label_{tag}") for tag in tags)
    assert {name for name in shown if "_conflict" not in name} == {
        name for name, count in taken.items() if count == 1 and "_conflict" not in name
    }


def test_long_lines_are_cut_at_their_ends_and_never_inside() -> None:
    names = tuple(f"t{number}" for number in range(90))  # a tag has at most 4,096 bytes, a line has many

    def job(job_id: str, tags: int) -> Job:
        return Job(job_id=job_id, tags=tuple((name, "x" * 4000) for name in names[:tags]))

    found = [*(job(str(n), 25) for n in range(7)), job("giant", 90), job("last", 1)]
    pieces = Renderer(RenderSettings(job_labels=names)).render("p", found).lines["trainfleet_job_labels"]
    assert [len(piece) <= CHUNK_BYTES for piece in pieces].count(False) == 1
    assert all(piece.endswith(b"\n") for piece in pieces)
    lines = b"".join(pieces).decode().splitlines()
    assert [(line.split('"')[3], line.count("label_t")) for line in lines] == [
        (job.job_id, len(job.tags)) for job in found
    ]


def _rendered(objects: Sequence[object]) -> Rendered:
    return Renderer(RenderSettings(job_labels=("team",))).render("p", objects)


LONG = "é" * 2049
"""4,098 bytes."""


@pytest.mark.parametrize("value", ["x" * 4097, LONG, "x" + LONG, "研" * 1366, "😀" * 1025, "\ud800" * 1366, '"' * 5000])
def test_a_label_value_that_is_too_long_is_cut_and_counted(value: str) -> None:
    rendered = _rendered([Job(job_id="j", name=value, tags=(("team", value),))])
    page = b"".join(b"".join(pieces) for pieces in rendered.lines.values())
    shown = {name: labels for name, labels, _ in samples(page)}
    clean = value.replace("\ud800", "\ufffd")
    for text in (shown["trainfleet_job_info"]["job_name"], shown["trainfleet_job_labels"]["label_team"]):
        assert 4096 - 4 < len(text.encode()) <= 4096
        assert text.endswith("…")
        beginning = text.rpartition("#")[0]
        assert clean.startswith(beginning)
        assert len(beginning.encode()) > 4000
    assert rendered.too_long == 2


@pytest.mark.parametrize("value", ["x" * 4096, "é" * 2048, "😀" * 1024, "\ud800" * 1365, "\n" * 4096])
def test_a_label_value_of_4096_bytes_is_whole(value: str) -> None:
    rendered = _rendered([Job(job_id="j", name=value)])
    ((_, labels, _),) = samples(b"".join(rendered.lines["trainfleet_job_info"]))
    assert labels["job_name"] == value.replace("\ud800", "\ufffd")
    assert rendered.too_long == 0


def test_long_values_that_begin_alike_stay_two_series() -> None:
    found = [JobCount("1", Status.UNKNOWN, "x" * 5000 + end, 1) for end in "ab"]
    first, second = samples(b"".join(_rendered(found).lines["trainfleet_jobs"]))
    assert first[1] != second[1]
    again, _ = samples(b"".join(_rendered(found).lines["trainfleet_jobs"]))
    assert again == first  # the same series in the next poll


def test_an_object_whose_id_is_too_long_is_dropped_alone() -> None:
    found = [Pod(job_id="j", pod_id=pod_id, role="worker") for pod_id in ("a", "x" * 4097, "b")]
    subjects = [Subject(("j", pod_id)) for pod_id in ("a", "x" * 4097, "b")]
    column = Readings(PodUsage, "values.cpu", subjects, [0.1, 0.2, 0.3])
    rendered = _rendered([*found, column])
    page = b"".join(b"".join(pieces) for pieces in rendered.lines.values())
    assert {labels["pod_id"] for _, labels, _ in samples(page)} == {"a", "b"}
    usage = samples(b"".join(rendered.lines["trainfleet_pod_cpu_utilization_ratio"]))
    assert [value for _, _, value in usage] == [0.1, 0.3]
    assert rendered.too_long == 2  # the pod, and its reading


def test_a_denied_column_is_not_rendered() -> None:
    column = Readings(PodUsage, "values.cpu", [Subject(("j", "p")), Subject(("x" * 5000, "p"))], [1.0, 2.0])
    rendered = Renderer(RenderSettings(deny=("*_cpu_*",))).render("p", [column])
    assert (rendered.lines, rendered.series, rendered.too_long) == ({}, 0, 0)
