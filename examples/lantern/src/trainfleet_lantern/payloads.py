"""The fields that the exporter reads of Lantern's responses: one struct for each object.

Every field may be absent or null. Times are ISO 8601 texts. A page holds its rows; null is a row that is no object.
"""

from __future__ import annotations

from msgspec import Struct, field


class Workspace(Struct, gc=False):
    """GET /v1/workspaces: a workspace."""

    id: str | None = None
    title: str | None = None


class WorkspacesPage(Struct, gc=False):
    """GET /v1/workspaces."""

    total: float | None = None
    rows: list[Workspace | None] | None = field(name="workspaces", default=None)


class JobGpus(Struct, gc=False):
    """The accelerators that a job asked for."""

    model: str | None = None
    count: float | None = None


class Job(Struct, gc=False):
    """GET /v1/workspaces/{id}/jobs and /v1/jobs/{id}: a job."""

    id: str | None = None
    name: str | None = None
    pool: str | None = None
    owner: str | None = None
    state: str | None = None
    reason: str | None = None
    priority: float | None = None
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    recoveries: float | None = None
    gpus: JobGpus | None = None


class JobsPage(Struct, gc=False):
    """GET /v1/workspaces/{id}/jobs."""

    total: float | None = None
    rows: list[Job | None] | None = field(name="jobs", default=None)


class Summary(Struct, gc=False):
    """GET /v1/workspaces/{id}/summary: how many jobs ended in each state."""

    ended: dict[str, float | None] | None = None


class Reading(Struct, gc=False):
    """GET /v1/workspaces/{id}/usage: the latest reading of a job, in percent."""

    job: str | None = None
    cpu_percent: float | None = None
    memory_percent: float | None = None
    gpu_percent: float | None = None


class ReadingsPage(Struct, gc=False):
    """GET /v1/workspaces/{id}/usage."""

    total: float | None = None
    rows: list[Reading | None] | None = field(name="readings", default=None)


class PoolGpus(Struct, gc=False):
    """The accelerators of a pool."""

    model: str | None = None
    total: float | None = None
    used: float | None = None


class PoolMemory(Struct, gc=False):
    """The memory of a pool in MiB."""

    total: float | None = None
    used: float | None = None


class Pool(Struct, gc=False):
    """GET /v1/pools: a pool."""

    id: str | None = None
    title: str | None = None
    state: str | None = None
    gpus: PoolGpus | None = None
    memory_mib: PoolMemory | None = None


class PoolsPage(Struct, gc=False):
    """GET /v1/pools."""

    total: float | None = None
    rows: list[Pool | None] | None = field(name="pools", default=None)
