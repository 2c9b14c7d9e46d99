"""Search expressions: filters on the properties of training jobs, joined by And or Or.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SearchExpression.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from trainfleet_simulator.sagemaker.job_rows import job_name, started
from trainfleet_simulator.sagemaker.parameters import check, invalid, one_of
from trainfleet_simulator.sagemaker.statuses import STATUS, modified, secondary_status
from trainfleet_simulator.world.jobs import Job

Value = str | int | None
Test = Callable[[Job, int], bool]
"""Returns whether a job fits, at a time."""

TIMES: Mapping[str, Callable[[Job, int], Value]] = {
    "CreationTime": lambda job, _: job.created,
    "LastModifiedTime": modified,
    "TrainingStartTime": lambda job, _: started(job),
    "TrainingEndTime": lambda job, _: job.finished,
}
TEXTS: Mapping[str, Callable[[Job, int], Value]] = {
    "TrainingJobName": lambda job, _: job_name(job),
    "TrainingJobStatus": lambda job, _: STATUS[job.status],
    "SecondaryStatus": secondary_status,
    "ResourceConfig.InstanceType": lambda job, _: job.draft.roles[0].machine if len(job.draft.roles) == 1 else None,
}
PROPERTIES = {**TIMES, **TEXTS}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?")
_ORDERED = {"GreaterThan": gt, "GreaterThanOrEqualTo": ge, "LessThan": lt, "LessThanOrEqualTo": le}
_OF_TEXT: Mapping[str, Callable[[Any, Any], bool]] = {
    "Contains": lambda value, wanted: wanted in value,
    "In": lambda value, wanted: value in wanted.split(","),
}
_FITS: Mapping[str, Callable[[Any, Any], bool]] = {"Equals": eq, "NotEquals": ne, **_ORDERED, **_OF_TEXT}
_OPERATORS = ("Exists", "NotExists", *_FITS)
_EXPRESSION = {"Filters": "list", "NestedFilters": "list", "SubExpressions": "list", "Operator": "text"}
_FILTER = {"Name": "text", "Operator": "text", "Value": "text"}


def test_of(given: Any) -> Test:
    """Return the test of a SearchExpression. Raises ApiError."""
    expression = check(given, _EXPRESSION)
    if expression.get("NestedFilters"):
        raise invalid("NestedFilters are not simulated")
    tests = [_filter(one) for one in expression.get("Filters", [])]
    tests += [test_of(one) for one in expression.get("SubExpressions", [])]
    if not tests:
        raise invalid("You must provide at least one subexpression, filter, or nested filter")
    joined = all if one_of(expression, "Operator", ("And", "Or"), "And") == "And" else any
    return lambda job, now: joined(test(job, now) for test in tests)


def _filter(given: Any) -> Test:
    one = check(given, _FILTER, "Name")
    name, operator = one["Name"], one_of(one, "Operator", _OPERATORS, "Equals")
    read = PROPERTIES.get(name)
    if read is None:
        raise invalid(f"Unknown property name: {name}")
    if operator in {"Exists", "NotExists"}:
        return lambda job, now: (read(job, now) is not None) == (operator == "Exists")
    if "Value" not in one:
        raise invalid(f"Value is required by {operator}")
    wanted: Any = one["Value"]
    if name in TIMES:
        if operator in _OF_TEXT:
            raise invalid(f"Operator {operator} is only supported for text properties")
        wanted = _seconds(wanted)
    elif operator in _ORDERED:
        raise invalid(f"Operator {operator} is not supported for text properties")
    fits = _FITS[operator]

    def test(job: Job, now: int) -> bool:
        value = read(job, now)
        return value is not None and fits(value, wanted)

    return test


def _seconds(text: str) -> int:
    """Parse a time of a filter into Unix seconds."""
    if not _TIME.fullmatch(text):
        raise invalid(f"Value {text} is not a date-time of the form YYYY-mm-dd'T'HH:MM:SS")
    return int(datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=UTC).timestamp())
