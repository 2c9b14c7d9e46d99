"""Clients of PAI-DLC that ask the same: ours with all that it makes of an answer, the vendor's SDK, and bare ones.

`python -m benchmarks.calls_clients NAME URL` says when it is ready. Each line on its input is an order in JSON, and is
answered by how many requests were made, how many jobs or pods came, and the seconds and CPU seconds that this took.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import httpx

from trainfleet_exporter.model import Job, JobCount, Status
from trainfleet_exporter.page import PageStore, Renderer, RenderSettings
from trainfleet_exporter.polling.parts import PartStore
from trainfleet_exporter.polling.poll import Failures, Poll
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.providers.alibaba_pai import translate
from trainfleet_exporter.providers.alibaba_pai.client import PAGE_SIZE, PaiClient
from trainfleet_exporter.providers.alibaba_pai.collectors.pods import read_pods
from trainfleet_exporter.providers.alibaba_pai.signing import PaiDialect
from trainfleet_exporter.providers.credentials import FixedCredential, Keys
from trainfleet_exporter.simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.transport import Account, HttpSettings, Limits, Transport

CONCURRENCY = 8
"""Requests under way at a time, of every client."""

_EVER = "2000-01-01T00:00:00Z"
_RUNNING = {"Status": "Running", "StartTime": _EVER}
_OLDEST_FIRST = {"SortBy": "GmtCreateTime", "Order": "asc"}


@dataclass(frozen=True, slots=True)
class Done:
    """What one piece of work was: requests made; jobs, pods or counts that came."""

    requests: int
    found: int


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work: by which of the workers that work at a time, and about which job if about one."""

    worker: int
    job_id: str


class Client(ABC):
    """Somebody who asks."""

    @abstractmethod
    async def list_jobs(self, task: Task) -> Done:
        """ListJobs: every running job, in pages of 100."""

    async def list_new_jobs(self, task: Task) -> Done:
        """The same, for whoever makes a difference between jobs that are known and those that are not."""
        return await self.list_jobs(task)

    @abstractmethod
    async def count_jobs(self, task: Task) -> Done:
        """ListJobs for its TotalCount: a page of one."""

    @abstractmethod
    async def get_job(self, task: Task) -> Done:
        """GetJob: one job with its pods."""

    async def get_new_job(self, task: Task) -> Done:
        """The same, for whoever makes a difference between jobs that are known and those that are not."""
        return await self.get_job(task)

    @abstractmethod
    async def aclose(self) -> None:
        """Close the connections."""


