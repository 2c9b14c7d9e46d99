"""What of a part has changed, told family by family, and how little is looked at for that."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from trainfleet_exporter.exposition.changes import Basis, Column, Columns, Comparison, Row, sort_out
from trainfleet_exporter.model import JobCount, Pod, PodUsage, Readings, Status, Subject

SUBJECTS = [Subject((f"j{number}", "p")) for number in range(3)]
CPU = Readings(PodUsage, "values.cpu", SUBJECTS, array("d", [0.0, 0.5, math.nan]))
MEMORY = Readings(PodUsage, "values.memory_bytes", SUBJECTS, [1.0, 2.0, 3.0])
COLUMNS: Columns = {(PodUsage, one.field): Column(one.field, by_accelerator=False) for one in (CPU, MEMORY)}


def counts(number: int, *, changed: Iterable[int] = (), **change: Any) -> list[object]:
    """So many counts of jobs, some of them changed."""
    found = [JobCount(f"w{index}", Status.RUNNING, "Running", 1) for index in range(number)]
    for index in changed:
        found[index] = replace(found[index], **change)
    return list(found)


class Compared:
    """Two families of job counts, one of which has a source: what changed, and how often each was looked at."""

    def __init__(self, now: Sequence[object], before: Sequence[object]) -> None:
        self.looks: Counter[str] = Counter()
        rows = [
            self._row("value", lambda one: one.count, None),
            self._row("words", lambda one: one.platform_status.lower(), lambda one: one.platform_status),
        ]
        pods = [self._row("pods", lambda one: one.created, None)]
        comparison = Comparison({JobCount: rows, Pod: pods}, COLUMNS)
        self.steps = len(list(comparison.steps(Basis(*sort_out(now)), Basis(*sort_out(before)))))
        self.changed = comparison.changed

    def _row(self, name: str, read: Callable[[Any], Any], source: Callable[[Any], Any] | None) -> Row:
        def noted(what: str, look: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def noting(one: Any) -> Any:
                self.looks[what] += 1
                return look(one)

            return noting

        samples = noted(name, lambda one: [((), read(one))])
        return Row(name, None, samples, None, None if source is None else noted(f"{name}'s source", source))


def test_what_is_the_same_object_is_not_looked_at() -> None:
    same = counts(250)
    compared = Compared(same, list(same))
    assert (compared.changed, compared.looks, compared.steps) == (set(), {}, 3)  # a hundred in a step


def test_what_is_equal_is_looked_at_once_and_by_its_source_where_there_is_one() -> None:
    compared = Compared(counts(250), counts(250))
    assert compared.changed == set()
    assert compared.looks == {"value": 500, "words's source": 500}


@pytest.mark.parametrize("index", [0, 1, 99, 100, 101, 199, 200, 249])
def test_one_object_that_differs_changes_the_family_that_shows_it(index: int) -> None:
    assert Compared(counts(250, changed=[index], count=2), counts(250)).changed == {"value"}
    assert Compared(counts(250), counts(250, changed=[index], platform_status="Else")).changed == {"words"}


def test_a_source_that_differs_is_no_change_where_the_samples_are_the_same() -> None:
    compared = Compared(counts(5, changed=[3], platform_status="RUNNING"), counts(5))
    assert (compared.changed, compared.looks["words"]) == (set(), 10)


def test_a_family_that_changed_is_not_looked_at_again() -> None:
    compared = Compared(counts(250, changed=[0], count=2), counts(250))
    assert (compared.looks["value"], compared.looks["words's source"]) == (2, 500)
    assert compared.steps == 3
    both = Compared(counts(250, changed=[0], count=2, platform_status="Else"), counts(250))
    assert both.changed == {"value", "words"}
    assert (both.looks["words's source"], both.steps) == (200, 0)  # of the first hundred alone


def test_objects_that_come_or_go_or_change_their_keys_change_every_family_unseen() -> None:
    many = counts(3)
    for now, before in ((many, many[:2]), (many[:2], many), (many, []), ([], many)):
        compared = Compared(now, before)
        assert (compared.changed, compared.looks) == ({"value", "words"}, {})
    renamed = Compared(counts(250, changed=[150], workspace_id="other"), counts(250))
    assert renamed.changed == {"value", "words"}
    assert renamed.looks["value"] == 200  # of the hundred before


def test_each_class_is_compared_with_itself() -> None:
    pod = Pod(job_id="j", pod_id="p")
    assert Compared([*counts(2), pod], [pod, *counts(2, changed=[0], count=2)]).changed == {"value"}
    assert Compared([*counts(2), pod], counts(2)).changed == {"pods"}
    assert Compared(counts(2), [*counts(2), pod]).changed == {"pods"}


def test_columns_of_the_same_readings_are_the_same_be_they_the_same_lists_or_not() -> None:
    equal = [replace(one, subjects=list(one.subjects), values=one.values[:]) for one in (CPU, MEMORY)]
    for others in ([CPU, MEMORY], equal, [MEMORY, CPU]):
        assert Compared([CPU, MEMORY], others).changed == set()
    assert Compared([CPU, MEMORY], equal).steps == 2


@pytest.mark.parametrize(
    "change",
    [
        {"values": array("d", [0.0, 0.5, 1.0])},
        {"accelerator": "npu"},
        {"subjects": [*SUBJECTS[:2], Subject(("other", "p"))]},
    ],
)
def test_a_column_of_other_readings_changes_its_family_alone(change: dict[str, Any]) -> None:
    compared = Compared([replace(CPU, **change), MEMORY], [CPU, MEMORY])
    assert (compared.changed, compared.steps) == ({CPU.field}, 1)  # which is the other one's


def test_lists_of_readings_are_compared_by_value_and_with_arrays_too() -> None:
    assert Compared([replace(MEMORY, values=[1.0, 2.0, 4.0])], [MEMORY]).changed == {MEMORY.field}
    as_array = replace(MEMORY, values=array("d", MEMORY.values))
    for now, before in ((MEMORY, as_array), (as_array, MEMORY)):
        assert Compared([now], [before]).changed == {MEMORY.field}  # a list never equals an array


def test_columns_that_come_or_go_change_their_family() -> None:
    npu = replace(CPU, accelerator="npu")
    for now, before in (([CPU, npu], [CPU]), ([CPU], [CPU, npu]), ([], [CPU]), ([CPU], [])):
        assert Compared([*now, MEMORY], [*before, MEMORY]).changed == {CPU.field}


def test_of_several_columns_of_a_family_any_that_differs_changes_it() -> None:
    npu = replace(CPU, accelerator="npu")
    assert Compared([CPU, replace(npu, values=[0.0, 0.0, 0.0])], [CPU, npu]).changed == {CPU.field}


def test_what_no_family_shows_changes_nothing() -> None:
    other = replace(CPU, field="values.nobody")
    assert Compared([other], []).changed == set()
