"""From Lantern's payloads to the model: pure functions. A value that Lantern did not report is None, never 0."""

from __future__ import annotations

from collections.abc import Mapping

from trainfleet_exporter.fleet.quantities import believable_ratio
from trainfleet_exporter.model import (
    FINISHED,
    Accelerators,
    Job,
    JobCount,
    JobUsage,
    Pool,
    PoolAmounts,
    PoolStatus,
    Status,
    UsageValues,
    Workspace,
)
from trainfleet_exporter.providers.values import amount, utc_time, whole
from trainfleet_lantern import payloads

MIB = 2.0**20

STATUS = {
    "created": Status.CREATING,
    "queued": Status.QUEUED,
    "provisioning": Status.STARTING,
    "running": Status.RUNNING,
    "recovering": Status.RESTARTING,
    "stopping": Status.STOPPING,
    "succeeded": Status.SUCCEEDED,
    "failed": Status.FAILED,
    "cancelled": Status.STOPPED,
}
LIVE = tuple((status, word) for word, status in STATUS.items() if status not in FINISHED)
_HOLDING = frozenset({Status.STARTING, Status.RUNNING, Status.RESTARTING, Status.STOPPING})
_POOL_STATUS = {"ready": PoolStatus.READY, "building": PoolStatus.CREATING, "degraded": PoolStatus.ABNORMAL}


def status(word: str) -> Status:
    """Translate a state of Lantern to a status."""
    return STATUS.get(word, Status.UNKNOWN)


def workspace(row: payloads.Workspace) -> Workspace | None:
    """Translate a row of the list of workspaces."""
    return Workspace(row.id or "", row.title or "")


def job(row: payloads.Job, workspace_id: str) -> Job:
    """Translate a job of the list or of GetJob."""
    found = status(row.state or "")
    gpus = row.gpus or payloads.JobGpus()
    cards = whole(gpus.count)
    return Job(
        job_id=row.id or "",
        name=row.name or "",
        workspace_id=workspace_id,
        pool_id=row.pool or "",
        user_name=row.owner or "",
        status=found,
        platform_status=row.state or "",
        reason=row.reason or "",
        holds_resources=None if found is Status.UNKNOWN else found in _HOLDING,
        priority=whole(row.priority),
        created=utc_time(row.created_at),
        started=utc_time(row.started_at),
        finished=utc_time(row.ended_at),
        restarts=whole(row.recoveries),
        accelerators=() if cards is None else (Accelerators("gpu", gpus.model or "", cards),),
    )


def finished_counts(reported: Mapping[str, float | None], workspace_id: str) -> list[JobCount]:
    """Count finished jobs by state. Lantern documents that it leaves out states without jobs: these are 0."""
    pairs = [(found, word) for word, found in STATUS.items() if found in FINISHED]
    pairs += [(Status.UNKNOWN, word) for word in reported if word not in STATUS]
    counts = {word: whole(reported.get(word, 0.0)) for _, word in pairs}
    return [JobCount(workspace_id, found, word, count) for found, word in pairs if (count := counts[word]) is not None]


def usage(row: payloads.Reading) -> JobUsage:
    """Translate a reading of one job, which Lantern reports in percent."""
    values = UsageValues(
        cpu=_ratio(row.cpu_percent, bounded=False),
        memory=_ratio(row.memory_percent),
        accelerator_utilization=_ratio(row.gpu_percent),
    )
    return JobUsage(row.job or "", values)


def pool(row: payloads.Pool) -> tuple[Pool, PoolAmounts]:
    """Translate a pool: its name, its capacity and how much of it is allocated."""
    gpus, memory = row.gpus or payloads.PoolGpus(), row.memory_mib or payloads.PoolMemory()
    model, pool_id = gpus.model or "", row.id or ""
    total, used = whole(gpus.total), whole(gpus.used)
    return (
        Pool(
            pool_id=pool_id,
            name=row.title or "",
            status=_POOL_STATUS.get(row.state or "", PoolStatus.UNKNOWN),
        ),
        PoolAmounts(
            pool_id=pool_id,
            capacity_memory_bytes=_bytes(memory.total),
            allocated_memory_bytes=_bytes(memory.used),
            capacity_accelerators=() if total is None else (Accelerators("gpu", model, total),),
            allocated_accelerators=() if used is None else (Accelerators("gpu", model, used),),
        ),
    )


def _ratio(given: float | None, *, bounded: bool = True) -> float | None:
    percent = amount(given)
    return None if percent is None else believable_ratio(percent / 100, bounded=bounded)


def _bytes(given: float | None) -> float | None:
    mebibytes = amount(given)
    return None if mebibytes is None else mebibytes * MIB
