"""Rendering only what changed: the page is the same as if all had been rendered, and the rest is left alone."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from trainfleet_exporter.exposition import Basis, Board, Format, Renderer, RenderSettings
from trainfleet_exporter.exposition import render as render_module
from trainfleet_exporter.exposition.pile import Pile
from trainfleet_exporter.model import (
    Accelerators,
    DeviceUsage,
    Job,
    JobUsage,
    Pod,
    PodUsage,
    Readings,
    Status,
    Subject,
    UsageValues,
)

from .examples import JOB_LABELS

SUBJECTS = [Subject((f"j{n // 2}", f"p{n}")) for n in range(4)]
ACCELERATORS = (Accelerators("gpu", "A", 8.0), Accelerators("gpu", "A", 4.0), Accelerators("npu", "B", 1.0))
SETTINGS = RenderSettings(deny=("trainfleet_job_priority", "trainfleet_pod_memory_*"), job_labels=JOB_LABELS)

jobs = st.builds(
    Job,
    job_id=st.sampled_from(["j0", "j1", 'j"2']),
    name=st.sampled_from(["", "a", "b"]),
    status=st.sampled_from([Status.RUNNING, Status.UNKNOWN]),
    holds_resources=st.sampled_from([None, True, False]),
    priority=st.sampled_from([None, 1]),
    duration=st.sampled_from([None, 1.0, 2.5, float("nan")]),
    restarts=st.sampled_from([None, 0]),
    accelerators=st.lists(st.sampled_from(ACCELERATORS), max_size=2).map(tuple),
    tags=st.sampled_from([(), (("team", "x"),), (("team", "y"),)]),
)
pods = st.builds(Pod, job_id=st.sampled_from(["j0", "j1"]), pod_id=st.just("p"), created=st.sampled_from([None, 1.0]))


@st.composite
def columns(draw: st.DrawFn) -> Readings:
    subjects = draw(st.lists(st.sampled_from(SUBJECTS), unique=True))
    values = array("d", [draw(st.sampled_from([0.0, 0.25, 1.0, 1e300, float("inf")])) for _ in subjects])
    field = draw(st.sampled_from(["values.cpu", "values.memory_bytes", "values.accelerator_memory"]))
    return Readings(PodUsage, field, subjects, values, draw(st.sampled_from(["gpu", "npu"])))


parts = st.tuples(
    st.lists(jobs, max_size=4, unique_by=lambda job: job.job_id),
    st.lists(pods, max_size=2, unique_by=lambda pod: pod.job_id),
    st.lists(columns(), max_size=3, unique_by=lambda column: (column.field, column.accelerator)),
).map(lambda found: [*found[0], *found[1], *found[2]])


def page_of(board: Board) -> bytes:
    return b"".join(board.snapshot().pieces(Format.TEXT))


@pytest.fixture(autouse=True)
def _remember_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_module, "_REMEMBERED", 1)


@pytest.mark.long
@settings(max_examples=300)
@given(st.lists(parts, min_size=1, max_size=6))
def test_any_sequence_of_updates_shows_what_rendering_it_all_shows(sequence: list[list[object]]) -> None:
    async def main() -> None:
        renderer, board = Renderer(SETTINGS), Board()
        basis: Basis | None = None
        for found in sequence:
            update = await renderer.update("p", found, basis)
            basis = update.basis
            board.put("part", update.rendered)
            whole = Board()
            whole.put("part", renderer.render("p", found))
            assert page_of(board) == page_of(whole)
            assert board.series("part") == whole.series("part")

    asyncio.run(main())


def updated(first: Sequence[object], then: Sequence[object]) -> dict[str, bool]:
    """Which families of the second are rendered, and which are left as they are."""

    async def main() -> dict[str, bool]:
        renderer = Renderer(SETTINGS)
        before = await renderer.update("p", first, None)
        assert None not in before.rendered.values()
        after = await renderer.update("p", then, before.basis)
        return {family: texts is not None for family, texts in after.rendered.items()}

    return asyncio.run(main())


def test_only_durations_are_rendered_where_only_durations_changed() -> None:
    found = [Job(job_id=f"j{n}", name="a", duration=1.0 * n, restarts=n) for n in range(500)]
    longer = [replace(job, duration=job.duration + 60.0 if job.duration is not None else None) for job in found]
    rendered = updated(found, longer)
    assert {family for family, is_new in rendered.items() if is_new} == {"trainfleet_job_duration_seconds"}
    assert len(rendered) == 4


def test_nothing_is_rendered_where_nothing_changed() -> None:
    found = [Job(job_id=f"j{n}", duration=1.0) for n in range(3)]
    column = Readings(PodUsage, "values.cpu", SUBJECTS, array("d", [0.0, 1.0, 2.0, 3.0]))
    assert not any(updated([*found, column], [*map(replace, found), replace(column)]).values())


def test_everything_is_rendered_where_an_object_took_the_place_of_another() -> None:
    found = [Job(job_id=f"j{n}", duration=1.0) for n in range(3)]
    assert all(updated(found, [*found[:2], Job(job_id="new", duration=1.0)]).values())


def test_one_reading_that_changed_has_its_column_rendered_and_no_other() -> None:
    cpu = Readings(PodUsage, "values.cpu", SUBJECTS, array("d", [0.0, 1.0, 2.0, 3.0]))
    disk = Readings(PodUsage, "values.disk_read", SUBJECTS, array("d", [0.0, 1.0, 2.0, 3.0]))
    rendered = updated([cpu, disk], [replace(cpu, values=array("d", [0.0, 1.0, 2.0, 3.5])), disk])
    assert rendered == {
        "trainfleet_pod_cpu_utilization_ratio": True,
        "trainfleet_pod_disk_read_bytes_per_second": False,
    }


def test_a_column_that_stays_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[int] = []
    pack = Pile.pack

    def watched(pile: Pile) -> None:
        packed.append(len(pile.lines))
        pack(pile)

    cpu = Readings(PodUsage, "values.cpu", SUBJECTS, array("d", [0.0, 1.0, 2.0, 3.0]))
    disk = Readings(PodUsage, "values.disk_read", SUBJECTS, array("d", [0.0, 1.0, 2.0, 3.0]))
    monkeypatch.setattr(Pile, "pack", watched)
    updated([cpu, disk], [replace(cpu, values=array("d", [0.0, 1.0, 2.0, 3.5])), disk])
    assert packed == [4, 4, 4]


@pytest.mark.parametrize(("count", "is_remembered"), [(49, False), (50, True)])
def test_what_is_remembered_is_large_or_a_column(
    monkeypatch: pytest.MonkeyPatch, count: int, is_remembered: bool
) -> None:
    monkeypatch.setattr(render_module, "_REMEMBERED", 50)
    renderer = Renderer(SETTINGS)
    found = [Job(job_id=f"j{n}") for n in range(count)]
    column = Readings(PodUsage, "values.cpu", SUBJECTS[:1], array("d", [0.0]))
    assert (asyncio.run(renderer.update("p", found, None)).basis is not None) == is_remembered
    assert asyncio.run(renderer.update("p", [column], None)).basis is not None


def test_a_column_shows_the_same_as_an_object_for_each_reading() -> None:
    values = array(
        "d", [0.0, 0.1, 1e15, 1e16, -0.0, 1e-7, float("nan"), float("inf"), 123456.0, 20.5, 1e20, 0.30000000000000004]
    )
    renderer = Renderer(RenderSettings())
    pods = [Subject((f'j"{n}', f"p\n{n}")) for n in range(len(values))]
    devices = [Subject(("j", "p", str(n), "npu")) for n in range(len(values))]
    found: list[tuple[Readings, list[object]]] = [
        (
            Readings(PodUsage, "values.memory_bytes", pods, values),
            [
                PodUsage(pod.keys[0], pod.keys[1], UsageValues(memory_bytes=value))
                for pod, value in zip(pods, values, strict=True)
            ],
        ),
        (
            Readings(JobUsage, "values.accelerator_memory", [Subject(("j",))], array("d", [0.5]), "npu"),
            [JobUsage("j", UsageValues(accelerator="npu", accelerator_memory=0.5))],
        ),
        (
            Readings(DeviceUsage, "utilization", devices, values),
            [DeviceUsage("j", "p", str(n), "npu", utilization=value) for n, value in enumerate(values)],
        ),
    ]
    for column, objects in found:
        assert renderer.render("p", [column]) == renderer.render("p", objects)
        assert renderer.render("p", [column])


def test_labels_of_a_subject_are_written_once_in_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def watched(value: str) -> str:
        written.append(value)
        return value

    monkeypatch.setattr(render_module, "escape_label", watched)
    subject, renderer = Subject(("job", "pod")), Renderer(RenderSettings())
    for field in ("values.cpu", "values.memory", "values.cpu"):
        assert renderer.render("p", [Readings(PodUsage, field, [subject], array("d", [1.0]))])
    assert (written.count("job"), written.count("pod")) == (1, 1)


def test_labels_of_an_object_are_written_once_while_its_part_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def watched(value: str) -> str:
        written.append(value)
        return value

    monkeypatch.setattr(render_module, "escape_label", watched)
    found = [Job(job_id=f"job{n}", duration=1.0) for n in range(3)]
    updated(found, [*(replace(job, duration=2.0) for job in found[:2]), Job(job_id="new")])
    assert [written.count(name) for name in ("job0", "job1", "job2", "new")] == [1, 1, 1, 1]


def test_labels_are_kept_as_long_as_their_object_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def watched(value: str) -> str:
        written.append(value)
        return value

    monkeypatch.setattr(render_module, "escape_label", watched)

    async def main() -> None:
        renderer = Renderer(SETTINGS)
        basis: Basis | None = None
        for n in range(20):
            stays = Job(job_id="stays", duration=float(n // 3))  # nothing changes in two of three
            goes = Job(job_id=f"goes{n // 5}", duration=1.0)
            basis = (await renderer.update("p", [stays, goes], basis)).basis
            assert basis is not None
            assert basis.labels[Job].keys() == {("stays",), (f"goes{n // 5}",)}
        assert [written.count(name) for name in ("stays", "goes0", "goes3")] == [1, 1, 1]

    asyncio.run(main())
