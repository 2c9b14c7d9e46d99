"""Places of what readings are of: the same for every metric, and nothing of who is no more."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from trainfleet_exporter.providers.alibaba_pai.catalogue import Level
from trainfleet_exporter.providers.alibaba_pai.roster import Key, Lineup, Roster, Rosters


@pytest.mark.parametrize(
    ("level", "key", "keys"),
    [
        ("job", ("a",), ("a",)),
        ("pool", ("quota1",), ("quota1",)),
        ("pod", ("a", "a-0"), ("a", "a-0")),
        ("device", ("a", "a-0", "7"), ("a", "a-0", "7", "gpu")),
    ],
)
def test_a_thing_has_one_place_and_one_subject(level: Level, key: Key, keys: Key) -> None:
    roster = Roster(level)
    assert roster.place(key) == roster.place(key) == 0
    (subject,) = roster.lineup().subjects
    assert subject.keys == keys
    assert roster.lineup().subjects[0] is subject
    assert roster.lineup().owners == {key[0]}


def test_the_places_of_a_whole_are_known() -> None:
    roster = Roster("device")
    for key in [("a", "a-0", "0"), ("b", "b-0", "0"), ("a", "a-1", "0"), ("a", "a-0", "1")]:
        roster.place(key)
    assert {key: list(places) for key, places in roster.wholes["job"].items()} == {("a",): [0, 2, 3], ("b",): [1]}
    assert {key: list(places) for key, places in roster.wholes["pod"].items()} == {
        ("a", "a-0"): [0, 3],
        ("b", "b-0"): [1],
        ("a", "a-1"): [2],
    }


def test_pods_of_one_job_share_the_text_of_its_id() -> None:
    roster = Roster("pod")
    for pod in range(3):
        roster.place(("".join(["a", "b"]), f"ab-{pod}"))
    first, *others = [subject.keys[0] for subject in roster.lineup().subjects]
    assert all(each is first for each in others)


def test_a_line_up_stays_what_it_is_while_others_come_and_go() -> None:
    roster = Roster("pod")
    roster.place(("a", "a-0"))
    before = roster.lineup()
    assert roster.lineup() is before
    roster.place(("b", "b-0"))
    asyncio.run(roster.keep_if({"b"}.__contains__))
    assert [subject.keys for subject in before.subjects] == [("a", "a-0")]
    assert before.owners == {"a"}
    assert [subject.keys for subject in roster.lineup().subjects] == [("b", "b-0")]


def test_what_is_left_keeps_its_subjects_and_gets_the_first_places() -> None:
    roster = Roster("device")
    for job_id in "abc":
        for card in "01":
            roster.place((job_id, f"{job_id}-0", card))
    subjects = roster.lineup().subjects
    asyncio.run(roster.keep_if({"a", "c"}.__contains__))
    assert roster.lineup().subjects == (*subjects[:2], *subjects[4:])
    assert roster.places == {("a", "a-0", "0"): 0, ("a", "a-0", "1"): 1, ("c", "c-0", "0"): 2, ("c", "c-0", "1"): 3}
    assert {key: list(places) for key, places in roster.wholes["job"].items()} == {("a",): [0, 1], ("c",): [2, 3]}
    assert roster.place(("d", "d-0", "0")) == 4


def test_where_nobody_has_gone_nothing_is_gone_through() -> None:
    roster = Roster("pod")
    for job_id in "ab":
        for pod in range(100):
            roster.place((job_id, f"{job_id}-{pod}"))
    asked: list[str] = []

    def alive(job_id: str) -> bool:
        asked.append(job_id)
        return True

    before = roster.lineup()
    asyncio.run(roster.keep_if(alive))
    assert asked == ["a", "b"]
    assert roster.lineup() is before


def test_many_are_gone_through_in_slices() -> None:
    roster = Roster("pod")
    for pod in range(10_000):
        roster.place((f"job-{pod}", "pod"))

    async def main() -> int:
        turns = 0
        forgetting = asyncio.ensure_future(roster.keep_if(lambda job_id: job_id != "job-0"))
        while not forgetting.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(main()) >= 5
    assert len(roster) == 9_999


def test_equal_columns_are_kept_once() -> None:
    rosters = Rosters()
    roster = rosters.of("pod")
    roster.place(("a", "a-0"))
    subjects = roster.lineup().subjects
    assert rosters.known_lineup("pod", subjects) is None
    first = rosters.shared_lineup("pod", Lineup(subjects, frozenset("a")))
    again = (*list(subjects),)
    assert again is not subjects
    assert rosters.known_lineup("pod", again) is first
    assert rosters.shared_lineup("pod", Lineup(again, frozenset("a"))) is first
    assert rosters.known_lineup("job", subjects) is None
    assert rosters.known_lineup("pod", ()) is None
    assert rosters.shared_lineup("pod", Lineup((), frozenset())).subjects == ()
    times = rosters.shared_times("pod", array("d", [1.0, 2.0]))
    assert rosters.shared_times("pod", array("d", [1.0, 2.0])) is times
    later = array("d", [1.0, 3.0])
    assert rosters.shared_times("pod", later) is later
    assert rosters.shared_times("job", array("d", [1.0, 2.0])) is not times


def test_who_is_no_more_is_forgotten_at_every_level() -> None:
    rosters = Rosters()
    rosters.of("job").place(("a",))
    rosters.of("pod").place(("a", "a-0"))
    rosters.of("pod").place(("b", "b-0"))
    rosters.shared_lineup("job", rosters.of("job").lineup())
    asyncio.run(rosters.keep_if({"b"}.__contains__))
    assert [len(rosters.of(level)) for level in ("job", "pod", "device", "pool")] == [0, 1, 0, 0]


def test_pods_that_are_replaced_again_and_again_are_forgotten() -> None:
    """A job that runs on for months keeps nothing of each of its pods."""
    rosters = Rosters()
    roster, most = rosters.of("pod"), 0
    for restart in range(500):
        for pod in range(2):
            roster.place(("a", f"a-{restart}-{pod}"))
        roster.told(2)
        roster.told(1)  # another metric tells of fewer
        most = max(most, len(roster))
        asyncio.run(rosters.keep_if({"a"}.__contains__))
    assert most <= 72
    roster.place(("a", "last"))
    roster.told(1)
    kept = roster.lineup()
    rosters.shared_lineup("pod", kept)
    rosters.trim()
    assert roster.lineup() is kept  # it is not each poll that forgets
    assert rosters.known_lineup("pod", kept.subjects) is kept


def test_where_no_metric_could_be_read_nothing_is_forgotten() -> None:
    rosters = Rosters()
    roster = rosters.of("pod")
    for pod in range(200):
        roster.place(("a", f"a-{pod}"))
    roster.told(200)
    for _ in range(2):
        rosters.trim()
        assert len(roster) == 200
    roster.told(68)
    rosters.trim()
    assert len(roster) == 200
    rosters.shared_lineup("pod", roster.lineup())
    subjects = roster.lineup().subjects
    roster.told(67)
    rosters.trim()
    assert len(roster) == 0
    assert rosters.known_lineup("pod", subjects) is None
    assert roster.place(("a", "a-7")) == 0
