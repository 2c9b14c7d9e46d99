"""Run an exporter through a stepped hour of the three simulated clouds, with faults, and write every page.

`python -m benchmarks.hour FOLDER --checkout PATH` runs the code of another checkout (default: this one). Seed, clock
and jitter are fixed, so two runs of the same code write the same pages: `python -m benchmarks.compare` compares
them. It uses only the config, daemon, `/metrics`, simulator and stepped clock of the checkout. It scrapes pages every
half minute, as text and OpenMetrics, plain and as gzip (written inflated). At the end, this checkout's parser checks
every page. The exit code is 1 if one is invalid or has a series twice.

The clouds fail by a fixed timetable, one fault after the other at every API: faults of the simulator, and
corruptions, which change single values of true answers on their way out.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import math
import random
import re
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, NamedTuple
from unittest import mock

import httpx
import yaml
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import trainfleet_exporter
from benchmarks.rig import ROOT, load, run
from trainfleet_conformance import page
from trainfleet_conformance.clock import START, SteppedLoop, run_stepped
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Fault, Listener, Simulator

_SEED = 7
_START = START + 0.25
"""Unix time. Polls begin between whole seconds, so that rounding never changes the second in which they begin."""
_TICKS = 2.0**22
"""Ticks of the stepped clock in a second. So times are exact floats after any number of steps."""
_EVERY = 30.0
_OFFSET = 25.25
"""Seconds after a multiple of `_EVERY` at which pages are scraped, when no poll begins."""
_SHUT_BEFORE = 2.0
"""Seconds before a scrape in which the clouds do not respond. In this time, the builders of pages finish."""
_BUILD_SECONDS = 0.03
"""Additional seconds of real time for threads."""
_FORMATS = {"text": "text/plain", "openmetrics": "application/openmetrics-text;version=1.0.0"}
"""What a scraper accepts, by the name of the format."""

_CONFIG = """\
global:
  poll_interval: 30s
  poll_timeout: 25s
  keep_last_good_polls: 1
  finished_job_retention: 590s
  metrics: {job_labels: [team, project, cost-center]}
providers:
  - name: pai
    collectors:
      job_counts: {interval: 60s}
      pods: {interval: 60s}
      usage: {interval: 60s, source: auto}
      nodes: {enabled: true, interval: 60s}
  - name: pai-job-metrics
    collectors:
      job_counts: {enabled: false}
      pods: {interval: 60s}
      usage: {interval: 60s, source: job_metrics}
      pools: {enabled: false}
      pool_workloads: {enabled: false}
    workspaces: ["12345"]
  - name: modelarts
    collectors:
      job_counts: {interval: 60s}
      usage: {interval: 60s, source: auto}
      jobs_v1: {enabled: true, interval: 60s}
      nodes: {enabled: true, interval: 60s}
  - name: modelarts-task-metrics
    collectors:
      job_counts: {enabled: false}
      usage: {interval: 60s, source: task_metrics}
      pools: {enabled: false}
      pool_workloads: {enabled: false}
      pool_usage: {enabled: false}
  - name: sagemaker
    collectors:
      job_counts: {interval: 60s}
      usage: {interval: 60s}
      nodes: {enabled: true, interval: 60s}