class Ours(Client):
    """The exporter's own way: signed, sent, decoded, translated into the model, rendered."""

    def __init__(self, url: str) -> None:
        self._transport = Transport(
            account=Account("benchmark", Limits(requests_per_second=1e6, concurrency=CONCURRENCY)),
            http=HttpSettings(),
            observe=lambda attempt: None,
        )
        keys = FixedCredential("benchmark", Keys(ACCESS_KEY_ID, ACCESS_KEY_SECRET))
        dlc = self._transport.client(url, PaiDialect("dlc", "2020-12-03", keys))
        self._api = PaiClient(dlc=dlc, paistudio=dlc, aiworkspace=dlc)  # nothing is asked of the other two
        self._renderer = Renderer(RenderSettings())
        self._state = CollectorState("benchmark", "jobs", 60.0)
        self._telemetry = Telemetry()
        self._pages = PageStore()
        self._store = self._new_store(self._pages)

    async def list_jobs(self, task: Task) -> Done:
        """As the sweep of jobs does poll after poll: it knows them, and they have run on."""
        jobs = await self._read_jobs()
        await self._store.publish(f"workspace {task.worker}", jobs)
        return Done(-(-len(jobs) // PAGE_SIZE), len(jobs))

    async def list_new_jobs(self, task: Task) -> Done:
        """As the sweep of jobs does when it has never seen any of them."""
        jobs = await self._read_jobs()
        await self._renderer.render("benchmark", jobs)
        return Done(-(-len(jobs) // PAGE_SIZE), len(jobs))

    async def count_jobs(self, task: Task) -> Done:
        """As finished jobs are counted."""
        total = await self._api.count_jobs(_RUNNING, deadline=_deadline())
        await self._store.publish(f"count {task.worker}", [JobCount("1", Status.RUNNING, "Running", total)])
        return Done(1, min(total, 1))

    async def get_job(self, task: Task) -> Done:
        """As the cycle over pods does with a job that it read before."""
        return Done(1, await self._read_pods(task.job_id, self._store))

    async def get_new_job(self, task: Task) -> Done:
        """As the cycle over pods does with a job that it never saw."""
        return Done(1, await self._read_pods(task.job_id, self._new_store(self._pages)))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _read_jobs(self) -> list[Job]:
        listing = await self._api.list_jobs(_RUNNING, deadline=_deadline())
        found = (translate.job(row) for row in listing.rows.values())
        return [job for job in found if job is not None]

    async def _read_pods(self, job_id: str, store: PartStore) -> int:
        failures = Failures(self._state, self._telemetry)
        poll = Poll(state=self._state, store=store, telemetry=self._telemetry, failures=failures, deadline=_deadline())
        found = 0
        async with poll.part(job_id) as part:
            found = await read_pods(self._api, part)
        if failures.latest:
            raise failures.latest[0]
        return found

    def _new_store(self, page_store: PageStore) -> PartStore:
        return PartStore(self._state, page_store=page_store, renderer=self._renderer, keep_polls=3, poll_timeout=60.0)


class _Paging(Client):
    """Reads lists page by page till their end, as whoever needs them whole must."""

    async def list_jobs(self, task: Task) -> Done:
        pages = found = 0
        total = 1
        while found < total:
            pages += 1
            total, came = await self.page(pages, PAGE_SIZE)
            found += came
        return Done(pages, found)

    async def count_jobs(self, task: Task) -> Done:
        total, _ = await self.page(1, 1)
        return Done(1, min(total, 1))

    @abstractmethod
    async def page(self, number: int, size: int) -> tuple[int, int]:
        """One page of ListJobs: how many jobs there are in all, and how many came."""


class Sdk(_Paging):
    """The vendor's asynchronous client as it is: signed, sent, decoded into the SDK's own models."""

    def __init__(self, url: str) -> None:
        package = "alibabacloud_pai_dlc20201203"
        config = importlib.import_module("alibabacloud_tea_openapi.utils_models").Config(
            access_key_id=ACCESS_KEY_ID,
            access_key_secret=ACCESS_KEY_SECRET,
            region_id="cn-hangzhou",
            endpoint=url.removeprefix("http://"),
            protocol="http",
        )
        self._models: Any = importlib.import_module(f"{package}.models")
        self._runtime: Any = importlib.import_module("darabonba.runtime").RuntimeOptions
        self._client: Any = importlib.import_module(f"{package}.client").Client(config)

    async def page(self, number: int, size: int) -> tuple[int, int]:
        """By list_jobs_with_options_async."""
        request = self._models.ListJobsRequest(
            status="Running",
            start_time=_EVER,
            sort_by="GmtCreateTime",
            order="asc",
            page_number=number,
            page_size=size,
        )
        answer = await self._client.list_jobs_with_options_async(request, {}, self._runtime())
        return answer.body.total_count, len(answer.body.jobs)

    async def get_job(self, task: Task) -> Done:
        """By get_job_with_options_async."""
        request = self._models.GetJobRequest()
        answer = await self._client.get_job_with_options_async(task.job_id, request, {}, self._runtime())
        return Done(1, len(answer.body.pods))

    async def aclose(self) -> None:
        """Nothing is kept open."""


class _Bare(_Paging):
    """Asks without a signature, and does nothing with an answer but to decode its JSON."""

    async def page(self, number: int, size: int) -> tuple[int, int]:
        query = {**_RUNNING, **_OLDEST_FIRST, "PageNumber": str(number), "PageSize": str(size)}
        answer = await self.get(f"/api/v1/jobs?{urlencode(query)}", {"x-acs-action": "ListJobs"})
        return answer["TotalCount"], len(answer["Jobs"])

    async def get_job(self, task: Task) -> Done:
        return Done(1, len((await self.get(f"/api/v1/jobs/{task.job_id}", {"x-acs-action": "GetJob"}))["Pods"]))

    @abstractmethod
    async def get(self, target: str, headers: Mapping[str, str]) -> Any:
        """The decoded answer."""


class Httpx(_Bare):
    """httpx with the transport it comes with."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, trust_env=False)

    async def get(self, target: str, headers: Mapping[str, str]) -> Any:
        """The decoded answer."""
        return (await self._client.get(target, headers=headers)).json()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class Aiohttp(_Bare):
    """aiohttp's client."""

    def __init__(self, url: str) -> None:
        self._session = aiohttp.ClientSession(url)

    async def get(self, target: str, headers: Mapping[str, str]) -> Any:
        """The decoded answer."""
        async with self._session.get(target, headers=headers) as answer:
            return await answer.json()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()


CLIENTS: Mapping[str, Callable[[str], Client]] = {"ours": Ours, "sdk": Sdk, "httpx": Httpx, "aiohttp": Aiohttp}


def _deadline() -> float:
    return asyncio.get_running_loop().time() + 60


async def _work(do: Callable[[Task], Awaitable[Done]], job_ids: Sequence[str], times: int) -> list[Done]:
    """Do something so many times, as many at a time as there are to be requests."""
    left = iter(range(times))

    async def work(worker: int) -> list[Done]:
        return [await do(Task(worker, job_ids[number % len(job_ids)])) for number in left]

    return [done for one in await asyncio.gather(*map(work, range(CONCURRENCY))) for done in one]


async def _main(name: str, url: str) -> None:
    client = CLIENTS[name](url)
    print(json.dumps({"url": url}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        do: Callable[[Task], Awaitable[Done]] = getattr(client, order["call"])
        wall, cpu = time.perf_counter(), time.process_time()
        done = await _work(do, order["job_ids"], order["times"])
        told = {
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "requests": sum(one.requests for one in done),
            "found": sum(one.found for one in done),
        }
        print(json.dumps(told), flush=True)
    await client.aclose()


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        tune_memory()  # as the daemon does; the others run as Python and their packages have it
    asyncio.run(_main(*sys.argv[1:]))
