"""Rows of jobs from poll to poll: what has not changed is not made anew, and what has is."""

from __future__ import annotations

import copy
from typing import Any

from tests.providers.huawei_modelarts.cloud import job
from trainfleet_exporter.model import JobPods, Pod
from trainfleet_exporter.providers.huawei_modelarts.known_rows import KnownRows
from trainfleet_exporter.quantities import counting_unusable


def row(**status: Any) -> dict[str, Any]:
    found = job("a", **status)
    found["metadata"]["annotations"] = {"fault-tolerance/job-retry-num": "3"}
    return found


def test_a_job_that_only_ran_on_has_another_duration_and_the_same_details() -> None:
    rows = KnownRows("0")
    first = rows.job("a", row(duration=60_000, tasks=["worker-0", "worker-1"]))
    details, tasks = rows.details("a"), rows.tasks(["a"])["a"]
    assert first is not None
    assert (first.duration, tasks) == (60, ("worker-0", "worker-1"))
    assert details == (
        Pod(job_id="a", pod_id="worker-0", role="worker"),
        Pod(job_id="a", pod_id="worker-1", role="worker"),
        JobPods(job_id="a", restarts_allowed=3),
    )
    later = rows.job("a", row(duration=120_000, tasks=["worker-0", "worker-1"]))
    assert later is not None
    assert (later.duration, later.name, later.started) == (120, first.name, first.started)
    assert later.accelerators is first.accelerators
    assert rows.details("a") is details
    assert rows.tasks(["a"])["a"] is tasks
    assert rows.job("a", row(duration=120_000, tasks=["worker-0", "worker-1"])) is later


def test_what_has_changed_is_made_anew() -> None:
    rows = KnownRows("0")
    rows.job("a", row(tasks=["worker-0"]))
    rows.details("a")
    rows.job("a", row(tasks=["worker-0", "worker-1"]))
    assert len(rows.details("a")) == 3
    assert rows.tasks(["a", "unknown"]) == {"a": ("worker-0", "worker-1")}
    ended = rows.job("a", row(phase="Completed", tasks=["worker-0", "worker-1"]))
    assert ended is not None
    assert ended.platform_status == "Completed"


def test_a_row_is_left_as_it_was() -> None:
    given = row(duration=60_000)
    before = copy.deepcopy(given)
    KnownRows("0").job("a", given)
    assert given == before


def test_a_job_that_names_no_workspace_is_in_the_one_that_was_asked() -> None:
    rows = KnownRows("w")
    nameless = row()
    del nameless["metadata"]["workspace_id"]
    for _ in range(2):
        found = rows.job("a", nameless)
        assert found is not None
        assert found.workspace_id == "w"


def test_what_cannot_be_used_is_counted_each_time() -> None:
    rows = KnownRows("0")
    broken = row(duration=[], start_time="soon")
    broken["metadata"]["annotations"]["fault-tolerance/job-retry-num"] = "often"
    for _ in range(2):
        with counting_unusable() as lost:
            rows.job("a", broken)
        assert lost == {"malformed": 3}


def test_what_has_no_job_is_none() -> None:
    assert KnownRows("0").job("a", {"metadata": "broken"}) is None


def test_jobs_that_are_no_more_are_forgotten() -> None:
    rows = KnownRows("0")
    rows.job("a", row())
    rows.keep_only([])
    assert (rows.tasks(["a"]), rows.details("a")) == ({}, ())
