"""The book of jobs: endings are counted once, kept for their retention, never guessed."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from trainfleet_exporter.model import FINISHED, Accelerators, Job, Status
from trainfleet_exporter.providers.jobs.registry import JobRegistry, WorkspaceJobs

BEGAN = 1_000.0
HOUR = 3600.0


def _job(job_id: str, status: Status, *, holds: bool = False, finished: float | None = None) -> Job:
    return Job(job_id=job_id, status=status, holds_resources=holds, finished=finished)


RUNNING = _job("a", Status.RUNNING, holds=True)


def _settle(page: WorkspaceJobs, *jobs: Job, now: float) -> None:
    page.settle({job.job_id: job for job in jobs}, now=now, began=BEGAN, retention=HOUR)
    page.ends_known_until = now


def _counts(page: WorkspaceJobs) -> dict[str, int]:
    return {count.status.value: count.count for count in page.finished_counts()}


def test_counters_start_at_zero_for_every_finished_status() -> None:
    assert _counts(WorkspaceJobs("w")) == {"succeeded": 0, "failed": 0, "stopped": 0}


def test_an_ending_is_counted_once_and_shown_for_its_retention() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    done = _job("a", Status.SUCCEEDED, finished=2030)
    for now in (2060.0, 2120.0, 2060 + HOUR - 1):
        _settle(page, done, now=now)
        assert [job.status for job in page.jobs()] == [Status.SUCCEEDED]
        assert _counts(page)["succeeded"] == 1
    _settle(page, now=2060 + HOUR)
    assert list(page.jobs()) == []
    assert _counts(page)["succeeded"] == 1


def test_what_ended_before_the_start_is_shown_and_not_counted() -> None:
    page = WorkspaceJobs("w")
    _settle(page, _job("a", Status.FAILED, finished=BEGAN - 60), now=BEGAN + 5)
    assert [job.job_id for job in page.jobs()] == ["a"]
    assert _counts(page)["failed"] == 0


def test_what_started_and_ended_between_two_polls_is_counted() -> None:
    page = WorkspaceJobs("w")
    _settle(page, now=2000)
    _settle(page, _job("a", Status.FAILED, finished=2030), now=2060)
    assert _counts(page)["failed"] == 1


def test_ended_job_with_resources_is_live_until_it_releases() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    reserving = _job("a", Status.SUCCEEDED, holds=True, finished=2030)
    _settle(page, reserving, now=2060)
    assert "a" in page.live
    assert _counts(page)["succeeded"] == 1  # its work is done, whatever it still holds
    let_go = 2060 + 3 * HOUR
    _settle(page, replace(reserving, holds_resources=False), now=let_go)
    assert "a" not in page.live
    _settle(page, now=let_go + HOUR - 1)
    assert [job.job_id for job in page.jobs()] == ["a"]
    _settle(page, now=let_go + HOUR)
    assert list(page.jobs()) == []
    assert _counts(page)["succeeded"] == 1


def test_a_job_found_nowhere_is_dropped_and_not_counted() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    assert page.missing({}) == ["a"]
    _settle(page, now=2060)
    assert list(page.jobs()) == []
    assert sum(_counts(page).values()) == 0


def test_an_unknown_state_stays_live() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    _settle(page, Job(job_id="a", status=Status.UNKNOWN, platform_status="Hibernating"), now=2060)
    assert page.live["a"].platform_status == "Hibernating"


def test_a_live_job_belongs_to_one_workspace() -> None:
    book = JobRegistry(lambda job: True)
    _settle(book.workspace("w"), RUNNING, now=2000)
    assert book.owner("a") == "w"
    assert book.owner("b") is None
    book.keep_only(["x"])
    assert book.owner("a") is None


def test_watchers_see_the_filtered_live_jobs() -> None:
    book = JobRegistry(lambda job: job.job_id != "a")
    seen: list[list[str]] = []
    book.watch(lambda: seen.append(sorted(book.live())))
    _settle(book.workspace("w"), RUNNING, replace(RUNNING, job_id="b"), now=2000)
    book.changed()
    assert seen == [["b"]]


def test_watchers_receive_only_removed_workspaces() -> None:
    book = JobRegistry(lambda job: True)
    _settle(book.workspace("w"), RUNNING, now=2000)
    _settle(book.workspace("x"), replace(RUNNING, job_id="b"), now=2000)
    book.changed()
    seen: list[list[str]] = []
    book.watch(lambda: seen.append(sorted(book.live())))
    book.keep_only(["w", "x", "y"])
    assert seen == []
    book.keep_only(["x"])
    assert seen == [["b"]]


@given(
    st.lists(st.tuples(st.sampled_from(sorted(Status)), st.sampled_from(["Running", "Strange", ""])), max_size=12),
    st.lists(st.sampled_from([(Status.RUNNING, "Running"), (Status.QUEUED, "Queuing")]), unique=True),
)
def test_live_jobs_are_tallied_by_both_words(pairs: list[tuple[Status, str]], known: list[tuple[Status, str]]) -> None:
    page = WorkspaceJobs("w")
    for number, (status, word) in enumerate(pairs):
        page.live[str(number)] = Job(job_id=str(number), status=status, platform_status=word)
    tally = Counter(dict.fromkeys(known, 0))
    tally.update(pairs)
    counts = page.live_counts(known)
    assert {(each.status, each.platform_status): each.count for each in counts} == tally
    assert len(counts) == len(tally)
    assert [(each.status, each.platform_status) for each in counts][: len(known)] == known


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abc"),
            st.tuples(st.sampled_from(sorted(Status)), st.booleans(), st.booleans()),
        ),
        max_size=12,
    )
)
def test_any_sequence_of_polls(polls: list[dict[str, tuple[Status, bool, bool]]]) -> None:
    page = WorkspaceJobs("w")
    last: dict[str, Status] = {}
    for number, rows in enumerate(polls):
        now = 2000.0 + 60 * number
        before = sum(_counts(page).values())
        jobs = [
            _job(job_id, status, holds=holds, finished=now if dated and status in FINISHED else None)
            for job_id, (status, holds, dated) in rows.items()
        ]
        _settle(page, *jobs, now=now)
        ids = [job.job_id for job in page.jobs()]
        assert len(ids) == len(set(ids))  # never two series for one job
        assert {job.job_id for job in jobs} <= set(ids)  # nothing that was listed is lost
        newly = {job.job_id for job in jobs if job.status in FINISHED and last.get(job.job_id) not in FINISHED}
        assert sum(_counts(page).values()) - before <= len(newly)
        for job in jobs:
            last[job.job_id] = job.status


def test_a_job_that_could_not_be_looked_up_stays_missing() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    page.settle({}, now=2060, began=BEGAN, retention=HOUR, unresolved=["a"])
    assert list(page.jobs()) == []
    assert page.missing({}) == ["a"]
    assert page.last_known("a") is RUNNING
    assert page.last_known("b") is None
    _settle(page, _job("a", Status.FAILED, finished=2030), now=2120)
    assert _counts(page)["failed"] == 1
    assert [job.job_id for job in page.jobs()] == ["a"]
    assert page.missing({}) == []


def test_a_look_up_that_never_succeeds_is_given_up() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    for now in (2060.0, 2060 + HOUR - 1):
        page.settle({}, now=now, began=BEGAN, retention=HOUR, unresolved=page.missing({}))
        assert page.missing({}) == ["a"]
    page.settle({}, now=2060 + HOUR, began=BEGAN, retention=HOUR, unresolved=page.missing({}))
    assert page.missing({}) == []


def test_an_ending_is_counted_once_across_a_failed_look_up() -> None:
    """A job that ended and still held resources was counted then; its look-up fails much later."""
    page = WorkspaceJobs("w")
    reserving = _job("a", Status.SUCCEEDED, holds=True, finished=2030)
    _settle(page, RUNNING, now=2000)
    _settle(page, reserving, now=2060)
    page.settle({}, now=9000, began=BEGAN, retention=HOUR, unresolved=["a"])
    _settle(page, _job("a", Status.SUCCEEDED, finished=2030), now=9060)
    assert _counts(page)["succeeded"] == 1


def test_ends_are_looked_for_since_the_last_list_of_them() -> None:
    page = WorkspaceJobs("w")
    assert page.ends_unknown_since(2000) is None
    _settle(page, now=2000)
    assert page.ends_unknown_since(5000) == 2000
    assert page.ends_unknown_since(1000) == 1000  # the clock was set back
    assert page.ends_unknown_since(2000 + 30 * 86400) == 2000 + 23 * 86400  # not for ever


def test_a_failed_look_up_is_repeated_without_retention() -> None:
    page = WorkspaceJobs("w")
    for now, unresolved, missing in ((2000.0, [], ["a"]), (2060.0, ["a"], ["a"]), (2120.0, ["a"], [])):
        found = {} if unresolved else {"a": RUNNING}
        page.settle(found, now=now, began=BEGAN, retention=0, unresolved=unresolved)
        assert page.missing({}) == missing


def test_a_pending_job_is_shown_as_it_was_for_one_poll() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    page.settle({}, now=2060, began=BEGAN, retention=0, pending=["a"])
    assert list(page.jobs()) == [RUNNING]
    page.settle({}, now=2120, began=BEGAN, retention=0, pending=["a"])  # nothing was learnt in between
    assert list(page.jobs()) == []
    assert page.missing({}) == ["a"]
    _settle(page, _job("a", Status.FAILED), now=2121)
    assert _counts(page)["failed"] == 1


def test_an_expired_job_is_not_shown_while_it_is_pending() -> None:
    book = JobRegistry(lambda job: True)
    page = book.workspace("w")
    _settle(page, RUNNING, now=2000)
    book.expire("w")
    page.settle({}, now=9000, began=BEGAN, retention=HOUR, pending=["a"])
    assert list(page.jobs()) == []
    assert page.missing({}) == ["a"]


GPUS = (Accelerators("gpu", "GU8T", 8),)


def test_each_ended_job_is_taken_once_with_its_accelerators() -> None:
    page = WorkspaceJobs("w")
    _settle(page, replace(RUNNING, accelerators=GPUS), now=2000)
    assert page.take_ended() == []
    done = _job("a", Status.SUCCEEDED, finished=2030)
    _settle(page, done, now=2060)
    assert page.take_ended() == [replace(done, accelerators=GPUS)]
    _settle(page, done, now=2120)
    assert page.take_ended() == []


def test_job_with_reserved_resources_is_taken_at_their_release() -> None:
    page = WorkspaceJobs("w")
    _settle(page, replace(RUNNING, accelerators=GPUS), now=2000)
    _settle(page, _job("a", Status.FAILED, holds=True, finished=2030), now=2060)
    assert page.take_ended() == []
    done = _job("a", Status.FAILED, finished=9000)
    _settle(page, done, now=9060)
    assert page.take_ended() == [replace(done, accelerators=GPUS)]


def test_job_that_ended_before_the_start_is_taken_at_release() -> None:
    page = WorkspaceJobs("w")
    _settle(page, _job("a", Status.SUCCEEDED, holds=True, finished=BEGAN - 5), now=BEGAN + 5)
    done = _job("a", Status.SUCCEEDED, finished=BEGAN + 60)
    _settle(page, done, now=BEGAN + 65)
    assert page.take_ended() == [done]
    assert _counts(page)["succeeded"] == 0  # its work was not seen to end


def test_what_ended_before_the_start_is_not_taken() -> None:
    page = WorkspaceJobs("w")
    for now in (BEGAN + 5, BEGAN + 65):
        _settle(page, _job("a", Status.FAILED, finished=BEGAN - 60), now=now)
        assert page.take_ended() == []


def test_an_ended_job_waits_for_its_last_history() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    done = _job("a", Status.STOPPED, finished=2030)
    page.to_read["a"] = None
    _settle(page, done, now=2060)
    assert page.take_ended() == []
    _settle(page, now=2060 + 2 * HOUR)  # it is not even shown any more
    page.to_read.clear()
    assert page.take_ended() == [done]


def test_without_retention_an_ended_job_is_taken_all_the_same() -> None:
    page = WorkspaceJobs("w")
    page.settle({"a": RUNNING}, now=2000, began=BEGAN, retention=0)
    for now in (2060, 2120):
        page.settle({"a": _job("a", Status.FAILED, finished=2030)}, now=now, began=BEGAN, retention=0)
        page.ends_known_until = now
        assert [job.job_id for job in page.take_ended()] == (["a"] if now == 2060 else [])


def test_a_job_that_runs_again_is_taken_again() -> None:
    page = WorkspaceJobs("w")
    done = _job("a", Status.FAILED, finished=2030)
    for job, now in ((RUNNING, 2000), (done, 2060), (RUNNING, 2120), (replace(done, finished=2150), 2180)):
        _settle(page, job, now=now)
    assert [job.finished for job in page.take_ended()] == [2150]


def test_a_reserved_job_that_vanishes_is_never_taken() -> None:
    page = WorkspaceJobs("w")
    _settle(page, RUNNING, now=2000)
    _settle(page, _job("a", Status.SUCCEEDED, holds=True, finished=2030), now=2060)
    _settle(page, now=2120)
    assert page.take_ended() == []
    assert page.unrecorded == {}