"""
"""The rest is that of the simulator. The name of a provider begins with its cloud."""
_LIMITS = {"requests_per_second": 1000, "concurrency": 200}
"""So high that no call waits for another. The order of waiting calls would depend on their arrival."""


def _cloud(provider: str) -> str:
    return provider.partition("-")[0]


_CLOUDS = {
    "pai": ("dlc", "paistudio", "aiworkspace", "cloudmonitor"),
    "modelarts": ("modelarts", "iam", "aom"),
    "sagemaker": ("sagemaker", "cloudwatch"),
}
"""The APIs of each cloud."""
_APIS = {each["name"]: _CLOUDS[_cloud(each["name"])] for each in yaml.safe_load(_CONFIG)["providers"]}
_ALL_APIS = tuple(api for apis in _CLOUDS.values() for api in apis)
_CORRUPTIONS = ("numbers as text", "texts as numbers", "nulls", "absent fields", "rows without ids")
_FAULTS = (
    *("nan", "lone_surrogates", "one_bad_row", "unknown_words", "hostile_strings", "negative", "infinite"),
    *("wrong_types", "duplicate_rows", "half_list", "no_list", "padded", "wrong_top", "null", "truncated", "bad_utf8"),
    *("gzip_broken", "empty", "throttled_hint", "server_error", "not_found", "cut_off", "slow"),
)
"""Kinds of the simulator's faults, and slow responses."""
_KINDS = (*_CORRUPTIONS, *_FAULTS)
_FIRST_FAULT = 240.0
_FAULT_EVERY, _FAULT_LASTS = 120.0, 65.0
"""Seconds from one fault of an API to its next, and the duration of each."""
_DELAY = 7.0
_SHORTEST, _LONGEST = 0.02, 0.4
"""Seconds that calls take without a fault."""
_VARYING = re.compile(rb"NextToken=[^&]*|\d{4}-\d\d-\d\dT[^&\"]*|\d{10,}")
"""Parts of a request that may differ between runs: random tokens, and rounded times."""
_ACTIONS = (b"x-acs-action", b"x-amz-target")
"""Headers that name the operation."""
_TEXTS = frozenset({"Datapoints", "DataPoints", "system_metric_list"})
"""Fields that hold JSON as text."""
_IDS = frozenset(
    {
        *("JobId", "PodId", "PodUid", "QuotaId", "NodeName", "WorkloadId", "WorkspaceId", "MetricName", "jobId", "pod"),
        *("id", "uid", "job_id", "task_id", "name", "metadata", "version_id", "metric"),
        *("TrainingJobName", "ClusterName", "InstanceGroupName", "InstanceId", "TrainingPlanName", "Id", "Key"),
    }
)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class _PlannedFault(NamedTuple):
    """A fault of one API from `start` on, in seconds of the hour."""

    start: float
    api: str
    kind: str


