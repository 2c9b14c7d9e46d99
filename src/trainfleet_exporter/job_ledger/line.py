"""One line of the ledger: an ended job as JSON. What is not known is left out; only a known zero is 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from trainfleet_exporter.model import Accelerator, JobEnd, ProviderFacts

Amount = Annotated[float, msgspec.Meta(ge=0)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class HeldAccelerators(msgspec.Struct, frozen=True):
    kind: Accelerator
    model: str
    count: Amount


class AcceleratorUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Utilization of a job's accelerators, 0 to 1, over the `seen_seconds` for which readings were shown."""

    mean: Amount
    peak: Amount
    seen_seconds: Amount


class EndedJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line. Times are RFC 3339 in UTC."""

    provider: str
    platform: str = ""
    region: str = ""
    workspace_id: str = ""
    job_id: str
    job_name: str = ""
    user_id: str = ""
    user_name: str = ""
    pool_id: str = ""
    labels: dict[str, str] = {}
    """The tags of `metrics.job_labels` that the job has."""
    status: str = ""
    created: Time | None = None
    queued: Time | None = None
    """When the job was submitted to its queue, where the platform says so."""
    started: Time | None = None
    ended: Time | None = None
    """When the platform released all of its resources."""
    seen: Time
    """When a poll found that it had ended."""
    phase_seconds: dict[str, Amount] | None = None
    held_seconds: Amount | None = None
    lost_seconds: Amount | None = None
    """Those of `held_seconds` in which it prepared, checked, recovered or finished."""
    accelerators: tuple[HeldAccelerators, ...] = ()
    accelerator_hours: Amount | None = None
    accelerator_use: AcceleratorUse | None = None
    faults: dict[str, Count] | None = None
    recoveries: Count | None = None
    recovery_seconds: Amount | None = None

    @property
    def end(self) -> datetime:
        """When it ended, or was found to have."""
        return self.seen if self.ended is None else self.ended


def ended_job(
    provider: str, facts: ProviderFacts, end: JobEnd, use: AcceleratorUse | None, *, job_labels: Collection[str] = ()
) -> EndedJob:
    """The line of a job that has ended."""
    job = end.job
    faults: Counter[str] = Counter()
    for fault in end.faults or ():
        faults[fault.cause] += fault.count
    hours = None
    if job.accelerators and end.held is not None:
        hours = round(sum(item.count for item in job.accelerators) * end.held / 3600, 6)
    return EndedJob(
        provider=provider,
        platform=facts.platform,
        region=facts.region,
        workspace_id=job.workspace_id,
        job_id=job.job_id,
        job_name=job.name,
        user_id=job.user_id,
        user_name=job.user_name,
        pool_id=job.pool_id,
        labels={name: value for name, value in job.tags if name in job_labels},
        status=job.status.value,
        created=_time(job.created),
        queued=_time(job.submitted),
        started=_time(job.started),
        ended=_time(job.finished),
        seen=_time(end.seen) or datetime.now(UTC),
        phase_seconds=None if end.phases is None else {each.phase: round(each.seconds, 3) for each in end.phases},
        held_seconds=None if end.held is None else round(end.held, 3),
        lost_seconds=None if end.lost is None else round(end.lost, 3),
        accelerators=tuple(HeldAccelerators(item.kind, item.model, item.count) for item in job.accelerators),
        accelerator_hours=hours,
        accelerator_use=use,
        faults=None if end.faults is None else dict(faults),
        recoveries=end.recoveries,
        recovery_seconds=end.recovery_seconds,
    )


def _time(seconds: float | None) -> datetime | None:
    """Whole milliseconds; None also for a time beyond the calendar."""
    try:
        return None if seconds is None else datetime.fromtimestamp(round(seconds, 3), UTC)
    except (OverflowError, ValueError, OSError):
        return None
