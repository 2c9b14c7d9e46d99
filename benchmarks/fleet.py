"""A fleet for pages of any size: jobs of eight pods, spread over providers; readings differ at each change."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from trainfleet_exporter.model import (
    Accelerators,
    Job,
    JobCount,
    JobUsage,
    PodUsage,
    Readings,
    Status,
    Subject,
    UsageSource,
)
from trainfleet_exporter.page import Renderer, RenderSettings

PODS = 8
_PROVIDERS = 10
_BORN = 1_760_000_000.0
_MIB = float(1 << 20)


def _ratio(share: float) -> float:
    return round(share, 4)


def _cores(share: float) -> float:
    return round(share * 96, 2)


def _mebibytes(share: float) -> float:
    return round(share * 800 * 1024) * _MIB


def _rate(share: float) -> float:
    return float(round(share * 1.2e9))


_FIELDS: dict[str, Callable[[float], float]] = {
    "cpu": _ratio,
    "memory": _ratio,
    "accelerator_utilization": _ratio,
    "accelerator_memory": _ratio,
    "network_receive": _rate,
    "network_transmit": _rate,
    "disk_read": _rate,
    "disk_write": _rate,
    "cpu_cores": _cores,
    "memory_bytes": _mebibytes,
    "accelerator_memory_bytes": _mebibytes,
    "accelerator_memory_capacity_bytes": _mebibytes,
}
"""Twelve readings of each job and pod, as a bulk source of all of them has."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is published at once: by which collector, under which key."""

    collector: str
    key: str
    objects: Sequence[object]


class Provider:
    """The jobs of one provider, all of which run as long as the fleet is."""

    def __init__(self, number: int, jobs: int) -> None:
        self.name = f"pai-{number}"
        self._salt = number * 15_485_863
        self._jobs = [_job(number, place) for place in range(jobs)]
        self._pod_subjects = [
            Subject((job.job_id, f"{job.job_id}-worker-{pod}")) for job in self._jobs for pod in range(PODS)
        ]
        self._job_subjects = [Subject((job.job_id,)) for job in self._jobs]

    async def parts(self, change: int) -> AsyncIterator[Part]:
        """All parts as a poll after this change finds them. The number of live jobs is told last, and is the change:
        a page that has it has all of the change.

        The event loop is given back between parts, as making them is not what is measured.
        """
        seen = _BORN + 86_400.0 + 60.0 * change
        jobs = [replace(job, duration=seen - (job.started or 0.0)) for job in self._jobs]
        await asyncio.sleep(0)
        yield Part("jobs", "workspace", jobs)
        for place, (field, shaped) in enumerate(_FIELDS.items()):
            salt = self._salt + change * 104_729 + place * 1_299_709
            columns = [
                Readings(of, f"values.{field}", subjects, _values(len(subjects), salt, shaped))
                for of, subjects in ((PodUsage, self._pod_subjects), (JobUsage, self._job_subjects))
            ]
            await asyncio.sleep(0)
            yield Part("usage", field, columns)
        yield Part("usage", "sources", [UsageSource(job.job_id, "cloudmonitor", seen - 60.0) for job in jobs])
        await asyncio.sleep(0)
        yield Part("job_counts", "workspace", [JobCount("100001", Status.RUNNING, "Running", change)])


class Fleet:
    """Providers with jobs enough for about so many series."""

    def __init__(self, series: int) -> None:
        jobs = max(1, round(series / _series_of_a_job()))
        count = min(_PROVIDERS, jobs)
        self.providers = [Provider(number, jobs // count + (number < jobs % count)) for number in range(count)]


def _series_of_a_job() -> int:
    async def parts() -> list[Part]:
        return [part async for part in Provider(0, 1).parts(0)]

    renderer = Renderer(RenderSettings())
    return sum(renderer.render_at_once("one", part.objects).series for part in asyncio.run(parts()))


def _values(count: int, salt: int, shaped: Callable[[float], float]) -> array[float]:
    return array("d", [shaped((number * 7919 + salt) % 10_007 / 10_007) for number in range(count)])


def _job(provider: int, place: int) -> Job:
    born = _BORN + place % 3600
    return Job(
        job_id=f"dlc{provider:04x}{place:08x}",
        name=f"pretrain-{place}",
        job_type="PyTorchJob",
        workspace_id="100001",
        pool_id=f"quota{place % 7}",
        user_id=f"20000000000000{place % 97:02}",
        user_name=f"user-{place % 97}",
        resource_type="Lingjun",
        status=Status.RUNNING,
        platform_status="Running",
        holds_resources=True,
        priority=1 + place % 9,
        created=born,
        submitted=born + 3,
        started=born + 60,
        duration=0.0,
        restarts=place % 3,
        cpu_cores=96.0 * PODS,
        memory_bytes=800.0 * 1024 * _MIB * PODS,
        nodes=float(PODS),
        accelerators=(Accelerators("gpu", "GU8T", 8.0 * PODS),),
        tags=(("team", f"team-{place % 23}"), ("project", f"project-{place % 5}")),
    )