def timetable(seconds: float) -> list[_PlannedFault]:
    """Return all faults of so many seconds, in order. Each API begins with another kind, so that they differ at any
    moment."""
    found = []
    for place, api in enumerate(_ALL_APIS):
        first = _FIRST_FAULT + place * _FAULT_EVERY / len(_ALL_APIS)
        for number in range(max(0, int((seconds - first) // _FAULT_EVERY) + 1)):
            kind = _KINDS[(number + place * len(_KINDS) // len(_ALL_APIS)) % len(_KINDS)]
            found.append(_PlannedFault(first + number * _FAULT_EVERY, api, kind))
    return sorted(found, key=lambda one: one.start)


class Gate:
    """A layer before an API of the simulator: delays calls, corrupts responses, and holds both back while it is shut.

    Each call has its own delay, by its request and by `name`. So no two responses arrive at the same moment, and the
    order of events depends only on stepped time. While all gates are shut, the exporter gets no response, so a page
    that is scraped then does not depend on its speed.
    """

    def __init__(self, app: ASGIApp, name: str, is_open: asyncio.Event) -> None:
        self._app = app
        self._name = name
        self._is_open = is_open
        self.corruption = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond (ASGI)."""
        given = await receive()
        seconds = self._seconds(scope, given.get("body", b""))
        await self._pass(seconds)
        given_once = iter([given])
        held: list[Message] = []

        async def repeat() -> Message:
            return next(given_once, None) or await receive()

        async def hold(message: Message) -> None:
            held.append(message)

        await self._app(scope, repeat, hold)
        if not self._is_open.is_set():
            await self._pass(seconds)
        if self.corruption and len(held) == 2 and held[0].get("status") == 200:
            held = _corrupted(self.corruption, held)
        for message in held:
            if message["type"] == "http.response.start":
                # Real time decides whether a connection is kept, and a call on a kept one may be sent again.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        while not self._is_open.is_set():
            await self._is_open.wait()
            await asyncio.sleep(seconds)

    def _seconds(self, scope: Scope, body: bytes) -> float:
        action = next((value for name, value in scope["headers"] if name in _ACTIONS), b"")
        asked = b"\n".join((self._name.encode(), scope["raw_path"], action, scope["query_string"], _sorted(body)))
        return _SHORTEST + (_LONGEST - _SHORTEST) * zlib.crc32(_VARYING.sub(b"", asked)) / 2**32


def _sorted(body: bytes) -> bytes:
    """Return a request's JSON without the token of a page, in an order that does not depend on the code under test."""
    try:
        fields = json.loads(body)
    except ValueError:
        return body
    return json.dumps({**fields, "NextToken": ""}, sort_keys=True).encode()


def _corrupted(kind: str, held: list[Message]) -> list[Message]:
    try:
        body = json.loads(held[1]["body"])
    except ValueError:
        return held
    content = json.dumps(_Corruption(kind).of(body)).encode()
    headers = [(name, value) for name, value in held[0]["headers"] if name.lower() != b"content-length"]
    headers.append((b"content-length", str(len(content)).encode()))
    return [{**held[0], "headers": headers}, {**held[1], "body": content}]


class _Corruption:
    """Changes values of a response, selected only by their places."""

    def __init__(self, kind: str) -> None:
        self._change: Callable[[dict[Any, Any]], dict[Any, Any]] = {
            "numbers as text": lambda fields: {name: _as_text(value) for name, value in fields.items()},
            "texts as numbers": lambda fields: {name: _as_number(value) for name, value in fields.items()},
            "nulls": lambda fields: {name: None if spoilt else fields[name] for name, spoilt in self._some(fields)},
            "absent fields": lambda fields: {name: fields[name] for name, spoilt in self._some(fields) if not spoilt},
            "rows without ids": self._without_id,
        }[kind]
        self._fields = 0
        self._objects = 0

    def of(self, value: Any, *, is_row: bool = False) -> Any:
        """Return the corrupted value. Only objects and plain values within lists (rows and their content) change."""
        if isinstance(value, list):
            if is_row and not any(isinstance(one, dict | list) for one in value):
                return list(self._change(dict(enumerate(value))).values())
            return [self.of(one, is_row=True) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {name: self._field(name, one, is_row=is_row) for name, one in value.items()}
        return self._change(inner) if is_row else inner

    def _field(self, name: str, value: Any, *, is_row: bool) -> Any:
        if name in _TEXTS and isinstance(value, str):
            return json.dumps(self.of(json.loads(value)))
        return self.of(value, is_row=is_row)

    def _some(self, fields: dict[Any, Any]) -> Iterator[tuple[Any, bool]]:
        """Yield names of fields, and whether to corrupt each: every 11th."""
        for name in fields:
            self._fields += 1
            yield name, self._fields % 11 == 0

    def _without_id(self, fields: dict[Any, Any]) -> dict[Any, Any]:
        self._objects += 1
        return {name: one for name, one in fields.items() if name not in _IDS} if self._objects % 3 == 0 else fields


def _as_text(value: Any) -> Any:
    return repr(value) if type(value) in (int, float) else value


def _as_number(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and _NUMBER.fullmatch(value) and value[:2] != "00" else value


_Gates = Mapping[tuple[str, str], Gate]
"""By provider and API."""


class _Middle(random.Random):
    """Jitter that does not depend on the number of earlier random numbers."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def _jump(loop: SteppedLoop, seconds: float) -> None:
    """Move both clocks to the next tick; replaces `SteppedLoop.jump`, whose rounding errors add up."""
    loop._elapsed = math.ceil((loop._elapsed + seconds) * _TICKS) / _TICKS
    loop._traveller.move_to(_START + loop._elapsed)


async def drive(folder: Path, seconds: float) -> None:
    """Poll for so many seconds of stepped time, and write the pages."""
    loop = asyncio.get_running_loop()
    simulator = Simulator(_SEED, clouds=tuple(_CLOUDS), population=24)
    is_open = asyncio.Event()
    is_open.set()
    gates = {
        (provider, api): Gate(simulator.app, f"{provider} {api}", is_open)
        for provider, apis in _APIS.items()
        for api in apis
    }
    async with _daemon(simulator, gates) as client, asyncio.TaskGroup() as tasks:
        origin = loop.time()
        faults = [tasks.create_task(_make(fault, simulator, gates, origin)) for fault in timetable(seconds)]
        for number in range(int(seconds // _EVERY)):
            at = number * _EVERY + _OFFSET
            await asyncio.sleep(origin + at - _SHUT_BEFORE - loop.time())
            is_open.clear()
            await asyncio.sleep(origin + at - loop.time())
            await loop.run_in_executor(None, sleep, _BUILD_SECONDS)
            await _scrape(client, folder / f"{int(at) // 60:02}m{int(at) % 60:02}s")
            is_open.set()
        for task in faults:
            task.cancel()


async def _make(fault: _PlannedFault, simulator: Simulator, gates: _Gates, origin: float) -> None:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(origin + fault.start - loop.time())
    match = {"api": fault.api}
    if fault.kind == "slow":
        simulator.faults.add(Fault(match, delay=_DELAY, lasts=_FAULT_LASTS))
    elif fault.kind not in _CORRUPTIONS:
        simulator.faults.add(Fault(match, kind=fault.kind, lasts=_FAULT_LASTS))
    else:
        affected = [gate for (_, api), gate in gates.items() if api == fault.api]
        for gate in affected:
            gate.corruption = fault.kind
        await asyncio.sleep(origin + fault.start + _FAULT_LASTS - loop.time())
        for gate in affected:
            gate.corruption = ""


async def _scrape(client: httpx.AsyncClient, stem: Path) -> None:
    for name, accept in _FORMATS.items():
        for encoding in ("identity", "gzip"):
            answer = await client.get("/metrics", headers={"accept": accept, "accept-encoding": encoding})
            answer.raise_for_status()
            if answer.headers.get("content-encoding", "identity") != encoding:
                raise RuntimeError(f"{encoding} was asked for: {answer.headers}")
            stem.with_suffix(f".{name}.{encoding}").write_bytes(answer.content)


@asynccontextmanager
async def _daemon(simulator: Simulator, gates: _Gates) -> AsyncIterator[httpx.AsyncClient]:
    """Run the exporter; give a client of its server."""
    async with AsyncExitStack() as stack:
        listeners = {place: Listener(gate) for place, gate in gates.items()}
        for listener in listeners.values():
            stack.push_async_callback(listener.aclose)
        with mock.patch("random.SystemRandom", return_value=_Middle(_SEED)):
            daemon = Daemon(
                _config(simulator, listeners), installed_platforms(), WebSettings(addresses=("127.0.0.1:0",))
            )
        stack.push_async_callback(daemon.stop)
        await daemon.start()
        url = f"http://{daemon.server.addresses[0]}"
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False, timeout=60))


def _config(simulator: Simulator, listeners: Mapping[tuple[str, str], Listener]) -> Config:
    config = yaml.safe_load(_CONFIG)
    simulated = dict(zip(_CLOUDS, yaml.safe_load(simulator.config_yaml(""))["providers"], strict=True))
    config["providers"] = [
        {
            **simulated[_cloud(each["name"])],
            "endpoints": {api: listeners[each["name"], api].url for api in _APIS[each["name"]]},
            "limits": _LIMITS,
            **each,
        }
        for each in config["providers"]
    ]
    return load(yaml.safe_dump(config, sort_keys=False))


def check_pages(folder: Path) -> Iterator[str]:
    """Check every page of a folder, and yield what is wrong with it."""
    for stem in sorted({path.name.partition(".")[0] for path in folder.glob("*m*s.*")}):
        for encoding in ("identity", "gzip"):
            pages = [(folder / f"{stem}.{name}.{encoding}").read_bytes().decode() for name in _FORMATS]
            try:
                page.check_both(*pages)
            except ValueError as error:
                yield f"{stem}, {encoding}: {error}"


def main() -> int:
    """Run the exporter and check its pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hour", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder to write pages to; it must not exist")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose exporter runs (default: this one)")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--unchecked", action="store_true", help="only write pages; our own in this process")
    asked = parser.parse_args()
    if asked.unchecked and asked.checkout == ROOT:
        _write_pages(asked.folder, asked.minutes)
        return 0
    code = run("benchmarks.hour", [str(asked.folder), f"--minutes={asked.minutes}", "--unchecked"], asked.checkout)
    if code or asked.unchecked:
        return code
    complaints = list(check_pages(asked.folder))
    print("\n".join(complaints) or "no page is invalid or has a series twice")
    return int(bool(complaints))


def _write_pages(folder: Path, minutes: float) -> None:
    folder.mkdir(parents=True)
    logging.basicConfig(filename=folder / "log", level=logging.INFO)
    began = perf_counter()
    numbers = itertools.count()
    with (
        mock.patch.object(SteppedLoop, "jump", _jump),
        # APScheduler orders jobs of the same moment by random ids: use the order of the config here.
        mock.patch("os.urandom", lambda size: next(numbers).to_bytes(6, "big").ljust(size, b"\0")[:size]),
    ):
        run_stepped(lambda: drive(folder, minutes * 60.0), start=_START)
    pages = len(list(folder.glob("*.text.*")))
    print(f"{pages} pages by {trainfleet_exporter.__file__} in {perf_counter() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
