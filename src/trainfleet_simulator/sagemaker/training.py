"""The simulated training jobs of SageMaker: search, list and description.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Search.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.sagemaker.catalog import arn
from trainfleet_simulator.sagemaker.job_rows import description, job_id_of, job_name, record, summary
from trainfleet_simulator.sagemaker.parameters import PAGED, Call, check, invalid, not_found, one_of, page
from trainfleet_simulator.sagemaker.search import PROPERTIES, test_of
from trainfleet_simulator.sagemaker.statuses import STATUS, modified, secondary_status
from trainfleet_simulator.world.jobs import Job

STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped", "Deleting")
_ORDERS = ("Ascending", "Descending")
_SEARCH = {
    **PAGED,
    "Resource": "text",
    "SearchExpression": "object",
    "SortBy": "text",
    "SortOrder": "text",
}
_LIST = {
    **PAGED,
    "CreationTimeAfter": "number",
    "CreationTimeBefore": "number",
    "LastModifiedTimeAfter": "number",
    "LastModifiedTimeBefore": "number",
    "NameContains": "text",
    "StatusEquals": "text",
    "SortBy": "text",
    "SortOrder": "text",
    "TrainingPlanArnEquals": "text",
}


def search(call: Call) -> Answer:
    """Search: complete descriptions of the jobs that match an expression, the latest first."""
    given = check(call.body, _SEARCH, "Resource")
    if given["Resource"] != "TrainingJob":
        raise invalid("only training jobs are simulated")
    test = test_of(given["SearchExpression"]) if "SearchExpression" in given else lambda job, now: True
    by = PROPERTIES.get(one_of(given, "SortBy", tuple(PROPERTIES), "LastModifiedTime"))
    assert by is not None
    falling = one_of(given, "SortOrder", _ORDERS, "Descending") == "Descending"
    now = call.world.now

    def find() -> list[Job]:
        found = [(by(job, now), job.job_id, job) for job in call.world.jobs.values() if test(job, now)]
        # Jobs without this property are behind all others.
        having = sorted((one for one in found if one[0] is not None), reverse=falling)
        return [job for _, _, job in (*having, *(one for one in found if one[0] is None))]

    jobs, token, total = page(call, find)
    hits = {"TotalHits": {"Value": total, "Relation": "EqualTo"}}
    body = {"Results": [record(job, now) for job in jobs], **token, **hits}
    return Answer(body, total=total, rows=_rows(jobs, now))


def list_training_jobs(call: Call) -> Answer:
    """ListTrainingJobs: short forms, oldest first. StatusEquals filters the rows of a page after the page was cut."""
    given = check(call.body, _LIST)
    status = one_of(given, "StatusEquals", ("", *STATUSES), "")
    sort_by = one_of(given, "SortBy", ("Name", "CreationTime", "Status"), "CreationTime")
    falling = one_of(given, "SortOrder", _ORDERS, "Ascending") == "Descending"
    now = call.world.now

    def find() -> list[Job]:
        found = [job for job in call.world.jobs.values() if _fits(job, call, now)]
        keys: dict[str, Callable[[Job], Any]] = {
            "Name": job_name,
            "CreationTime": lambda job: (job.created, job.job_id),
            "Status": lambda job: STATUS[job.status],
        }
        return sorted(found, key=keys[sort_by], reverse=falling)

    jobs, token, total = page(call, find)
    shown = [job for job in jobs if status in {"", STATUS[job.status]}]
    body = {"TrainingJobSummaries": [summary(job, now) for job in shown], **token}
    return Answer(body, total=total, rows=_rows(shown, now))


def describe_training_job(call: Call) -> Answer:
    """DescribeTrainingJob: the complete description of one job."""
    name = check(call.body, {"TrainingJobName": "text"}, "TrainingJobName")["TrainingJobName"]
    job = call.world.shown(job_id_of(name))
    if job is None or job_name(job) != name:
        raise not_found()
    return Answer(description(job, call.world.now), rows=_rows([job], call.world.now))


def _fits(job: Job, call: Call, now: int) -> bool:
    given = call.body
    changed = modified(job, now)
    plan = given.get("TrainingPlanArnEquals")
    return (
        given.get("CreationTimeAfter", 0) < job.created < given.get("CreationTimeBefore", job.created + 1)
        and given.get("LastModifiedTimeAfter", 0) < changed < given.get("LastModifiedTimeBefore", changed + 1)
        and call.text("NameContains") in job_name(job)
        and plan in {None, arn("training-plan", job.draft.pool_id)}
    )


def _rows(jobs: list[Job], now: int) -> list[list[str]]:
    return [[job_name(job), STATUS[job.status], secondary_status(job, now)] for job in jobs]
