"""The v1 training API's JSON to the model: jobs with versions, and pods known by the names of their log files.

A job is shown as `<job_id>/<version_id>`. Its status is an integer, whose JOBSTAT_ word is the platform's own.

https://support.huaweicloud.com/intl/en-us/api-modelarts/modelarts_03_0044.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from trainfleet_exporter.model import FINISHED, Accelerators, Job, JobCount, Pod, Status
from trainfleet_exporter.providers.huawei_modelarts.translate import accelerator_kind
from trainfleet_exporter.quantities import mapping, mappings, number, text, unix_time, whole

Row = Mapping[str, Any]

_STATES = {
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
_HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.STOPPING})


def status(row: Row) -> tuple[Status, str]:
    """The common word and the platform's own, `JOBSTAT_RUNNING`; a number that nobody knows is shown as it is."""
    number_given = whole(row, "status")
    if number_given is None:
        return Status.UNKNOWN, text(row, "status")
    word, common = _STATES.get(number_given, (str(number_given), Status.UNKNOWN))
    return common, f"JOBSTAT_{word}"


def is_live(row: Row) -> bool:
    """Whether a row of the jobs' list may still change: all that is not known to be over."""
    common, _ = status(row)
    return common not in FINISHED and whole(row, "status") != 6  # what could not be deleted has ended before


def counts(workspace_id: str, rows: Iterable[Row], *, since: float) -> list[JobCount]:
    """The jobs of a workspace tallied by status, each status that the platform knows included.

    Those that are over count if they were created at `since` (Unix seconds) or later, or do not say when.
    """
    tally = Counter({(common, f"JOBSTAT_{word}"): 0 for word, common in _STATES.values()})
    tally.update(status(row) for row in rows if is_live(row) or (_time(row, "create_time") or since) >= since)
    return [JobCount(workspace_id, common, word, count) for (common, word), count in tally.items()]


def job_id(job: str, version: str) -> str:
    """The id under which a version of a job is shown."""
    return f"{job}/{version}"


def newest_version(payload: Row, version_id: str) -> Row:
    """The version that a job's row names, in the answer of its versions; empty where it is not there."""
    rows = {text(row, "version_id"): row for row in mappings(payload, "versions")}
    return rows.get(version_id, {})


def job(row: Row, version: Row, *, workspace_id: str) -> Job:
    """One version of a job, from the jobs' row and the version's."""
    common, word = status(version if version.get("status") is not None else row)
    gone = common in FINISHED
    nodes = number(version, "worker_server_num")
    return Job(
        job_id=job_id(text(row, "job_id"), text(row, "version_id")),
        name=text(row, "job_name"),
        job_type="v1",
        workspace_id=workspace_id,
        pool_id=text(version, "pool_id"),
        user_name=text(version, "user_name"),
        status=common,
        platform_status=word,
        holds_resources=None if common is Status.UNKNOWN else common in _HOLDING,
        created=_time(version, "create_time") or _time(row, "create_time"),
        started=_time(version, "start_time"),
        duration=_duration(version) or _duration(row),
        nodes=None if gone else nodes,
        accelerators=() if gone else _accelerators(version, nodes),
    )


def pods(shown_id: str, payload: Row) -> tuple[list[Pod], Counter[str]]:
    """The pods of a version: its log files have their names. Their states the API does not tell."""
    dropped: Counter[str] = Counter()
    names = payload.get("log_file_list")
    if not isinstance(names, list | None):
        dropped["malformed"] += 1
    elif names is None:
        dropped["no_data"] += 1
    found: dict[str, Pod] = {}
    for name in names if isinstance(names, list) else ():
        if not isinstance(name, str) or not name:
            dropped["malformed"] += 1
        elif name in found:
            dropped["duplicate"] += 1
        else:
            found[name] = Pod(job_id=shown_id, pod_id=name)
    return list(found.values()), dropped


def _time(fields: Row, key: str) -> float | None:
    return unix_time(fields, key, per_second=1000)


def _duration(fields: Row) -> float | None:
    """In seconds; 0 is "never"."""
    milliseconds = number(fields, "duration")
    return milliseconds / 1000 if milliseconds else None


def _accelerators(version: Row, nodes: float | None) -> tuple[Accelerators, ...]:
    if nodes is None:
        return ()
    npus = mapping(version, "npu_info")
    units = number(npus, "unit_num")
    if units:
        return (Accelerators("npu", text(npus, "product_name"), units * nodes),)
    each, model = number(version, "gpu_num"), text(version, "gpu_type")
    if each is None:
        return ()
    return (Accelerators(accelerator_kind(model) or "gpu", model if each else "", each * nodes),)
