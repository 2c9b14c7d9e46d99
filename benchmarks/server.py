"""Our server in all benchmarks of scrapes: `python -m benchmarks.server SERIES [CONNECTIONS [WEB_CONFIG]]` serves a
fleet's page.

It serves like the daemon, with this limit of connections, and with a web config file if one is given. The stores and
the renderer of polls publish the parts. Only the objects are generated: jobs of eight pods over ten providers, with
other readings after each change.

Each line of its input is a command. It responds with a line of JSON when the command is done:

- `all` publishes every provider's parts with other values.
- `tenth` publishes those of the next of ten providers.
- `settle` waits until the page is built.

A response has the seconds of publishing (`wall`, without the creation of objects), the number of the change, and the
number of published providers. `trainfleet_jobs` of each published provider shows the number of the change.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from array import array
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

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
from trainfleet_exporter.page import PageStore, Renderer, RenderSettings
from trainfleet_exporter.polling.parts import PartStore
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.web.access import Access, AccessControl
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.listeners import MAX_CONNECTIONS, listen
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import WebServer

_PODS = 8
_PROVIDERS = 10
_BORN = 1_760_000_000.0
_MIB = float(1 << 20)
_COLLECTORS = {"jobs": "ListJobs", "usage": "DescribeMetricLast", "job_counts": "ListJobs"}
"""By collector: an operation that it calls, for the counters of its telemetry."""


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
"""Twelve readings of each job and pod, as from a bulk source."""


@dataclass(frozen=True, slots=True)
class Part:
    """A published part, with its collector and its key."""

    collector: str
    key: str
    objects: Sequence[object]


class Provider:
    """The jobs of one provider, which run forever."""

    def __init__(self, number: int, jobs: int) -> None:
        self.name = f"pai-{number}"
        self._salt = number * 15_485_863
        self._jobs = [_job(number, place) for place in range(jobs)]
        self._pod_subjects = [
            Subject((job.job_id, f"{job.job_id}-worker-{pod}")) for job in self._jobs for pod in range(_PODS)
        ]
        self._job_subjects = [Subject((job.job_id,)) for job in self._jobs]

    async def parts(self, change: int) -> AsyncIterator[Part]:
        """Yield all parts as a poll after this change reads them.

        The number of live jobs is the last part, and is the number of the change: a page that has it has the whole
        change. Yields to the event loop between parts, because their creation is not measured.
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
    """Providers with enough jobs for this number of series."""

    def __init__(self, series: int) -> None:
        jobs = max(1, round(series / _series_of_a_job()))
        count = min(_PROVIDERS, jobs)
        self.providers = [Provider(number, jobs // count + (number < jobs % count)) for number in range(count)]


def _series_of_a_job() -> int:
    async def parts() -> list[Part]:
        return [part async for part in Provider(0, 1).parts(0)]

    renderer = Renderer(RenderSettings())
    return sum(renderer.render("one", part.objects).series for part in asyncio.run(parts()))


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
        cpu_cores=96.0 * _PODS,
        memory_bytes=800.0 * 1024 * _MIB * _PODS,
        nodes=float(_PODS),
        accelerators=(Accelerators("gpu", "GU8T", 8.0 * _PODS),),
        tags=(("team", f"team-{place % 23}"), ("project", f"project-{place % 5}")),
    )


class Held:
    """The page store with a fleet in it."""

    def __init__(self, fleet: Fleet) -> None:
        self.telemetry = Telemetry()
        self.page_store = PageStore(standing=self.telemetry.standing)
        self._providers = fleet.providers
        self._next = 0
        self.change = 0
        self.published = 0
        """Providers that the latest change published."""
        renderer = Renderer(RenderSettings(job_labels=("team", "project")))
        self._stores = {
            (provider.name, collector): self._store(CollectorState(provider.name, collector, 60.0), renderer)
            for provider in fleet.providers
            for collector in _COLLECTORS
        }

    def _store(self, state: CollectorState, renderer: Renderer) -> PartStore:
        self.telemetry.watch(state)
        self.telemetry.attempt(
            state.provider, api="dlc", operation=_COLLECTORS[state.collector], outcome="ok", seconds=0.05
        )
        return PartStore(state, page_store=self.page_store, renderer=renderer, keep_polls=3, poll_timeout=60.0)

    async def publish_all(self) -> float:
        """Publish other values of everything; return the seconds."""
        return await self._publish(self._providers)

    async def publish_next(self) -> float:
        """Publish other values of the next provider; return the seconds."""
        provider = self._providers[self._next % len(self._providers)]
        self._next += 1
        return await self._publish([provider])

    async def _publish(self, providers: list[Provider]) -> float:
        self.change += 1
        self.published = len(providers)
        parts: list[tuple[str, Part]] = []
        for provider in providers:
            parts += [(provider.name, part) async for part in provider.parts(self.change)]
        began = perf_counter()
        for name, part in parts:
            await self._stores[name, part.collector].publish(part.key, part.objects)
        return perf_counter() - began


async def _main(fleet: Fleet, max_connections: int, web_config: Path | None) -> None:
    held = Held(fleet)
    await held.publish_all()
    held.page_store.build()
    keeping_ready = asyncio.create_task(held.page_store.keep_built())
    pages = Pages(page_store=held.page_store, telemetry=held.telemetry)
    app = make_app(pages)
    if web_config is not None:
        app = AccessControl(app, Access(web_config))
    server = WebServer(app, listen("127.0.0.1:0"), max_connections=max_connections)
    gc.collect()
    gc.freeze()  # as the daemon does
    await server.start()
    print(json.dumps({"url": f"http://{server.addresses[0]}"}), flush=True)
    loop = asyncio.get_running_loop()
    while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        seconds = 0.0
        match command:
            case "all":
                seconds = await held.publish_all()
            case "tenth":
                seconds = await held.publish_next()
            case "settle":
                held.page_store.build()
        print(json.dumps({"wall": seconds, "change": held.change, "published": held.published}), flush=True)
    keeping_ready.cancel()
    await server.stop()


if __name__ == "__main__":
    tune_memory()
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else MAX_CONNECTIONS
    asyncio.run(_main(Fleet(int(sys.argv[1])), connections, Path(sys.argv[3]) if len(sys.argv) > 3 else None))
