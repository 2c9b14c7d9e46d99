"""The simulated training jobs of SageMaker: search and description.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Search.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SearchExpression.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import eq, ne
from typing import Any

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.sagemaker.job_rows import STATUS, description, job_id_of, job_name, modified, record
from trainfleet_simulator.sagemaker.parameters import PAGED, Lists, check, invalid, not_found, one_of
from trainfleet_simulator.world.jobs import Job

Test = Callable[[Job, int], bool]
"""Whether a job fits, at a time."""

_TIMES: Mapping[str, Callable[[Job, int], int]] = {
    "CreationTime": lambda job, _: job.created,
    "LastModifiedTime": modified,
}
_TEXTS: Mapping[str, Callable[[Job, int], str]] = {
    "TrainingJobName": lambda job, _: job_name(job),
    "TrainingJobStatus": lambda job, _: STATUS[job.status],
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?")
_OF_TEXT: Mapping[str, Callable[[str, str], bool]] = {"Equals": eq, "NotEquals": ne}
_FILTER = {"Name": "text", "Operator": "text", "Value": "text"}
_SEARCH = {**PAGED, "Resource": "text", "SearchExpression": "object", "SortBy": "text", "SortOrder": "text"}


class Training:
    """The operations."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists

    def search(self, call: Call) -> Answer:
        """Search: complete descriptions of the jobs that match an expression, the latest first."""
        given = check(call.body, _SEARCH, "Resource")
        if given["Resource"] != "TrainingJob":
            raise invalid("only training jobs are simulated")
        test = _test_of(given["SearchExpression"]) if "SearchExpression" in given else lambda job, now: True
        by = _TIMES[one_of(given, "SortBy", tuple(_TIMES), "LastModifiedTime")]
        falling = one_of(given, "SortOrder", ("Ascending", "Descending"), "Descending") == "Descending"
        now = call.world.now

        def find() -> list[Job]:
            found = [job for job in call.world.jobs.values() if test(job, now)]
            return sorted(found, key=lambda job: (by(job, now), job.job_id), reverse=falling)

        jobs, token, total = self._lists.page(call, find)
        hits = {"TotalHits": {"Value": total, "Relation": "EqualTo"}}
        return Answer({"Results": [record(job, now) for job in jobs], **token, **hits})

    @staticmethod
    def describe(call: Call) -> Answer:
        """DescribeTrainingJob: the complete description of one job."""
        name = check(call.body, {"TrainingJobName": "text"}, "TrainingJobName")["TrainingJobName"]
        job = call.world.shown(job_id_of(name))
        if job is None or job_name(job) != name:
            raise not_found()
        return Answer(description(job, call.world.now))


def _test_of(given: Any) -> Test:
    """Return the test of a SearchExpression, whose filters are joined by And. Raises ApiError."""
    tests = [_filter(one) for one in check(given, {"Filters": "list"}).get("Filters", [])]
    if not tests:
        raise invalid("You must provide at least one subexpression, filter, or nested filter")
    return lambda job, now: all(test(job, now) for test in tests)


def _filter(given: Any) -> Test:
    one = check(given, _FILTER, "Name", "Value")
    name, wanted = one["Name"], one["Value"]
    if name in _TIMES:
        one_of(one, "Operator", ("GreaterThanOrEqualTo",), "Equals")
        moment, when = _TIMES[name], _seconds(wanted)
        return lambda job, now: moment(job, now) >= when
    if name not in _TEXTS:
        raise invalid(f"Unknown property name: {name}")
    text, fits = _TEXTS[name], _OF_TEXT[one_of(one, "Operator", tuple(_OF_TEXT), "Equals")]
    return lambda job, now: fits(text(job, now), wanted)


def _seconds(text: str) -> int:
    """Parse a time of a filter into Unix seconds."""
    if not _TIME.fullmatch(text):
        raise invalid(f"Value {text} is not a date-time of the form YYYY-mm-dd'T'HH:MM:SS")
    return int(datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=UTC).timestamp())
