"""Places in queues are shown of listed jobs, and so wait for the list of jobs: not for ever."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.providers.alibaba_pai import cloud as pai
from tests.providers.huawei_modelarts import cloud as modelarts
from tests.support.fleet import Fleet


@dataclass(frozen=True)
class World:
    """A cloud with one job that waits in a queue, and a config that polls it."""

    config: str
    make: Callable[[], Any]
    lists_jobs: Callable[[httpx.Request], bool]
    lists_queue: Callable[[httpx.Request], bool]
    after: tuple[dict[str, Any], ...]
    """What the job may be next: it runs, or waits in another pool."""


def _pai() -> pai.Cloud:
    cloud = pai.Cloud()
    cloud.quotas = [{"QuotaId": "q1", "QuotaName": "quota", "ParentQuotaId": ""}]
    cloud.jobs = [pai.job("a", "Queuing", ResourceId="q1")]
    row = {"WorkloadId": "a", "WorkloadType": "DLC", "Status": "Enqueued", "Position": 3, "QuotaId": "q1"}
    cloud.queues = {"q1": [row]}
    return cloud


def _modelarts() -> modelarts.Cloud:
    cloud = modelarts.Cloud()
    cloud.pools = [{"metadata": {"name": "q1"}, "status": {"phase": "Running"}}]
    cloud.jobs = [modelarts.job("a", "Pending", resource={"pool_id": "q1"})]
    cloud.workloads["q1"] = {"statistics": {"items": [{"type": "train", "status": {"Queue": 1}}]}}
    cloud.queued["q1"] = [{"uid": "1", "jobUUID": "a", "pendingPosition": 3}]
    return cloud


WORLDS = {
    "alibaba_pai": World(
        pai.CONFIG.replace("{usage: {source: job_metrics}}", "{usage: {enabled: false}, pods: {enabled: false}}"),
        _pai,
        lambda request: request.headers["x-acs-action"] == "ListJobs",
        lambda request: request.headers["x-acs-action"] == "ListQuotaWorkloads",
        (pai.job("a", "Running", ResourceId="q1"), pai.job("a", "Queuing", ResourceId="q2")),
    ),
    "huawei_modelarts": World(
        modelarts.CONFIG + "    collectors: {usage: {enabled: false}}\n",
        _modelarts,
        lambda request: "training-job-searches" in request.url.path,
        lambda request: "workloads" in request.url.path,
        (
            modelarts.job("a", "Running", resource={"pool_id": "q1"}),
            modelarts.job("a", "Pending", resource={"pool_id": "q2"}),
        ),
    ),
}
PLACE = 'job_queue_position{job_id="a"}'


class Held:
    """A cloud in front of whose list of jobs something can be put."""

    def __init__(self, world: World) -> None:
        self.cloud, self.world = world.make(), world
        self.breaks_queue = False
        self.takes = 0.0  # seconds a call, of which PAI needs some dozen
        self.fails = False
        self.asked = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.breaks_queue and self.world.lists_queue(request):
            return httpx.Response(500, json={})
        if self.world.lists_jobs(request):
            self.asked += 1
            await asyncio.sleep(self.takes)
            if self.fails:
                return httpx.Response(500, json={})
        answer = self.cloud(request)
        found: httpx.Response = await answer if inspect.isawaitable(answer) else answer
        return found


@pytest.fixture(params=WORLDS.values(), ids=list(WORLDS))
def world(request: pytest.FixtureRequest) -> World:
    """Each cloud's."""
    found: World = request.param
    return found


FleetOf = Callable[..., AbstractAsyncContextManager[tuple[Held, Fleet]]]


@pytest.fixture
def fleet_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, world: World
) -> FleetOf:
    """Open a fleet of a cloud."""

    @asynccontextmanager
    async def opened(change: tuple[str, str] = ("", "")) -> AsyncIterator[tuple[Held, Fleet]]:
        held = Held(world)
        config = world.config.replace(*change) if change[0] else world.config
        async with Fleet(held, tmp_path, monkeypatch, caplog, config=config) as fleet:
            yield held, fleet

    return opened


async def _took(poll: Awaitable[object]) -> float:
    loop = asyncio.get_running_loop()
    start = loop.time()
    await poll
    return loop.time() - start


async def test_a_slow_first_list_of_jobs_is_waited_for(fleet_of: FleetOf) -> None:
    async with fleet_of() as (held, fleet):
        held.takes = 0.4
        assert await fleet.exporter.poll_once()
        assert await fleet.value(PLACE) == 3


async def test_places_are_back_with_the_jobs(fleet_of: FleetOf) -> None:
    async with fleet_of() as (held, fleet):
        held.fails = True
        assert not await fleet.exporter.poll_once()
        assert await fleet.value(PLACE) is None
        held.fails, held.takes = False, 0.4
        await asyncio.sleep(60.0)
        await fleet.exporter.poll_once()
        assert await fleet.value(PLACE) == 3


@pytest.mark.parametrize("after", [0, 1])
async def test_a_failing_queue_keeps_only_places_of_waiting_jobs(fleet_of: FleetOf, after: int) -> None:
    async with fleet_of() as (held, fleet):
        assert await fleet.exporter.poll_once()
        held.breaks_queue = True
        for place in (3, None):
            await asyncio.sleep(60.0)
            for name in ("jobs", "pool_workloads"):
                await fleet.runner(name).tick()
            fleet.runner("pool_workloads").expire()
            assert await fleet.value(PLACE) == place
            held.cloud.jobs = [held.world.after[after]]


async def test_a_list_that_hangs_takes_no_queue_along(fleet_of: FleetOf) -> None:
    async with fleet_of() as (held, fleet):
        held.takes = 1000.0
        polls = [asyncio.create_task(fleet.runner(name).tick()) for name in ("workspaces", "jobs", "pools")]
        assert await _took(fleet.runner("pool_workloads").tick()) < 20.0  # of 50
        assert held.asked
        assert fleet.runner("pool_workloads").state.success
        assert len(await fleet.lines("pool_workloads")) > 0
        assert await fleet.value(PLACE) is None
        await asyncio.gather(*polls)


async def test_without_jobs_the_queue_does_not_wait(fleet_of: FleetOf) -> None:
    async with fleet_of(("collectors: {", "collectors: {jobs: {enabled: false}, job_counts: {enabled: false}, ")) as (
        held,
        fleet,
    ):
        polls = [asyncio.create_task(fleet.runner(name).tick()) for name in ("workspaces", "pools")]
        assert await _took(fleet.runner("pool_workloads").tick()) < 1.0
        assert len(await fleet.lines("pool_workloads")) > 0
        assert await fleet.value(PLACE) is None
        assert not held.asked
        await asyncio.gather(*polls)
