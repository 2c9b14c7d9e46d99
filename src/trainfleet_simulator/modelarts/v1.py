"""The simulated v1 training API, which is no longer documented: jobs, versions, log files, readings of single pods.

Its world has a few separate jobs on public machines, each with several versions. Readings are numbers as text, and a
missing reading is "0".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any
from zlib import crc32

from trainfleet_simulator.exchange import Answer, Call
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.catalog import (
    DEFAULT,
    WORKSPACES,
    compose,
    ordinary_plan,
    public_roles,
    workspace_of,
)
from trainfleet_simulator.modelarts.job_rows import READINGS, v1_status
from trainfleet_simulator.world.fleet import ENDLESS, Setting, Submissions, World
from trainfleet_simulator.world.jobs import Draft, Job
from trainfleet_simulator.world.nouns import DAY, HOUR, PLANTED_SECRETS
from trainfleet_simulator.world.pools import Pool
from trainfleet_simulator.world.usage import series

_NAMES = ("resnet-v1", "bert-v1", "mnist-v1", "unet-v1")
_HISTORY = 12


def _versions_of(world: World) -> dict[int, list[Job]]:
    """Return every v1 job by id, each with its versions, oldest first. A job of the world is one version."""
    found: dict[int, list[Job]] = {}
    for version in filter(world.shows, world.jobs.values()):
        found.setdefault(_job_id(version), []).append(version)
    return found


def _job_id(version: Job) -> int:
    """Return the id of the job of a version."""
    return 500_000 + crc32(version.draft.name.encode()) % 100_000


def _draft(rng: Random) -> Draft:
    roles = public_roles(rng.choice(("modelarts.vm.gpu.v100", "modelarts.vm.cpu.8u")), rng.choice((1, 1, 2)))
    plan = replace(ordinary_plan(rng, short=True), restarts=())
    made = compose(rng, workspace=DEFAULT, user=catalog.USERS[1], pool="", roles=roles, plan=plan)
    return replace(made, name=rng.choice(_NAMES))


def _earlier(rng: Random, started: int, _: Mapping[str, Pool]) -> Submissions:
    found = [(started - rng.randint(HOUR, 30 * DAY), _draft(rng)) for _ in range(_HISTORY)]
    for name, flavor, count in (("steady-v1", "modelarts.vm.gpu.8v100", 2), ("features-v1", "modelarts.vm.cpu.8u", 1)):
        roles = public_roles(flavor, count)
        made = compose(rng, workspace=DEFAULT, user=catalog.USERS[0], pool="", roles=roles, plan=ENDLESS)
        found.append((started - 2 * HOUR, replace(made, name=name)))
    return found


def _version_id(rng: Random) -> str:
    return str(rng.randrange(1_000_000, 10_000_000))


SETTING = Setting(pools=(), population=5, watched=2, draft=_draft, earlier=_earlier, job_id=_version_id, history=0)


_METRICS = (
    *("cpuUsage", "memUsage", "gpuUtil", "gpuMemUsage"),
    *("diskReadRate", "diskWriteRate", "recvBytesRate", "sendBytesRate"),
)
_PER_CARD = ("gpuUtil", "gpuMemUsage")


class V1:
    """The operations on the world of v1 jobs."""

    def __init__(self, legacy: World) -> None:
        self._world = legacy

    def list_workspaces(self, call: Call) -> Answer:
        """GET /v1/{project_id}/workspaces: `offset` counts pages."""
        limit = call.whole("limit", 1000, 1, 1000)
        start = call.whole("offset", 0, 0, 1_000_000) * limit
        rows = [
            {"id": workspace.workspace_id, "name": workspace.name, "status": "NORMAL"}
            for workspace in WORKSPACES
            if workspace.workspace_id not in call.world.hidden
        ]
        page = rows[start : start + limit]
        return Answer({"total_count": len(rows), "count": len(page), "workspaces": page})

    def list_jobs(self, call: Call) -> Answer:
        """GET /v1/{project_id}/training-jobs: each job with the state of its newest version."""
        self._world.advance(call.now)
        size = call.whole("per_page", 10, 1, 1000)
        start = (call.whole("page", 1, 1, 65535) - 1) * size
        descending = call.choice("order", ("asc", "desc"), "asc") == "desc"
        here = _versions_of(self._world) if workspace_of(self._world, call.text("workspace_id")) == DEFAULT else {}
        newest = [found[-1] for found in here.values()]
        newest.sort(key=lambda version: (version.draft.name, version.job_id), reverse=descending)
        rows = [
            {
                "job_id": _job_id(version),
                "job_name": version.draft.name,
                "version_id": int(version.job_id),
                "status": v1_status(version),
                "create_time": version.created * 1000,
                "duration": version.duration(self._world.now) * 1000,
            }
            for version in newest[start : start + size]
        ]
        return Answer({"is_success": True, "job_total_count": len(newest), "jobs": rows})

    def _versions(self, call: Call) -> list[Job]:
        """Return the versions of the job in the path, or only the version in the path."""
        self._world.advance(call.now)
        found = _versions_of(self._world).get(int(call.ids[0]) if call.ids[0].isdigit() else 0, [])
        found = [one for one in found if one.job_id in call.ids[1:2]] if call.ids[1:] else found
        if not found:
            raise call.refused("not_found")
        return found

    def list_versions(self, call: Call) -> Answer:
        """GET /v1/{project_id}/training-jobs/{job_id}/versions: all of them, the newest first."""
        found = self._versions(call)[::-1]
        rows = list(map(self._row, found))
        return Answer({"is_success": True, "version_count": len(found), "versions": rows})

    def list_log_file_names(self, call: Call) -> Answer:
        """GET …/versions/{version_id}/log/file-names: one for each pod, with its name; none before the version
        runs."""
        return Answer({"is_success": True, "log_file_list": _pod_names(self._versions(call)[0])})

    def show_statistic(self, call: Call) -> Answer:
        """GET …/versions/{version_id}/pod/{pod_name}/metric-statistic: a pod's readings; `each` is per card."""
        version = self._versions(call)[0]
        each = call.choice("statistic_type", ("all", "each"), "all") == "each"
        names = _pod_names(version)
        if call.ids[2] not in names:
            raise call.refused("not_found")
        rows = [
            {"metric": metric, "value": values}
            for metric in _METRICS
            for values in self._by_card(version, names.index(call.ids[2]), metric, each=each)
        ]
        return Answer({"metrics": rows, "interval": 1})

    def _by_card(self, version: Job, place: int, metric: str, *, each: bool) -> Iterator[list[str]]:
        """Return slightly different readings of cards. Their mean is the pod's reading."""
        cards = version.draft.roles[0].cards if metric in _PER_CARD else 1
        cards = cards if each else min(cards, 1)
        values = self._values(version, place, metric)
        for card in range(cards):
            share = 1 + 0.05 * (card - (cards - 1) / 2) / cards
            yield [f"{round(share * value, 2):g}" for value in values]

    def _values(self, version: Job, place: int, metric: str) -> list[float]:
        # Rates are bytes a second here, except for disks: kilobytes.
        scale = 1e6 if metric.endswith("BytesRate") else 1024 if metric.startswith("disk") else 1
        found = series(version, place, READINGS[metric], self._world.present)
        return [round(scale * (value or 0.0), 2) for value in found]

    def _row(self, version: Job) -> dict[str, Any]:
        role = version.draft.roles[0]
        return {
            "version_id": int(version.job_id),
            "status": v1_status(version),
            "create_time": version.created * 1000,
            "start_time": None if version.running is None else version.running * 1000,
            "duration": version.duration(self._world.now) * 1000,
            "worker_server_num": role.count,
            "gpu_num": role.cards,
            "gpu_type": role.card_type or None,
            "parameter": [{"label": "hub_token", "value": PLANTED_SECRETS[1]}],
        }


def _pod_names(version: Job) -> list[str]:
    if version.running is None:
        return []
    return [f"job-{version.draft.name}.{place}" for place in range(len(version.pods))]
