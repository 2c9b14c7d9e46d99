"""Requests a second: ours, with decoding, translating and rendering, beside the vendor's SDK and bare clients.

`python -m benchmarks calls --short` is a quick run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.calls_clients import CLIENTS, CONCURRENCY
from benchmarks.cloud import Fleet
from benchmarks.figures import number, quantile, ratios
from benchmarks.processes import Failed, Ordered, cloud, ordered
from benchmarks.report import Check, Found, Table

ROUNDS = 11

_TIMES_FASTER = 1.3
_JOBS = 1_000
_PODS = 8
_SDK = "alibabacloud_pai_dlc20201203"


@dataclass(frozen=True, slots=True)
class _Call:
    """What is asked; `times` is how often in one batch of the bare server's, and of the simulator's."""

    title: str
    name: str
    times: tuple[int, int]


_NEW = (
    _Call("ListJobs, pages of 100 jobs never seen", "list_new_jobs", (CONCURRENCY, CONCURRENCY)),
    _Call("GetJob of jobs never seen", "get_new_job", (300, 100)),
)
"""What an exporter meets once, at its start: no part of what was promised of polls."""
_CALLS = (
    _Call("ListJobs, pages of 100 jobs known before", "list_jobs", (CONCURRENCY, CONCURRENCY)),
    _NEW[0],
    _Call("ListJobs, TotalCount alone", "count_jobs", (400, 100)),
    _Call("GetJob of jobs known before", "get_job", (300, 100)),
    _NEW[1],
)
_TITLES = {
    "ours": "ours: signed, decoded, translated, rendered",
    "sdk": "the vendor's SDK, async: signed, decoded",
    "httpx": "httpx, its own transport: decoded",
    "aiohttp": "aiohttp: decoded",
}


@dataclass(frozen=True, slots=True)
class _Server:
    """Somebody who answers, and which jobs are asked for."""

    title: str
    url: str
    job_ids: Sequence[str]
    clients: Sequence[str]
    is_simulator: bool


@dataclass(frozen=True, slots=True)
class _Batch:
    rate: float
    """Requests a second."""
    cpu: float
    """CPU seconds of the client a request."""


_Batches = Mapping[tuple[_Call, str], Sequence[_Batch]]
"""By call and client."""


def run(rounds: int = ROUNDS) -> Iterator[Found]:
    """A table of requests a second of each client, call and server; and what was promised of ours and the SDK's."""
    with_sdk = importlib.util.find_spec(_SDK) is not None
    cores = sorted(os.sched_getaffinity(0))
    table = Table(
        "Poll throughput",
        ("server", "call", "client", "requests a second", "CPU µs a request", "ours is faster", "ours, by CPU"),
        notes=_notes(rounds, with_sdk, len(cores)),
    )
    checks: list[Check] = []
    for server, found in _measured(rounds, with_sdk, cores):
        for call in _CALLS:
            ours = found[call, "ours"]
            for name in server.clients:
                batches = found[call, name]
                table.rows.append(
                    (
                        server.title,
                        call.title,
                        _TITLES[name],
                        _spread([batch.rate for batch in batches]),
                        _spread([batch.cpu * 1e6 for batch in batches]),
                        f"{ratios(_faster(ours, batches))} ×" if name != "ours" else "",
                        f"{ratios(_cheaper(ours, batches))} ×" if name != "ours" else "",
                    )
                )
        checks.append(_check(server, found))
    yield table
    yield from checks


def _notes(rounds: int, with_sdk: bool, cores: int) -> list[str]:
    notes = [
        (
            f"Each client is a process with {CONCURRENCY} requests in flight. Batches take turns, {rounds} for each"
            " client after one that does not count. Medians (10th to 90th percentile). A ratio compares the batches of"
            " one round."
        ),
        (
            "Ours does what a poll does: the transport with limiter and breakers, the model's objects, and their lines"
            " on the page. A poll mostly sees known jobs with a new duration. It decodes and translates them like all"
            " others, and keeps the lines that have not changed. Jobs that it never saw are those of a start. The other"
            " clients do not distinguish them."
        ),
        (
            "The SDK opens a connection for each request. The bare clients do not sign, so the simulator rejects them."
            " With the simulator, both others wait for it most of the time. So compare CPU there, not requests."
        ),
        f"The bare server has {_JOBS:,} jobs with {_PODS} pods each, and answers from strings that are nearly ready.",
    ]
    if cores > 1:
        notes.append("The client has one processor core to itself, the server another.")
    if not with_sdk:
        notes.append(f"Skipped: the vendor's SDK ({_SDK}) is not installed.")
    return notes


def _measured(rounds: int, with_sdk: bool, cores: Sequence[int]) -> Iterator[tuple[_Server, _Batches]]:
    clients = [name for name in CLIENTS if name != "sdk" or with_sdk]
    with cloud(_JOBS, core=cores[-1]) as url:
        listed = json.loads(Fleet(_JOBS, _PODS).list_jobs({"Status": "Running", "PageSize": "100"}))
        job_ids = [job["JobId"] for job in listed["Jobs"]]
        bare = _Server("bare", url, job_ids, clients, is_simulator=False)
        yield bare, _measure(bare, rounds, cores[0])
    with ordered("benchmarks.calls_simulator", core=cores[-1]) as process:
        told = process.order("jobs")
        fewest, most = told["pods"]
        title = f"simulator ({told['running']} jobs; GetJob of {fewest} to {most} pods)"
        signing = [name for name in clients if name in ("ours", "sdk")]
        simulator = _Server(title, process.url, told["job_ids"], signing, is_simulator=True)
        yield simulator, _measure(simulator, rounds, cores[0])


def _measure(server: _Server, rounds: int, core: int) -> _Batches:
    found: defaultdict[tuple[_Call, str], list[_Batch]] = defaultdict(list)
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(ordered("benchmarks.calls_clients", name, server.url, core=core))
            for name in server.clients
        }
        for call in _CALLS:
            came = {name: _batch(client, call, server)[1] for name, client in clients.items()}
            if len(set(came.values())) > 1:
                raise Failed(f"{call.title}: the clients were not given the same: {came}")
            for turn in range(rounds):
                time.sleep(1.0)  # so that durations, in whole seconds, are other ones
                # Whoever comes first may meet another machine than who comes last.
                for name in (*server.clients[turn % len(clients) :], *server.clients[: turn % len(clients)]):
                    found[call, name].append(_batch(clients[name], call, server)[0])
    return found


def _batch(client: Ordered, call: _Call, server: _Server) -> tuple[_Batch, int]:
    """One batch, and how many jobs or pods came in it."""
    order = {"call": call.name, "times": call.times[server.is_simulator], "job_ids": server.job_ids}
    told = client.order(json.dumps(order))
    return _Batch(told["requests"] / told["wall"], told["cpu"] / told["requests"]), told["found"]


def _faster(ours: Sequence[_Batch], theirs: Sequence[_Batch]) -> list[float]:
    return [own.rate / other.rate for own, other in zip(ours, theirs, strict=True)]


def _cheaper(ours: Sequence[_Batch], theirs: Sequence[_Batch]) -> list[float]:
    return [other.cpu / own.cpu for own, other in zip(ours, theirs, strict=True)]


def _spread(values: Sequence[float]) -> str:
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
        f"{number(ratio[worst])} × ({worst.title}, the least); {number(first)} × at least where no job was ever seen",
        ratio[worst] >= _TIMES_FASTER,
    )
