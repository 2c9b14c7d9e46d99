"""Where cells are run: simulated clouds in which nothing moves, the daemon beside them, and a scraper.

All of it in one stepped loop, over loopback HTTP. Each API has a door of its own, so that one can be shut.
"""

from __future__ import annotations

import asyncio
import gc
import io
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from tests.faults.columns import SHUT, Column
from tests.faults.row import Row
from trainfleet_conformance.page import Page, check_both
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import load_config
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.transport import BodyLimits
from trainfleet_exporter.transport.body import read_wire, unpack
from trainfleet_simulator import Listener, Simulator

INTERVAL = 60.0
QUIET = 57.0
"""Seconds after the start of a poll at which it has ended, whatever held it up (poll_timeout is 50 s)."""
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PAGES = ("/", "/config", "/-/healthy", "/-/ready", "/nowhere")
_AUTHORITIES = ssl.create_default_context()
"""Loaded once, for that takes longer than a poll. All is plain http here."""
_IN_USE = 4
"""How many of those issued earlier may still be in use."""
APIS = (
    *("dlc", "paistudio", "aiworkspace", "cloudmonitor", "sts", "metadata"),
    *("modelarts", "iam", "aom", "sagemaker", "cloudwatch"),
)


_SMALL_PAGES = {
    "alibaba_pai.api.PAGE_SIZE": 2,
    "alibaba_pai.usage.POINTS": 20,
    "aws_sagemaker.api.PAGE_SIZE": 2,
    "huawei_modelarts.jobs.JOBS_PAGE": 2,
    "huawei_modelarts.v1.V1_PAGE": 2,
    "huawei_modelarts.pools.POOL_PAGE": 2,
    "huawei_modelarts.nodes.NODES_PAGE": 2,
    "huawei_modelarts.jobs.WORKSPACES_PAGE": 1,
}
"""How many rows are asked for at a time, where lists are to have several pages."""
_SELDOM = {"polling.schedule._EXPIRY_INTERVAL": 5.0, "fleet.lists.MOST_PAGES": 200}
"""What the daemon does every second, and has nothing to do for most of them: a fifth of the time that cells take. And
how many pages of a list that does not end are read."""
_BYTES = 2 * 2**20
"""The limit of each answer: less than what is read otherwise, and far more than any true answer here. Most of the time
that the two faults of too many bytes would take goes into the bytes before the limit."""
_KEPT_CONNECTIONS = 32
"""Both ends of connections that the two providers may keep open for another call. What is left behind cell by cell
adds up to more: all are compared with the row's beginning."""
_MID_CYCLE = 4
"""Tasks of collectors that roll over jobs all the time, likewise."""

_LATER_PARTS = 2
"""One for each provider: what is shown over the histories of all jobs begins with the first growth of a phase."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a fault could leave behind."""

    tasks: int
    descriptors: int
    parts: int

    def exceeded_by(self, now: Footprint) -> list[str]:
        """What there is more of now."""
        most = {
            "tasks": (self.tasks + _MID_CYCLE, now.tasks),
            "descriptors": (self.descriptors + _KEPT_CONNECTIONS, now.descriptors),
            "parts": (self.parts + _LATER_PARTS, now.parts),
        }
        return [
            f"{after} {name} where {before} are the most" for name, (before, after) in most.items() if after > before
        ]


