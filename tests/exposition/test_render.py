"""Rendering: order, pieces, slices, and what the settings allow."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from trainfleet_exporter.exposition import Basis, Update
from trainfleet_exporter.exposition import render as render_module
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.exposition.render import Renderer, RenderSettings
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.model import Job, JobCount, Pod, PodUsage, Readings, Status, Subject

from .examples import EXAMPLES, JOB_LABELS
from .reading import Sample, joined, samples

ALL = [found for examples in EXAMPLES.values() for found in examples]


def pods(count: int) -> list[Pod]:
    return [Pod(job_id=f"dlc{n // 8}", pod_id=f"dlc{n // 8}-worker-{n % 8}", created=float(n)) for n in range(count)]


def test_every_series_occurs_once() -> None:
    rendered = Renderer(RenderSettings(job_labels=JOB_LABELS)).render("p", ALL)
    series = Counter((name, *sorted(labels.items())) for name, labels, _ in samples(joined(rendered)))
    assert set(rendered) == {family.name for family in FAMILIES}
    assert max(series.values()) == 1


def test_every_row_of_the_table_is_rendered_as_it_reads() -> None:
    # The renderer takes a shorter way to single numbers, which must lead to the same place.
    rendered = samples(joined(Renderer(RenderSettings()).render("p", ALL)))
    expected = []
    for family in FAMILIES:
        names, keys = KEYS[family.of]
        for found in ALL:
            if type(found) is not family.of or family.labels is None:
                continue
            for values, value in family.read(found):
                labels = zip((*names, *family.labels), (*keys(found), *values), strict=True)
                expected.append((family.name, {"provider": "p", **dict(labels)}, float(value)))

    def ordered(lines: list[Sample]) -> list[Sample]:
        return sorted(lines, key=lambda line: (line[0], sorted(line[1].items())))

    assert ordered(rendered) == ordered(expected)


def test_labels_come_in_the_order_of_provider_keys_and_further_labels() -> None:
    rendered = Renderer(RenderSettings()).render('a"b', [Pod(job_id="j", pod_id="p\n", status=Status.QUEUED)])
    assert rendered["trainfleet_pod_status"] == [
        b'trainfleet_pod_status{provider="a\\"b",job_id="j",pod_id="p\\n",status="queued"} 1\n'
    ]


def test_what_the_platform_did_not_say_has_no_sample() -> None:
    rendered = Renderer(RenderSettings(job_labels=JOB_LABELS)).render("p", [Job(job_id="j")])
    assert set(rendered) == {"trainfleet_job_info", "trainfleet_job_status"}


@pytest.mark.parametrize(("held", "value"), [(True, b"1"), (False, b"0")])
def test_a_truth_is_one_or_zero(held: bool, value: bytes) -> None:
    rendered = Renderer(RenderSettings()).render("p", [Job(job_id="j", holds_resources=held)])
    assert rendered["trainfleet_job_holds_resources"] == [
        b'trainfleet_job_holds_resources{provider="p",job_id="j"} ' + value + b"\n"
    ]


def test_no_objects_no_families() -> None:
    assert Renderer(RenderSettings()).render("p", []) == {}


def test_an_object_has_its_labels_escaped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    escaped: Counter[str] = Counter()

    def counting(value: str) -> str:
        escaped[value] += 1
        return value

    monkeypatch.setattr(render_module, "escape_label", counting)
    rendered = Renderer(RenderSettings()).render("prov", EXAMPLES["pod"][:1])
    assert len(rendered) == 6
    assert escaped["prov"] == escaped["dlc1example0001a"] == escaped["dlc1example0001a-worker-0"] == 1


def test_denied_families_are_not_rendered() -> None:
    rendered = Renderer(RenderSettings(deny=("*_info", "trainfleet_pool_*", "TRAINFLEET_*"))).render("p", ALL)
    expected = {f.name for f in FAMILIES if not f.name.endswith("_info") and "_pool_" not in f.name}
    assert set(rendered) == expected - {"trainfleet_job_labels"}


def test_job_labels_shows_the_named_tags_only() -> None:
    job = Job(job_id="j", tags=(("team", "nlp"), ("owner", "x"), ("cost.center", "1"), ("cost-center", "2")))
    renderer = Renderer(RenderSettings(job_labels=("team", "cost-center", "cost.center")))
    (line,) = renderer.render("p", [job])["trainfleet_job_labels"]
    assert line == (
        b'trainfleet_job_labels{provider="p",job_id="j",'
        b'label_cost_center_conflict1="2",label_cost_center_conflict2="1",label_team="nlp"} 1\n'
    )
    without = Renderer(RenderSettings(job_labels=("other",)))
    assert "trainfleet_job_labels" not in without.render("p", [job])


def test_pieces_end_with_a_line_and_stay_below_the_limit() -> None:
    found = pods(30_000)
    rendered = Renderer(RenderSettings(deny=("*_status",))).render("p", found)
    pieces = rendered["trainfleet_pod_info"]
    assert 2 <= len(pieces) <= sum(map(len, pieces)) / PIECE_LIMIT * 1.1 + 1
    assert all(len(piece) <= PIECE_LIMIT and piece.endswith(b"\n") for piece in pieces)
    names = [labels["pod_id"] for _, labels, _ in samples(b"".join(pieces))]
    assert names == [pod.pod_id for pod in found]


def test_long_lines_are_cut_at_their_ends_and_never_inside() -> None:
    names = tuple(f"t{number}" for number in range(350))  # a tag has at most 4,096 bytes, a line has many

    def job(job_id: str, tags: int) -> Job:
        return Job(job_id=job_id, tags=tuple((name, "x" * 4000) for name in names[:tags]))

    found = [*(job(str(n), 87) for n in range(7)), job("giant", 350), job("last", 1)]
    pieces = Renderer(RenderSettings(job_labels=names)).render("p", found)["trainfleet_job_labels"]
    assert [len(piece) <= PIECE_LIMIT for piece in pieces].count(False) == 1
    assert all(piece.endswith(b"\n") for piece in pieces)
    lines = b"".join(pieces).decode().splitlines()
    assert [(line.split('"')[3], line.count("label_t")) for line in lines] == [
        (job.job_id, len(job.tags)) for job in found
    ]


def _update(objects: Sequence[object], basis: Basis | None = None) -> Update:
    return asyncio.run(Renderer(RenderSettings(job_labels=("team",))).update("p", objects, basis))


LONG = "é" * 2049
"""4,098 bytes."""


@pytest.mark.parametrize("value", ["x" * 4097, LONG, "x" + LONG, "研" * 1366, "😀" * 1025, "\ud800" * 1366, '"' * 5000])
def test_a_label_value_that_is_too_long_is_cut_and_counted(value: str) -> None:
    update = _update([Job(job_id="j", name=value, tags=(("team", value),))])
    page = b"".join(b"".join(pieces or ()) for pieces in update.rendered.values())
    shown = {name: labels for name, labels, _ in samples(page)}
    clean = value.replace("\ud800", "\ufffd")
    for text in (shown["trainfleet_job_info"]["job_name"], shown["trainfleet_job_labels"]["label_team"]):
        assert 4096 - 4 < len(text.encode()) <= 4096
        assert text.endswith("…")
        beginning = text.rpartition("#")[0]
        assert clean.startswith(beginning)
        assert len(beginning.encode()) > 4000
    assert update.too_long == 2


@pytest.mark.parametrize("value", ["x" * 4096, "é" * 2048, "😀" * 1024, "\ud800" * 1365, "\n" * 4096])
def test_a_label_value_of_4096_bytes_is_whole(value: str) -> None:
    update = _update([Job(job_id="j", name=value)])
    ((_, labels, _),) = samples(b"".join(update.rendered["trainfleet_job_info"] or ()))
    assert labels["job_name"] == value.replace("\ud800", "\ufffd")
    assert update.too_long == 0


def test_long_values_that_begin_alike_stay_two_series() -> None:
    found = [JobCount("1", Status.UNKNOWN, "x" * 5000 + end, 1) for end in "ab"]
    first, second = samples(b"".join(_update(found).rendered["trainfleet_jobs"] or ()))
    assert first[1] != second[1]
    again, _ = samples(b"".join(_update(found).rendered["trainfleet_jobs"] or ()))
    assert again == first  # the same series in the next poll


def test_an_object_whose_id_is_too_long_is_dropped_alone() -> None:
    found = [Pod(job_id="j", pod_id=pod_id, role="worker") for pod_id in ("a", "x" * 4097, "b")]
    subjects = [Subject(("j", pod_id)) for pod_id in ("a", "x" * 4097, "b")]
    column = Readings(PodUsage, "values.cpu", subjects, [0.1, 0.2, 0.3])
    update = _update([*found, column])
    page = b"".join(b"".join(pieces or ()) for pieces in update.rendered.values())
    assert {labels["pod_id"] for _, labels, _ in samples(page)} == {"a", "b"}
    usage = samples(b"".join(update.rendered["trainfleet_pod_cpu_utilization_ratio"] or ()))
    assert [value for _, _, value in usage] == [0.1, 0.3]
    assert update.too_long == 2  # the pod, and its reading


def test_what_is_too_long_counts_in_each_poll_that_finds_it() -> None:
    def found(duration: float, reading: float) -> list[object]:
        subjects = [Subject(("x" * 4097, "p")), Subject(("j", "p"))]
        return [
            *(Job(job_id=f"j{number}", duration=duration) for number in range(100)),
            Job(job_id="named", name="x" * 5000),
            Job(job_id="x" * 5000),
            Readings(PodUsage, "values.cpu", subjects, [reading, reading]),
        ]

    before = _update(found(1.0, 0.5))
    for poll in (found(1.0, 0.5), found(2.0, 0.5), found(1.0, 0.6), found(3.0, 0.7)):
        before = _update(poll, before.basis)
        assert before.too_long == 3
    assert _update(found(1.0, 0.5)[:100], before.basis).too_long == 0


def test_sliced_rendering_gives_the_same_and_gives_the_loop_back() -> None:
    found = [*ALL, *pods(1_000)]
    renderer = Renderer(RenderSettings(job_labels=JOB_LABELS))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> Mapping[str, Sequence[bytes] | None]:
        other = asyncio.create_task(count_turns())
        update = await renderer.update("p", found, None)
        other.cancel()
        return update.rendered

    assert asyncio.run(run()) == renderer.render("p", found)
    assert turns >= len(found) // render_module.SLICE_OBJECTS


def test_a_slice_of_objects_that_take_long_has_fewer_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(0.0, render_module.SLICE_SECONDS / 5)
    monkeypatch.setattr(render_module, "perf_counter", lambda: next(clock))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def main() -> None:
        counting = asyncio.create_task(count_turns())
        await Renderer(RenderSettings()).update("p", pods(100), None)
        counting.cancel()

    asyncio.run(main())
    assert turns >= 100 // 7
