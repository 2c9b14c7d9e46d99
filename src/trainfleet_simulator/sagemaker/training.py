"""The simulated training jobs of SageMaker: search, list and description.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Search.html
"""

from __future__ import annotations

from trainfleet_simulator.exchange import Answer
from trainfleet_simulator.sagemaker.job_rows import description, job_id_of, job_name, record, summary
from trainfleet_simulator.sagemaker.parameters import PAGED, Call, check, invalid, not_found, one_of, page
from trainfleet_simulator.sagemaker.search import TIMES, test_of
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
    "LastModifiedTimeAfter": "number",
    "StatusEquals": "text",
    "SortBy": "text",
    "SortOrder": "text",
}


def search(call: Call) -> Answer:
    """Search: complete descriptions of the jobs that match an expression, the latest first."""
    given = check(call.body, _SEARCH, "Resource")
    if given["Resource"] != "TrainingJob":
        raise invalid("only training jobs are simulated")
    test = test_of(given["SearchExpression"]) if "SearchExpression" in given else lambda job, now: True
    by = TIMES[one_of(given, "SortBy", tuple(TIMES), "LastModifiedTime")]
    falling = one_of(given, "SortOrder", _ORDERS, "Descending") == "Descending"
    now = call.world.now

    def find() -> list[Job]:
        found = [job for job in call.world.jobs.values() if test(job, now)]
        return sorted(found, key=lambda job: (by(job, now), job.job_id), reverse=falling)

    jobs, token, total = page(call, find)
    hits = {"TotalHits": {"Value": total, "Relation": "EqualTo"}}
    body = {"Results": [record(job, now) for job in jobs], **token, **hits}
    return Answer(body, total=total, rows=_rows(jobs, now))


def list_training_jobs(call: Call) -> Answer:
    """ListTrainingJobs: short forms, oldest first. StatusEquals filters the rows of a page after the page was cut."""
    given = check(call.body, _LIST)
    status = one_of(given, "StatusEquals", ("", *STATUSES), "")
    one_of(given, "SortBy", ("CreationTime",), "CreationTime")
    falling = one_of(given, "SortOrder", _ORDERS, "Ascending") == "Descending"
    now = call.world.now

    def find() -> list[Job]:
        since = given.get("LastModifiedTimeAfter", 0)
        found = [job for job in call.world.jobs.values() if since < modified(job, now)]
        return sorted(found, key=lambda job: (job.created, job.job_id), reverse=falling)

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


def _rows(jobs: list[Job], now: int) -> list[list[str]]:
    return [[job_name(job), STATUS[job.status], secondary_status(job, now)] for job in jobs]
