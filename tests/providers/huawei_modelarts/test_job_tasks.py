"""The pods that the tasks of a job are, poll after poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from tests.polling.rig import Rig
from tests.support.clock import run_stepped
from trainfleet_exporter.config import Global, ProviderConfig
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts.client import ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.collectors.jobs import ModelArtsJobReader
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import ModelArtsShared
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.jobs.collectors import JobsCollector
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, CallLimits


class _Client:
    """One job of two tasks in each workspace. `meanwhile` is called during each search."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None
        self._duration = 0

    async def count_created(self, workspace_id: str, start: float, end: float, deadline: float) -> int:
        return 1

    async def search_jobs(self, workspace_id: str, filters: Sequence[Any], *, deadline: float) -> Listing[payloads.Job]:
        await asyncio.sleep(1)
        self.meanwhile()
        self._duration += 1000
        row = {
            "metadata": {"id": f"job-{workspace_id}"},
            "status": {"phase": "Running", "duration": self._duration, "tasks": ["worker-0", "worker-1"]},
        }
        return Listing({f"job-{workspace_id}": msgspec.convert(row, payloads.Job)} if filters[0][0] == "phase" else {})


def test_a_workspace_that_comes_back_keeps_the_pods_of_its_jobs() -> None:
    async def main() -> None:
        client = _Client()
        config = ProviderConfig(name="p", platform="x", region="any-1")
        context = BuildContext(settings=Global(), account=Account("p", CallLimits()), observe=lambda attempt: None)
        shared = ModelArtsShared(cast("HuaweiModelArtsConfig", config), context, cast("ModelArtsClient", client))
        rig = Rig(JobsCollector(shared, 300.0, partial(ModelArtsJobReader, shared)))

        async def pods() -> list[str]:
            await rig.runner.tick()
            await asyncio.sleep(300)
            shown = await rig.shown()
            return sorted(series.split('"')[3] for series in shown if series.startswith("trainfleet_pod_info"))

        shared.workspaces.publish(("a", "b"))
        both = ["job-a", "job-a", "job-b", "job-b"]
        assert await pods() == both
        client.meanwhile = lambda: shared.workspaces.publish(("a",))  # one list of workspaces lacks b
        await pods()
        client.meanwhile = lambda: None
        shared.workspaces.publish(("a", "b"))
        assert await pods() == both
        assert shared.tasks_of("job-b")

    run_stepped(main)
