"""The simulated v1 training API, which is no longer documented: jobs, versions, log files, readings of single pods.

Readings are numbers as text, and a missing reading is "0".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, TypeVar

from trainfleet_simulator.exchange import Answer, ApiError
from trainfleet_simulator.modelarts.catalog import DEFAULT, WORKSPACES
from trainfleet_simulator.modelarts.legacy import v1_job_id, versions
from trainfleet_simulator.modelarts.parameters import Call, choice_of, int_of, refused, workspace_of
from trainfleet_simulator.modelarts.phases import v1_status
from trainfleet_simulator.world.jobs import Job, Role
from trainfleet_simulator.world.nouns import DAY, GIB, PLANTED_SECRETS

T = TypeVar("T")

_BAD = "0105"
_METRICS = {
    "cpuUsage": "CpuCoreUsage",
    "memUsage": "MemoryUsage",
    "gpuUtil": "GpuCoreUsage",
    "gpuMemUsage": "GpuMemoryUsage",
    "diskReadRate": "DiskReadRate",
    "diskWriteRate": "DiskWriteRate",
    "recvBytesRate": "NetworkInputRate",
    "sendBytesRate": "NetworkOutputRate",
}
_PER_CARD = ("gpuUtil", "gpuMemUsage")


def list_workspaces(call: Call) -> Answer:
    """GET /v1/{project_id}/workspaces: `offset` counts pages."""
    limit = int_of(call, "limit", 1000, 1, 1000, code=_BAD)
    start = int_of(call, "offset", 0, 0, 1_000_000, code=_BAD) * limit
    rows = [
        {
            "id": workspace.workspace_id,
            "name": workspace.name,
            "description": "",
            "owner": "sim-account",
            "auth_type": "public",
            "status": "NORMAL",
            "status_info": "",
            "enterprise_project_id": "0",
            "create_time": (call.world.started - 400 * DAY) * 1000,
            "update_time": (call.world.started - 90 * DAY) * 1000,
        }
        for workspace in WORKSPACES
        if workspace.workspace_id not in call.world.hidden
    ]
    page = rows[start : start + limit]
    return Answer(
        {"total_count": len(rows), "count": len(page), "workspaces": page},
        total=len(rows),
        rows=[[row["id"], row["name"]] for row in page],
    )


def list_training_jobs_v1(call: Call) -> Answer:
    """GET /v1/{project_id}/training-jobs: each job with the state of its newest version."""
    size = int_of(call, "per_page", 10, 1, 1000, code=_BAD)
    start = (int_of(call, "page", 1, 1, 65535, code=_BAD) - 1) * size
    descending = choice_of(call, "order", ("asc", "desc"), "asc", code=_BAD) == "desc"
    here = versions(call.legacy) if workspace_of(call.legacy, call.text("workspace_id")) == DEFAULT else {}
    newest = [(found[-1], len(found)) for found in here.values()]
    newest.sort(key=lambda pair: (pair[0].draft.name, pair[0].job_id), reverse=descending)
    rows = [
        {
            "job_id": v1_job_id(version),
            "job_name": version.draft.name,
            "version_id": int(version.job_id),
            "status": v1_status(version),
            "create_time": version.created * 1000,
            "duration": version.duration(call.legacy.now) * 1000,
            "job_desc": "",
            "version_count": count,
        }
        for version, count in newest[start : start + size]
    ]
    body = {"is_success": True, "quotas": 100, "job_total_count": len(newest), "job_count_limit": 99, "jobs": rows}
    return Answer(body, total=len(newest), rows=[[row["job_id"], row["version_id"], row["status"]] for row in rows])


def _versions(call: Call) -> list[Job]:
    found = versions(call.legacy).get(int(call.ids[0])) if call.ids[0].isdigit() else None
    if found is None:
        raise refused("0105", "The training job does not exist.", 404)
    return found


def _version(call: Call) -> Job:
    found = next((version for version in _versions(call) if version.job_id == call.ids[1]), None)
    if found is None:
        raise refused("0105", "The version of the training job does not exist.", 404)
    return found


def list_training_job_versions(call: Call) -> Answer:
    """GET /v1/{project_id}/training-jobs/{job_id}/versions: the newest first; page 0 has all of them."""
    found = _versions(call)[::-1]
    size = int_of(call, "per_page", 10, 1, 1000, code=_BAD)
    page = int_of(call, "page", 0, 0, 65535, code=_BAD)
    chosen = found if page == 0 else found[(page - 1) * size : page * size]
    rows = [_version_row(call, version, len(found) - found.index(version)) for version in chosen]
    body = {
        "is_success": True,
        "job_id": v1_job_id(found[0]),
        "job_name": found[0].draft.name,
        "job_desc": "",
        "version_count": len(found),
        "versions": rows,
    }
    return Answer(body, total=len(found), rows=[[row["version_id"], row["status"]] for row in rows])


def _version_row(call: Call, version: Job, number: int) -> dict[str, Any]:
    role = version.draft.roles[0]
    return {
        "version_id": int(version.job_id),
        "version_name": f"V{number:04d}",
        "pre_version_id": None,
        "status": v1_status(version),
        "create_time": version.created * 1000,
        "start_time": None if version.running is None else version.running * 1000,
        "duration": version.duration(call.legacy.now) * 1000,
        "engine_type": None,
        "spec_code": role.machine,
        "worker_server_num": role.count,
        "gpu_num": role.cards,
        "gpu_type": role.card_type or None,
        "npu_info": None,
        "core": str(role.cpu),
        "cpu": str(role.cpu),
        "memory": f"{role.memory // GIB}GB",
        "pool_id": None,
        "pool_name": None,
        "parameter": [{"label": "hub_token", "value": PLANTED_SECRETS[1]}],
        "user_command": None,
        # In a list, this object is a text with JSON.
        "system_metric_list": json.dumps(_mean_of_pods(call, version) | {"interval": 1}),
    }


def _mean_of_pods(call: Call, version: Job) -> dict[str, list[str]]:
    if version.running is None:
        return {}
    means = {}
    for metric in _METRICS:
        charts = [_Chart(call, version, place, metric) for place in range(len(version.pods))]
        if len(charts) == 1:
            means[metric] = charts[0].written("mean", "{:.2f}".format)
        else:
            means[metric] = [
                f"{fmean(column):.2f}"
                for column in zip(*(chart.written("value", float) for chart in charts), strict=True)
            ]
    return means


def list_log_file_names(call: Call) -> Answer:
    """GET …/versions/{version_id}/log/file-names: one for each pod, with its name; none before the version runs."""
    names = _pod_names(_version(call))
    return Answer({"is_success": True, "log_file_list": names}, rows=[[name] for name in names])


def _pod_names(version: Job) -> list[str]:
    if version.running is None:
        return []
    return [f"job-{version.draft.name}.{place}" for place in range(len(version.pods))]


def show_pod_metric_statistic(call: Call) -> Answer:
    """GET …/versions/{version_id}/pod/{pod_name}/metric-statistic: a pod's readings; `each` is per card."""
    version = _version(call)
    each = choice_of(call, "statistic_type", ("all", "each"), "all", code=_BAD) == "each"
    names = _pod_names(version)
    if call.ids[2] not in names:
        raise ApiError(404, "ModelArts.0105", "The pod does not exist.")
    place = names.index(call.ids[2])
    role = version.draft.roles[0]
    rows = [
        {"metric": metric, "value": values}
        for metric in _METRICS
        for values in _Chart(call, version, place, metric).by_card(_cards(role, metric, each=each))
    ]
    return Answer({"metrics": rows, "interval": 1}, rows=[[row["metric"], row["value"][-1]] for row in rows])


