"""The index of what readings are of: the same objects for every metric, and nothing of what is gone."""

from __future__ import annotations

from array import array

import pytest

from trainfleet_exporter.families.usage import Level
from trainfleet_exporter.providers.usage.entities import Entities, EntityIndex, EntityList, Key


@pytest.mark.parametrize(
    ("level", "key"),
    [
        ("job", ("a",)),
        ("pool", ("quota1",)),
        ("pod", ("a", "a-0")),
        ("device", ("a", "a-0", "7", "npu")),
    ],
)
def test_an_entity_has_one_subject(level: Level, key: Key) -> None:
    index = EntityIndex(level)
    subject = index.subject(key)
    assert index.subject(key) is subject
    assert subject.keys == key
    assert subject.labels == ""
    assert index.entity_list().subjects == (subject,)
    assert index.entity_list().owners == {key[0]}


def test_the_parts_of_a_whole_are_known() -> None:
    entities = Entities()
    index = entities.of("device")
    keys = [("a", "a-0", "0", "gpu"), ("b", "b-0", "0", "gpu"), ("a", "a-1", "0", "gpu"), ("a", "a-0", "1", "gpu")]
    first, second, third, fourth = map(index.subject, keys)
    entity_list = index.entity_list()
    jobs, pods = entity_list.groups(entities, "job"), entity_list.groups(entities, "pod")
    assert [subject.keys for subject in jobs.wholes.subjects] == [("a",), ("b",)]
    assert jobs.split(entity_list.subjects) == [[first, third, fourth], [second]]
    assert [subject.keys for subject in pods.wholes.subjects] == [("a", "a-0"), ("b", "b-0"), ("a", "a-1")]
    assert pods.split(entity_list.subjects) == [[first, fourth], [second], [third]]
    assert entity_list.groups(entities, "job") is jobs
    in_order = EntityList((first, fourth, third, second)).groups(entities, "job")
    assert in_order.split("0123") == ["012", "3"]
    assert in_order.wholes is jobs.wholes  # equal wholes are the same


def test_only_entities_of_served_jobs_are_live() -> None:
    index = EntityIndex("pod")
    of_a, of_b = index.subject(("a", "a-0")), index.subject(("b", "b-0"))
    everything, some = frozenset("ab"), frozenset("a")
    assert index.live(everything) == {("a", "a-0"): of_a, ("b", "b-0"): of_b}
    assert index.live(some) == {("a", "a-0"): of_a}
    added = index.subject(("a", "a-1"))
    index.subject(("b", "b-1"))
    assert index.live(some) == {("a", "a-0"): of_a, ("a", "a-1"): added}
    index.keep_if({"b"}.__contains__)
    assert index.live(some) == {}


def test_pods_of_one_job_share_the_text_of_its_id() -> None:
    index = EntityIndex("pod")
    first, *others = [index.subject(("".join(["a", "b"]), f"ab-{pod}")).keys[0] for pod in range(3)]
    assert all(each is first for each in others)


def test_a_list_stays_what_it_is_while_others_come_and_go() -> None:
    index = EntityIndex("pod")
    index.subject(("a", "a-0"))
    before = index.entity_list()
    assert index.entity_list() is before
    index.subject(("b", "b-0"))
    index.keep_if({"b"}.__contains__)
    assert [subject.keys for subject in before.subjects] == [("a", "a-0")]
    assert before.owners == {"a"}
    assert [subject.keys for subject in index.entity_list().subjects] == [("b", "b-0")]


def test_what_is_left_keeps_its_subjects_and_its_order() -> None:
    index = EntityIndex("device")
    for card in "01":
        for job_id in "abc":
            index.subject((job_id, f"{job_id}-0", card, "gpu"))
    subjects = index.entity_list().subjects
    index.keep_if({"a", "c"}.__contains__)
    assert index.entity_list().subjects == (subjects[0], *subjects[2:4], subjects[5])
    assert list(index.subjects.values()) == list(index.entity_list().subjects)
    assert index.subject(("a", "a-0", "1", "gpu")) is subjects[3]


def test_where_nothing_is_gone_nothing_changes() -> None:
    index = EntityIndex("pod")
    for job_id in "ab":
        for pod in range(100):
            index.subject((job_id, f"{job_id}-{pod}"))
    asked: list[str] = []

    def alive(job_id: str) -> bool:
        asked.append(job_id)
        return True

    before = index.entity_list()
    index.keep_if(alive)
    assert asked == ["a", "b"]
    assert index.entity_list() is before


def test_equal_columns_are_kept_once() -> None:
    entities = Entities()
    subjects = tuple(entities.of("pod").subject(("a", f"a-{pod}")) for pod in range(2))
    first = entities.entity_list("pod", subjects)
    assert (first.subjects, first.owners) == (subjects, frozenset("a"))
    assert entities.entity_list("pod", (*subjects[:1], *subjects[1:])) is first
    assert entities.entity_list("job", subjects) is not first
    assert entities.entity_list("pod", subjects[:1]).subjects == subjects[:1]
    times = entities.times("pod", array("d", [1.0, 2.0]))
    assert entities.times("pod", array("d", [1.0, 2.0])) is times
    later = array("d", [1.0, 3.0])
    assert entities.times("pod", later) is later
    assert entities.times("job", array("d", [1.0, 2.0])) is not times


def test_what_is_gone_is_forgotten_at_every_level() -> None:
    entities = Entities()
    entities.of("job").subject(("a",))
    entities.of("pod").subject(("a", "a-0"))
    entities.of("pod").subject(("b", "b-0"))
    before = entities.entity_list("job", entities.of("job").entity_list().subjects)
    entities.keep_if({"b"}.__contains__)
    assert [len(entities.of(level)) for level in ("job", "pod", "device", "pool")] == [0, 1, 0, 0]
    assert entities.entity_list("job", before.subjects) is not before


def test_pods_that_are_replaced_again_and_again_are_forgotten() -> None:
    """A job that runs on for months keeps nothing of each of its pods."""
    entities = Entities()
    index, most = entities.of("pod"), 0
    for restart in range(500):
        for pod in range(2):
            index.subject(("a", f"a-{restart}-{pod}"))
        index.reported(2)
        index.reported(1)  # another metric reports fewer
        most = max(most, len(index))
        entities.keep_if({"a"}.__contains__)
    assert most <= 72
    index.subject(("a", "last"))
    index.reported(1)
    kept = entities.entity_list("pod", index.entity_list().subjects)
    entities.trim()
    assert index.entity_list().subjects == kept.subjects  # it is not each poll that forgets
    assert entities.entity_list("pod", kept.subjects) is kept


def test_where_no_metric_could_be_read_nothing_is_forgotten() -> None:
    entities = Entities()
    index = entities.of("pod")
    for pod in range(200):
        index.subject(("a", f"a-{pod}"))
    index.reported(200)
    for _ in range(2):
        entities.trim()
        assert len(index) == 200
    index.reported(68)
    entities.trim()
    assert len(index) == 200
    before = entities.entity_list("pod", index.entity_list().subjects)
    index.reported(67)
    entities.trim()
    assert len(index) == 0
    assert entities.entity_list("pod", before.subjects) is not before
