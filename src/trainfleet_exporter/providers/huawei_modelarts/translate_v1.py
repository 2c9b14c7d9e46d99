"""From the answers of the v1 training API to the model: jobs with versions, and pods by the names of their log files.

A job is shown as `<job_id>/<version_id>`. Its status is an integer, whose JOBSTAT_ word is the platform's own.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0044.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trainfleet_exporter.model import FINISHED, Accelerators, Job, JobCount, Pod, Status
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.translate import accelerator_kind
from trainfleet_exporter.providers.values import amount, number, unix_time, whole

JOB_STATUS = {
    0: ("UNKNOWN", Status.UNKNOWN),
    1: ("INIT", Status.CREATING),
    2: ("IMAGE_CREATING", Status.STARTING),
    3: ("IMAGE_FAILED", Status.FAILED),
    4: ("SUBMIT_TRYING", Status.STARTING),
    5: ("SUBMIT_FAILED", Status.FAILED),
    6: ("DELETE_FAILED", Status.UNKNOWN),
    7: ("WAITING", Status.QUEUED),
    8: ("RUNNING", Status.RUNNING),
    9: ("KILLING", Status.STOPPING),
    10: ("COMPLETED", Status.SUCCEEDED),
    11: ("FAILED", Status.FAILED),
    12: ("KILLED", Status.STOPPED),
    13: ("CANCELED", Status.STOPPED),
    14: ("LOST", Status.FAILED),
    15: ("SCALING", Status.RUNNING),
    16: ("SUBMIT_MODEL_FAILED", Status.FAILED),
    17: ("DEPLOY_SERVICE_FAILED", Status.FAILED),
    18: ("CHECK_INIT", Status.CREATING),
    19: ("CHECK_RUNNING", Status.STARTING),
    20: ("CHECK_RUNNING_COMPLETED", Status.STARTING),
    21: ("CHECK_FAILED", Status.FAILED),
}
_DELETE_FAILED = "JOBSTAT_DELETE_FAILED"
_HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.STOPPING})


def job_status(given: str | float | None) -> tuple[Status, str]:
    """The common word and the platform's own, `JOBSTAT_RUNNING`. What is not in the table is shown as it is."""
    code = whole(number(given))
    if code is None:
        if isinstance(given, str):
            return Status.UNKNOWN, given
        return Status.UNKNOWN, f"{given:.0f}" if given is not None and given.is_integer() else ""
    word, common = JOB_STATUS.get(code, (str(code), Status.UNKNOWN))
    return common, f"JOBSTAT_{word}"


def is_live(row: payloads.JobV1) -> bool:
    """Return whether a row of the jobs' list may still change: all that is not known to be over."""
    common, word = job_status(row.status)
    return common not in FINISHED and word != _DELETE_FAILED  # what could not be deleted has ended before


def counts(workspace_id: str, rows: Iterable[payloads.JobV1], *, since: float) -> list[JobCount]:
    """The jobs of a workspace tallied by status, each status that the platform knows included.

    Those that are over count if they were created at `since` (Unix seconds) or later, or do not say when.
    """
    tally = Counter({(common, f"JOBSTAT_{word}"): 0 for word, common in JOB_STATUS.values()})
    tally.update(_counted(row) for row in rows if is_live(row) or (_time(row.create_time) or since) >= since)
    return [JobCount(workspace_id, common, word, count) for (common, word), count in tally.items()]


def _counted(row: payloads.JobV1) -> tuple[Status, str]:
    # The jobs of both APIs are counted in one family, and a word of neither would be one series of both.
    common, word = job_status(row.status)
    return common, word if word.startswith("JOBSTAT_") else f"JOBSTAT_{word or 'UNKNOWN'}"


def id_text(given: str | int | None) -> str:
    """An id as text; empty if it is absent."""
    return "" if given is None else str(given)


def job_id(row: payloads.JobV1) -> str:
    """The id under which a version of a job is shown."""
    return f"{id_text(row.job_id)}/{id_text(row.version_id)}"


def newest_version(answer: payloads.VersionsV1, version_id: str) -> payloads.VersionV1 | None:
    """The version that a job's row names, in the answer of its versions; None if it is not there."""
    return next((row for row in reversed(answer.versions or []) if id_text(row.version_id) == version_id), None)


def job(row: payloads.JobV1, version: payloads.VersionV1, *, workspace_id: str) -> Job:
    """One version of a job, from the jobs' row and the version's."""
    common, word = job_status(row.status if version.status is None else version.status)
    gone = common in FINISHED
    nodes = amount(version.worker_server_num)
    return Job(
        job_id=job_id(row),
        name=row.job_name or "",
        job_type="v1",
        workspace_id=workspace_id,
        pool_id=version.pool_id or "",
        user_name=version.user_name or "",
        status=common,
        platform_status=word,
        holds_resources=None if common is Status.UNKNOWN else common in _HOLDING,
        created=_time(version.create_time) or _time(row.create_time),
        started=_time(version.start_time),
        duration=_duration(version.duration) or _duration(row.duration),
        nodes=None if gone else nodes,
        accelerators=() if gone else _accelerators(version, nodes),
    )


def pods(shown_id: str, answer: payloads.LogFileNames) -> tuple[list[Pod], Counter[str]]:
    """The pods of a version: its log files have their names. The API does not report their states."""
    dropped: Counter[str] = Counter()
    names = answer.log_file_list
    if names is None:
        dropped["no_data"] += 1
    elif not isinstance(names, list):
        dropped["malformed"] += 1
    found: dict[str, Pod] = {}
    for name in names if isinstance(names, list) else ():
        if not isinstance(name, str) or not name:
            dropped["malformed"] += 1
        elif name in found:
            dropped["duplicate"] += 1
        else:
            found[name] = Pod(job_id=shown_id, pod_id=name)
    return list(found.values()), dropped


def _time(milliseconds: float | None) -> float | None:
    return unix_time(milliseconds, per_second=1000)


def _duration(given: float | None) -> float | None:
    """In seconds; 0 is "never"."""
    milliseconds = amount(given)
    return milliseconds / 1000 if milliseconds else None


def _accelerators(version: payloads.VersionV1, nodes: float | None) -> tuple[Accelerators, ...]:
    if nodes is None:
        return ()
    npus = version.npu_info
    if npus is not None and (units := amount(npus.unit_num)):
        return (Accelerators("npu", npus.product_name or "", units * nodes),)
    each, model = amount(version.gpu_num), version.gpu_type or ""
    if each is None:
        return ()
    return (Accelerators(accelerator_kind(model) or "gpu", model if each else "", each * nodes),)