class Site:
    """One daemon and its clouds. Use inside stepped time."""

    def __init__(self, simulator: Simulator, doors: Mapping[str, Listener], daemon: Daemon, log: io.StringIO) -> None:
        self.simulator = simulator
        self.doors = doors
        self.daemon = daemon
        self.log = log
        self.outputs: list[str] = []
        """Everything that anybody could read: pages, by now."""
        self._origin = asyncio.get_running_loop().time()
        self._polls = 0
        self._mark = 0
        self._searched: Counter[str] = Counter()
        """How many of each kind of issued secrets have been looked for."""
        self._patches = ExitStack()
        self._client = httpx.AsyncClient(
            base_url=f"http://{daemon.server.addresses[0]}", trust_env=False, verify=_AUTHORITIES
        )

    @staticmethod
    def now() -> float:
        """Unix seconds."""
        return time.time()

    async def applied(self, row: Row, column: Column) -> bool:
        """Whether any answer that the fault is meant for was spoiled since the last `mark`, as the clouds know it."""
        meant = {**row.match, **(row.used_by if column.needs == "used_by" else {})}
        answers = (await self._truth(since=self._mark, operation=meant["operation"]))["answers"]
        return any(answer.get("fault") for answer in answers if answer["api"] == meant["api"])

    async def mark(self) -> None:
        """Remember which answers have been given."""
        self._mark = int((await self._truth(since=10**12))["seq"])

    def issued_secrets(self) -> dict[str, str]:
        """What the clouds have issued since this was asked for last, and the few before that may still be in use."""
        sts, agency, aws = self.simulator.sts, self.simulator.agency, self.simulator.aws_sts
        issued = {
            "STS secret": [key.access_key_secret for key in sts.issued],
            "STS token": [key.security_token for key in sts.issued],
            "STS session": sts.metadata_sessions.issued,
            "agency secret": [key.access_key_secret for key in agency.issued],
            "agency token": [key.security_token for key in agency.issued],
            "agency session": agency.metadata_sessions.issued,
            "IAM token": self.simulator.tokens.issued,
            "AWS secret": [key.access_key_secret for key in aws.issued],
            "AWS token": [key.security_token for key in aws.issued],
            "AWS session": aws.metadata_sessions.issued,
        }
        found: dict[str, str] = {}
        for name, values in issued.items():
            first = max(0, self._searched[name] - _IN_USE)
            found |= {f"{name} {number}": value for number, value in enumerate(values[first:], first)}
            self._searched[name] = len(values)
        return found

    def take_log(self) -> str:
        """The log since the last time that it was taken."""
        text = self.log.getvalue()
        self.log.seek(0)
        self.log.truncate()
        return text

    async def _truth(self, **query: object) -> Any:
        url = self.doors["truth"].url + "/truth"
        return (await self._client.get(url, params={name: str(value) for name, value in query.items()})).json()

    def make(self, row: Row, column: Column) -> None:
        """Let the fault happen from now on."""
        if column.name == SHUT:
            self.doors[row.api].shut()
            return
        if column.kind.startswith("many_"):  # the limit of values is reached first, where that of bytes is the true one
            self._patches.enter_context(mock.patch("trainfleet_exporter.transport.exchange.unpack", unpack))
        if column.small_pages:
            for constant, size in _SMALL_PAGES.items():
                self._patches.enter_context(mock.patch(f"trainfleet_exporter.providers.{constant}", size))
        for fault in column.faults(row.match, getattr(row, column.needs) if column.needs else {}):
            self.simulator.faults.add(fault)

    def unmake(self, row: Row, column: Column) -> None:
        """Let everything work again."""
        if column.name == SHUT:
            self.doors[row.api].open()
        self.simulator.faults.clear()
        self._patches.close()

    async def after_polls(self, count: int) -> None:
        """Wait until `count` more polls of every collector have begun, and are over."""
        self._polls += count
        end = self._origin + (self._polls - 1) * INTERVAL + QUIET
        await asyncio.sleep(end - asyncio.get_running_loop().time())

    async def scrape(self) -> Page:
        """The page as text; the same in OpenMetrics must be as well-formed."""
        answer = await self._client.get("/metrics")
        assert answer.status_code == 200
        self.outputs.append(answer.text)
        return Page(answer.text)

    async def read_everything(self) -> None:
        """Keep every page as it is now in `outputs`; those that must never fail must not."""
        answer = await self._client.get("/metrics", headers={"accept": OPENMETRICS, "accept-encoding": "gzip"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        assert check_both((await self._client.get("/metrics")).text, answer.text)
        self.outputs.append(answer.text)
        for path in PAGES:
            answer = await self._client.get(path)
            assert answer.status_code == {"/nowhere": 404}.get(path, 200), path
            self.outputs.append(answer.text)

    def footprint(self) -> Footprint:
        """Tasks, open files and parts shown, now."""
        parts = sum(runner.state.parts for runner in self.daemon.exporter.runners)
        tasks, files = _tasks_and_files()
        return Footprint(tasks, files, parts)

    async def aclose(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def open_site(
    folder: Path, row: Row, simulator: Simulator, *, meets: Column | None = None
) -> AsyncIterator[Site]:
    """Serve the clouds and start a daemon with the row's config, which may meet a fault at its start.

    When all of it has ended, not one task or open file may be left, whatever went on in between.
    """
    log = io.StringIO()
    set_up_logs("debug", "logfmt", log)
    before = _tasks_and_files()
    async with AsyncExitStack() as stack:
        for constant, seconds in _SELDOM.items():
            stack.enter_context(mock.patch(f"trainfleet_exporter.{constant}", seconds))
        stack.enter_context(mock.patch("trainfleet_exporter.transport.exchange.read_wire", _read_less))
        stack.enter_context(mock.patch("trainfleet_exporter.transport.exchange.unpack", _unpack_less))
        doors = await stack.enter_async_context(simulator.serve_listeners([*APIS, "truth"]))
        path = folder / "config.yaml"
        urls = {name: door.url for name, door in doors.items()}
        path.write_text(row.config(urls), encoding="utf-8")
        platforms = installed_platforms()
        configs = {name: platform.config for name, platform in platforms.items()}
        environ = {name: value.format(**urls) for name, value in row.environ.items()}
        stack.enter_context(mock.patch.dict("os.environ", environ))  # which botocore reads
        loaded = load_config(path, environ=environ, platforms=configs)
        with (
            mock.patch("random.SystemRandom", return_value=random.Random(1)),  # the same jitter always
            mock.patch("trainfleet_exporter.transport.aiohttp_transport._tls_context", return_value=_AUTHORITIES),
        ):
            daemon = Daemon(loaded, platforms, WebSettings(addresses=("127.0.0.1:0",)))
        site = Site(simulator, doors, daemon, log)
        if meets is not None:
            site.make(row, meets)
        try:
            await daemon.start()
            yield site
        finally:
            await site.aclose()
            await daemon.stop()
    if any(left > most for left, most in zip(_tasks_and_files(), before, strict=True)):
        gc.collect()  # unreferenced objects do not count
    for left, most in zip(_tasks_and_files(), before, strict=True):
        assert left <= most, "tasks or open files are left"


async def _read_less(stream: AsyncIterable[bytes], limits: BodyLimits, until_decoded: AsyncExitStack) -> bytes:
    return await read_wire(stream, replace(limits, wire=_BYTES), until_decoded)


async def _unpack_less(wire: bytes, encoding: str, limits: BodyLimits, until_decoded: AsyncExitStack) -> bytes:
    return await unpack(wire, encoding, replace(limits, decoded=_BYTES), until_decoded)


def _tasks_and_files() -> tuple[int, int]:
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))