def _cards(role: Role, metric: str, *, each: bool) -> int:
    """Return the number of rows of a metric."""
    if metric not in _PER_CARD:
        return 1
    return role.cards if each else min(role.cards, 1)


@dataclass(frozen=True, slots=True)
class _Chart:
    """The readings of one metric of one pod."""

    call: Call
    version: Job
    place: int
    metric: str

    def by_card(self, cards: int) -> Iterator[list[str]]:
        """Return slightly different readings of cards. Their mean is the pod's reading."""
        for card in range(cards):
            share = 1 + 0.05 * (card - (cards - 1) / 2) / cards
            yield self.written(f"{card}/{cards}", partial(_of_card, share))

    def written(self, name: str, write: Callable[[float], T]) -> list[T]:
        """Return each reading, formatted by `write`. `name` identifies `write`."""
        # Rates are bytes a second here, except for disks: kilobytes.
        scale = 1e6 if self.metric.endswith("BytesRate") else 1024 if self.metric.startswith("disk") else 1
        return self.call.series.written(
            self.version,
            self.place,
            _METRICS[self.metric],
            self.call.legacy.present,
            name=f"{self.metric} {name}",
            write=lambda value: write(round(scale * (value or 0.0), 2)),
        )


def _of_card(share: float, value: float) -> str:
    return f"{round(share * value, 2):g}"
