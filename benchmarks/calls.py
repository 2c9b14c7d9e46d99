"""Requests a second: our client, with decoding, translating and rendering, next to the vendor's SDK.

`python -m benchmarks.calls NAME URL WORKSPACE` is one of the clients. Each line of its input is a batch in JSON
(`call`, `times`, `job_ids`). It responds with the numbers of requests and of jobs or pods, the seconds and the CPU
seconds.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.cloud import WORKSPACE, Fleet
from benchmarks.report import Check, Found, Table, number, quantile, spread
from benchmarks.rig import Child, Failed, child, two_cores
from trainfleet_exporter.config import Global
from trainfleet_exporter.model import JobCount, Status
from trainfleet_exporter.page import PageStore, Renderer, RenderSettings
from trainfleet_exporter.polling.parts import PartStore
from trainfleet_exporter.polling.poll import Failures, Part, Poll
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.providers.alibaba_pai import jobs
from trainfleet_exporter.providers.alibaba_pai.client import PAGE_SIZE, Api
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.transport import Account, CallLimits
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

_ROUNDS = 11
_CONCURRENCY = 8
"""Requests in flight of every client."""
_TIMES_FASTER = 1.3
_JOBS, _PODS = 1_000, 8
_POPULATION = 600
_SDK = "alibabacloud_pai_dlc20201203"
_EVER = "2000-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class _Call:
    """A kind of call. `times` is the number of calls in a batch, to the bare server and to the simulator."""

    title: str
    name: str
    times: tuple[int, int]


_NEW = (
    _Call("ListJobs, pages of 100 new jobs", "list_new_jobs", (_CONCURRENCY, _CONCURRENCY)),
    _Call("GetJob of new jobs", "get_new_job", (300, 100)),
)
"""Calls of an exporter only after its start. The promise about polls does not include them."""
_CALLS = (
    _Call("ListJobs, pages of 100 known jobs", "list_jobs", (_CONCURRENCY, _CONCURRENCY)),
    _NEW[0],
    _Call("ListJobs, TotalCount alone", "count_jobs", (400, 100)),
    _Call("GetJob of known jobs", "get_job", (300, 100)),
    _NEW[1],
)
_TITLES = {
    "ours": "ours: signed, decoded, translated, rendered",
    "sdk": "the vendor's SDK, async: signed, decoded",
}
_NOTES = (
    (
        f"Each client is a process with {_CONCURRENCY} requests in flight. The clients send batches in turn. The first"
        " batch does not count. A ratio compares the batches of one round."
    ),
    (
        "Our client does the same as a poll. It uses the transport with its rate limits and retries, creates "
        "the objects of the model, and writes their samples on the page. A poll mostly sees known jobs with a new "
        "duration. It decodes them like all others, and "
        "keeps the translation and the lines that have not changed. After a start, all jobs are new. The SDK "
        "handles new and known jobs alike."
    ),
    "The SDK opens a connection for each request.",
    (
        "With the simulator, compare the CPU time, not the requests. Our client and the SDK wait for the simulator"
        " most of the time."
    ),
    f"The bare server has {_JOBS:,} jobs with {_PODS} pods each, and responds with prepared strings.",
)


@dataclass(frozen=True, slots=True)
class _Server:
    """A server, and the jobs that the clients request."""

    title: str
    url: str
    workspace_id: str
    job_ids: Sequence[str]
    clients: Sequence[str]
    is_simulator: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    """Requests a second, and CPU seconds of the client for each request."""

    rate: float
    cpu: float


_Batches = Mapping[tuple[_Call, str], Sequence[_Batch]]
"""By call and client."""


def run(*, short: bool) -> Iterator[Found]:
    """Yield a table of requests a second by client, call and server, and the promises about our client and the SDK."""
    rounds = 3 if short else _ROUNDS
    with_sdk = importlib.util.find_spec(_SDK) is not None
    own, others = two_cores()
    table = Table(
        "Poll throughput",
        ("server", "call", "client", "requests a second", "CPU µs a request", "ours is faster", "ours, by CPU"),
        notes=[f"Cells show medians of {rounds} rounds (10th to 90th percentile).", *_NOTES],
    )
    if own is not None:
        table.notes.append("Client and server each have one CPU core.")
    if not with_sdk:
        table.notes.append(f"Skipped: the vendor's SDK ({_SDK}) is not installed.")
    checks: list[Check] = []
    for server, found in _measured(rounds, with_sdk, own, others):
        for call, name in ((call, name) for call in _CALLS for name in server.clients):
            ours, batches = found[call, "ours"], found[call, name]
            table.rows.append(
                (
                    server.title,
                    call.title,
                    _TITLES[name],
                    _whole([batch.rate for batch in batches]),
                    _whole([batch.cpu * 1e6 for batch in batches]),
                    f"{spread(_faster(ours, batches))} ×" if name != "ours" else "",
                    f"{spread(_cheaper(ours, batches))} ×" if name != "ours" else "",
                )
            )
        checks.append(_check(server, found))
    yield table
    yield from checks


def _measured(rounds: int, with_sdk: bool, own: int | None, others: int | None) -> Iterator[tuple[_Server, _Batches]]:
    clients = [name for name in _TITLES if name != "sdk" or with_sdk]
    with child("cloud", f"--jobs={_JOBS}", f"--pods={_PODS}", core=others) as cloud:
        listed = json.loads(Fleet(_JOBS, _PODS).list_jobs({"Status": "Running", "PageSize": "100"}))
        job_ids = [job["JobId"] for job in listed["Jobs"]]
        bare = _Server("bare", cloud.url, WORKSPACE, job_ids, clients, is_simulator=False)
        yield bare, _measure(bare, rounds, own)
    with child("simulator", _POPULATION, "pai", core=others) as cloud:
        jobs = cloud.command("jobs")
        title = "simulator ({} jobs; GetJob of {} to {} pods)".format(jobs["running"], *jobs["pods"])
        simulator = _Server(title, cloud.url, jobs["workspace_id"], jobs["job_ids"], clients, is_simulator=True)
        yield simulator, _measure(simulator, rounds, own)


def _measure(server: _Server, rounds: int, core: int | None) -> _Batches:
    found: defaultdict[tuple[_Call, str], list[_Batch]] = defaultdict(list)
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(child("calls", name, server.url, server.workspace_id, core=core))
            for name in server.clients
        }
        for call in _CALLS:
            came = {name: _batch(client, call, server)[1] for name, client in clients.items()}
            if len(set(came.values())) > 1:
                raise Failed(f"{call.title}: the clients did not get the same: {came}")
            for turn in range(rounds):
                time.sleep(1.0)  # so that durations, in whole seconds, change
                # The machine may be faster for the first client of a round than for the last.
                for name in (*server.clients[turn % len(clients) :], *server.clients[: turn % len(clients)]):
                    found[call, name].append(_batch(clients[name], call, server)[0])
    return found


def _batch(client: Child, call: _Call, server: _Server) -> tuple[_Batch, int]:
    """Run one batch; return it and its number of jobs or pods."""
    batch = {"call": call.name, "times": call.times[server.is_simulator], "job_ids": server.job_ids}
    answer = client.command(json.dumps(batch))
    return _Batch(answer["requests"] / answer["wall"], answer["cpu"] / answer["requests"]), answer["found"]


def _faster(ours: Sequence[_Batch], theirs: Sequence[_Batch]) -> list[float]:
    return [own.rate / other.rate for own, other in zip(ours, theirs, strict=True)]


def _cheaper(ours: Sequence[_Batch], theirs: Sequence[_Batch]) -> list[float]:
    return [other.cpu / own.cpu for own, other in zip(ours, theirs, strict=True)]


def _whole(values: Sequence[float]) -> str:
    low, high = quantile(values, 0.1), quantile(values, 0.9)
    return f"{statistics.median(values):,.0f} ({low:,.0f} to {high:,.0f})"


def _check(server: _Server, found: _Batches) -> Check:
    promise = f"Poll throughput is at least {_TIMES_FASTER} × the vendor SDK's on every call of a poll: {server.title}"
    compare = _faster
    if server.is_simulator:
        promise += ", by the client's CPU"
        compare = _cheaper
    if "sdk" not in server.clients:
        return Check(promise, "the vendor's SDK is not installed", None)
    ratio = {call: statistics.median(compare(found[call, "ours"], found[call, "sdk"])) for call in _CALLS}
    first = min([ratio.pop(call) for call in _NEW])
    worst = min(ratio, key=ratio.__getitem__)
    return Check(
        promise,
        f"{number(ratio[worst])} × ({worst.title}, the least); {number(first)} × at least for new jobs",
        ratio[worst] >= _TIMES_FASTER,
    )


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of one piece of work: numbers of requests, and of jobs, pods or counts."""

    requests: int
    found: int


