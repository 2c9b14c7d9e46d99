"""A simulated week as samples of Prometheus: the exporter's families, polled and scraped as in production."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TextIO

from benchmarks.detection_signals import Readings, readings
from benchmarks.detection_world import MINUTES, NODES, Job, Week

START = 1000 * 486 * 3600
"""A Unix time at which a block of 486 hours begins, so that all samples of a week are in one block."""
SCRAPED = 30
"""Seconds after the minute of each scrape."""
_POLL = 2
"""Minutes from one poll of usage to the next."""
_LAG = 2
"""Age of CloudMonitor's newest reading in minutes when the exporter reads it."""
_KEPT = 60
"""Minutes for which the exporter shows a job that has ended."""


def when(minute: int) -> int:
    """Return the Unix time of the scrape of a minute."""
    return START + minute * 60 + SCRAPED


def write(week: Week, path: Path, seed: int) -> None:
    """All samples as OpenMetrics with timestamps."""
    with path.open("w", encoding="utf-8") as stream:
        for job in week.jobs:
            _job(stream, job, Random(f"readings {seed} {job.job_id}"))
        _others(stream, week)
        stream.write("# EOF\n")


def _series(stream: TextIO, name: str, labels: str, samples: Iterable[tuple[int, object]]) -> None:
    head = f'trainfleet_{name}{{provider="p"{"," if labels else ""}{labels}}}'
    stream.writelines(f"{head} {value} {when(minute)}\n" for minute, value in samples)


def _job(stream: TextIO, job: Job, random: Random) -> None:
    of = f'job_id="{job.job_id}"'
    until = min(job.end, MINUTES)
    shown = min(job.end + _KEPT, MINUTES)
    owner = f'{of},job_name="n",workspace_id="w",pool_id="pool",user_id="1",user_name="u"'
    _series(stream, "job_info", owner, ((minute, 1) for minute in range(job.submitted, shown)))
    _series(
        stream,
        "job_submitted_timestamp_seconds",
        of,
        ((m, START + job.submitted * 60) for m in range(job.submitted, shown)),
    )
    queued = range(job.submitted, min(job.start, MINUTES))
    _series(stream, "job_status", f'{of},status="queued"', ((minute, 1) for minute in queued))
    if job.start >= MINUTES:
        return
    restarting, requeued = _minutes(job, "restart", "requeued"), _minutes(job, "requeued")
    held = range(job.start, until)
    for status, minutes in (
        ("running", [minute for minute in held if minute not in restarting]),
        ("restarting", sorted(minute for minute in restarting if minute < until)),
        (job.status, range(until, shown) if job.status != "running" else ()),
    ):
        _series(stream, "job_status", f'{of},status="{status}"', ((minute, 1) for minute in minutes))
    if job.status != "running":
        _series(stream, "job_finished_timestamp_seconds", of, ((m, START + job.end * 60) for m in range(until, shown)))
    if job.reason:
        why = ((minute, 1) for minute in range(until, shown))
        _series(stream, "job_status_reason", f'{of},reason="{job.reason}"', why)
    _series(
        stream,
        "job_holds_resources",
        of,
        ((minute, int(minute < until and minute not in requeued)) for minute in range(job.start, shown)),
    )
    kind = f'{of},accelerator="gpu"'
    _series(stream, "job_requested_accelerators", f'{kind},accelerator_model="V100"', ((m, 8 * job.pods) for m in held))
    _series(
        stream,
        "job_restarts_total",
        of,
        ((minute, sum(at <= minute for at in job.restarts)) for minute in held),
    )
    _usage(stream, job, list(readings(random, job)), until)
    if job.evictions:
        samples = ((minute, sum(at <= minute for at in job.evictions)) for minute in held)
        _series(stream, "pod_evictions_total", f'{of},pod_id="{job.job_id}-0"', samples)


def _minutes(job: Job, *kinds: str) -> set[int]:
    """Return the minutes of a job in episodes of these kinds."""
    return {minute for one in job.timeline if one.kind in kinds for minute in range(one.start, one.end)}


def _usage(stream: TextIO, job: Job, read: list[Readings], until: int) -> None:
    of = f'job_id="{job.job_id}"'
    # A scrape shows the values of the latest poll, which are a little older than the poll.
    polled = ((minute, minute // _POLL * _POLL - _LAG - job.start) for minute in range(job.start, until))
    minutes = [(minute, at) for minute, at in polled if 0 <= at < len(read)]
    _series(stream, "job_usage_timestamp_seconds", of, ((m, START + (job.start + at) * 60) for m, at in minutes))
    kind = f'{of},accelerator="gpu"'
    whole = [(sum(one.use) / job.pods, sum(one.power), sum(one.network)) for one in read]
    _series(stream, "job_accelerator_utilization_ratio", kind, ((m, f"{whole[at][0]:.3f}") for m, at in minutes))
    _series(stream, "job_accelerator_power_watts", kind, ((m, f"{whole[at][1]:.0f}") for m, at in minutes))
    for way in ("receive", "transmit"):
        _series(
            stream, f"job_network_{way}_bytes_per_second", of, ((m, f"{whole[at][2] / 2:.0f}") for m, at in minutes)
        )
    if job.pods < 3:
        return  # no rule compares fewer
    for pod in range(job.pods):
        which = f'{of},pod_id="{job.job_id}-{pod}"'
        kind = f'{which},accelerator="gpu"'
        _series(stream, "pod_accelerator_utilization_ratio", kind, ((m, f"{read[a].use[pod]:.3f}") for m, a in minutes))
        _series(stream, "pod_accelerator_power_watts", kind, ((m, f"{read[a].power[pod]:.0f}") for m, a in minutes))
        for way in ("receive", "transmit"):
            name = f"pod_network_{way}_bytes_per_second"
            _series(stream, name, which, ((m, f"{read[a].network[pod] / 2:.0f}") for m, a in minutes))


def _others(stream: TextIO, week: Week) -> None:
    """Write the pool, the workspace of short jobs, the quota, and the exporter itself."""
    every = range(MINUTES)
    pool, kind = 'pool_id="pool"', 'pool_id="pool",accelerator="gpu"'
    accelerators = 8 * NODES
    for name, labels, samples in (
        ("provider_info", 'platform="x"', ((m, 1) for m in every)),
        ("exporter_collector_interval_seconds", 'collector="usage"', ((m, 60 * _POLL) for m in every)),
        ("pool_info", f'{pool},pool_name="n",parent_pool_id=""', ((m, 1) for m in every)),
        ("pool_nodes", f'{pool},status="abnormal"', ((m, week.pool[m][0]) for m in every)),
        ("pool_capacity_accelerators", f'{kind},accelerator_model="V100"', ((m, accelerators) for m in every)),
        (
            "pool_allocated_accelerators",
            f'{kind},accelerator_model="V100"',
            ((m, round(week.pool[m][1] * accelerators)) for m in every),
        ),
        ("pool_queued_accelerators", kind, ((m, week.pool[m][2]) for m in every)),
        ("jobs_finished_total", 'workspace_id="batch",status="succeeded"', ((m, week.ended[m][0]) for m in every)),
        ("jobs_finished_total", 'workspace_id="batch",status="failed"', ((m, week.ended[m][1]) for m in every)),
        ("provider_job_quota", "", ((m, 100) for m in every)),
        ("provider_job_quota_used", "", ((m, round(100 * week.quota[m])) for m in every)),
    ):
        _series(stream, name, labels, samples)