class _Client(ABC):
    """Requests the jobs of one workspace. `worker` is the number of the concurrent piece of work, below
    `_CONCURRENCY`."""

    workspace_id = WORKSPACE

    def running(self) -> dict[str, str]:
        """Return the query for running jobs."""
        return {"WorkspaceId": self.workspace_id, "Status": "Running", "StartTime": _EVER}

    @abstractmethod
    async def list_jobs(self, worker: int, job_id: str) -> _Done:
        """ListJobs: every running job, in pages of 100."""

    async def list_new_jobs(self, worker: int, job_id: str) -> _Done:
        """ListJobs of new jobs, if that makes a difference."""
        return await self.list_jobs(worker, job_id)

    @abstractmethod
    async def count_jobs(self, worker: int, job_id: str) -> _Done:
        """ListJobs for its TotalCount: a page with one job."""

    @abstractmethod
    async def get_job(self, worker: int, job_id: str) -> _Done:
        """GetJob: one job with its pods."""

    async def get_new_job(self, worker: int, job_id: str) -> _Done:
        """GetJob of a new job, if that makes a difference."""
        return await self.get_job(worker, job_id)


class _Ours(_Client):
    """The exporter's client: signs, sends, decodes, translates into the model, renders."""

    def __init__(self, url: str) -> None:
        tune_memory()  # as the daemon does; the other clients run with Python's defaults
        keys = {"access_key_id": ACCESS_KEY_ID, "access_key_secret": ACCESS_KEY_SECRET}
        given = {"name": "benchmark", "platform": "alibaba_pai", "region": "cn-hangzhou", "credentials": keys}
        given |= {"endpoints": dict.fromkeys(("dlc", "paistudio", "aiworkspace", "cloudmonitor"), url)}
        limits = CallLimits(requests_per_second=1e6, concurrency=_CONCURRENCY)
        context = BuildContext(settings=Global(), account=Account("benchmark", limits), observe=lambda attempt: None)
        self._api = Api(AlibabaPaiConfig.model_validate(given), context, cloudmonitor=False)
        self._renderer = Renderer(RenderSettings())
        self._state = CollectorState("benchmark", "jobs", 60.0)
        self._telemetry = Telemetry()
        self._pages = PageStore()
        self._store = self._new_store()

    async def list_jobs(self, worker: int, job_id: str) -> _Done:
        """Work like the jobs collector in a later poll: the jobs are known, and have a new duration."""
        return await self._read_jobs(self._store, str(worker))

    async def list_new_jobs(self, worker: int, job_id: str) -> _Done:
        """Work like the jobs collector in its first poll."""
        return await self._read_jobs(self._new_store(), f"new {worker}")

    async def count_jobs(self, worker: int, job_id: str) -> _Done:
        """Work like the collector of job counts."""
        total = await self._api.count("dlc", "ListJobs", "/api/v1/jobs", self.running(), deadline=_deadline())
        await self._store.publish(f"count {worker}", [JobCount("1", Status.RUNNING, "Running", total)])
        return _Done(1, min(total, 1))

    async def get_job(self, worker: int, job_id: str) -> _Done:
        """Work like the collector of pods with a known job."""
        return _Done(1, await self._read_pods(job_id, self._store))

    async def get_new_job(self, worker: int, job_id: str) -> _Done:
        """Work like the collector of pods with a new job."""
        return _Done(1, await self._read_pods(job_id, self._new_store()))

    async def _read_jobs(self, store: PartStore, key: str) -> _Done:
        async with self._part(key, store) as part:
            listing = await jobs.list_jobs(self._api, self.workspace_id, self.running(), deadline=_deadline())
            found = [jobs.job(row, workspace_id=self.workspace_id) for row in listing.rows.values()]
            await part.publish([job for job in found if job is not None])
        return _Done(-(-len(found) // PAGE_SIZE), len(found))

    async def _read_pods(self, job_id: str, store: PartStore) -> int:
        async with self._part(job_id, store) as part:
            shown, _ = jobs.pods(await jobs.get_job(self._api, job_id, deadline=_deadline()))
            await part.publish(shown)
        return len(shown) - 1

    @asynccontextmanager
    async def _part(self, key: str, store: PartStore) -> AsyncIterator[Part]:
        failures = Failures(self._state, self._telemetry)
        poll = Poll(state=self._state, store=store, telemetry=self._telemetry, failures=failures, deadline=_deadline())
        async with poll.part(key) as part:
            yield part
        if failures.latest:
            raise failures.latest[0]

    def _new_store(self) -> PartStore:
        return PartStore(self._state, page_store=self._pages, renderer=self._renderer, keep_polls=3, poll_timeout=60.0)


class _Sdk(_Client):
    """The vendor's asynchronous client: signs, sends, decodes into the SDK's own models."""

    def __init__(self, url: str) -> None:
        config = importlib.import_module("alibabacloud_tea_openapi.utils_models").Config(
            access_key_id=ACCESS_KEY_ID,
            access_key_secret=ACCESS_KEY_SECRET,
            region_id="cn-hangzhou",
            endpoint=url.removeprefix("http://"),
            protocol="http",
        )
        self._models: Any = importlib.import_module(f"{_SDK}.models")
        self._runtime: Any = importlib.import_module("darabonba.runtime").RuntimeOptions
        self._client: Any = importlib.import_module(f"{_SDK}.client").Client(config)

    async def list_jobs(self, worker: int, job_id: str) -> _Done:
        pages = found = 0
        total = 1
        while found < total:
            pages += 1
            total, came = await self._page(pages, PAGE_SIZE)
            found += came
        return _Done(pages, found)

    async def count_jobs(self, worker: int, job_id: str) -> _Done:
        total, _ = await self._page(1, 1)
        return _Done(1, min(total, 1))

    async def _page(self, number_of: int, size: int) -> tuple[int, int]:
        request = self._models.ListJobsRequest(
            workspace_id=self.workspace_id,
            status="Running",
            start_time=_EVER,
            sort_by="GmtCreateTime",
            order="asc",
            page_number=number_of,
            page_size=size,
        )
        answer = await self._client.list_jobs_with_options_async(request, {}, self._runtime())
        return answer.body.total_count, len(answer.body.jobs)

    async def get_job(self, worker: int, job_id: str) -> _Done:
        request = self._models.GetJobRequest()
        answer = await self._client.get_job_with_options_async(job_id, request, {}, self._runtime())
        return _Done(1, len(answer.body.pods))


_CLIENTS: Mapping[str, Callable[[str], _Client]] = {"ours": _Ours, "sdk": _Sdk}


def _deadline() -> float:
    return asyncio.get_running_loop().time() + 60


async def _work(do: Callable[[int, str], Awaitable[_Done]], job_ids: Sequence[str], times: int) -> list[_Done]:
    """Call a function so many times, with `_CONCURRENCY` calls in flight."""
    left = iter(range(times))

    async def work(worker: int) -> list[_Done]:
        return [await do(worker, job_ids[turn % len(job_ids)]) for turn in left]

    return [done for one in await asyncio.gather(*map(work, range(_CONCURRENCY))) for done in one]


async def _serve(name: str, url: str, workspace_id: str) -> None:
    client = _CLIENTS[name](url)
    client.workspace_id = workspace_id
    print(json.dumps({"url": url}), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        batch = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        done = await _work(getattr(client, batch["call"]), batch["job_ids"], batch["times"])
        answer = {
            "cpu": time.process_time() - cpu,
            "wall": time.perf_counter() - wall,
            "requests": sum(one.requests for one in done),
            "found": sum(one.found for one in done),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
