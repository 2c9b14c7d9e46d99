"""The test setup of the kit: a simulated cloud on loopback, an exporter that polls it, and a scraper, in stepped
time."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import random
import ssl
import sys
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import yaml

from trainfleet_conformance.gateway import Gateway, PretendCloud, Signatures, Spoil, keep
from trainfleet_conformance.page import Page, check_both
from trainfleet_conformance.planted import Planted, authorizations, hits
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.providers.registry import Platform
from trainfleet_simulator.listener import Listener

PROVIDER = "kit"
INTERVAL = 60.0
POLL_TIMEOUT = 50.0
KEPT_POLLS = 1
_QUIET = 57.0
"""Seconds after its start at which a poll has ended in any case."""
_OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0", "accept-encoding": "gzip"}
_PROOFS = 40
"""The number of requests whose tokens and signatures the kit searches for; all would take too long."""
_SELDOM = {"polling.schedule._EXPIRY_INTERVAL": 5.0}
"""Tasks that the daemon runs every second. They would take half of the test's time, mostly without work."""


def config_text(platform: Platform, provider: Mapping[str, Any], limits: Mapping[str, Any]) -> str:
    """The config file of one provider. Its limits override those of its tests."""
    settings = {
        "poll_interval": f"{INTERVAL:.0f}s",
        "poll_timeout": f"{POLL_TIMEOUT:.0f}s",
        "keep_last_good_polls": KEPT_POLLS,
    }
    generous = {"requests_per_second": 200, "concurrency": 8}
    mine = {
        "name": PROVIDER,
        "platform": platform.name,
        **provider,
        "limits": {**generous, **provider.get("limits", {}), **limits},
    }
    text = yaml.safe_dump({"global": settings, "providers": [mine]}, allow_unicode=True, width=10_000)
    return text.replace("$", "$$")


def load(folder: Path, platform: Platform, text: str) -> Config:
    """Load the config as the exporter does."""
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ={}, platforms={platform.name: platform.config})


class Stage:
    """One exporter and its cloud. Use inside stepped time."""

    def __init__(self, cloud: PretendCloud, gateway: Gateway, listener: Listener, daemon: Daemon, logs: Logs) -> None:
        self.cloud = cloud
        self.gateway = gateway
        self.listener = listener
        self.daemon = daemon
        self.logs = logs
        self.outputs: list[str] = []
        """Every page that the scraper read."""
        self._origin = asyncio.get_running_loop().time()
        self._polls = 0
        self._client = httpx.AsyncClient(
            base_url=f"http://{daemon.server.addresses[0]}", trust_env=False, verify=_authorities()
        )

    async def polls(self, count: int) -> None:
        """Wait until `count` more polls of every collector have begun and ended."""
        self._polls += count
        end = self._origin + (self._polls - 1) * INTERVAL + _QUIET
        await asyncio.sleep(end - asyncio.get_running_loop().time())

    async def page(self, polls: int) -> Page:
        """Wait for so many polls, and scrape."""
        await self.polls(polls)
        return await self.scrape()

    @contextmanager
    def spoilt(self, spoil: Spoil) -> Iterator[None]:
        """Change responses inside this block."""
        self.gateway.spoil = spoil
        try:
            yield
        finally:
            self.gateway.spoil = keep

    async def during_a_poll(self) -> None:
        """Wait until the next poll has begun; a poll that hangs has not ended then."""
        begun = self._origin + self._polls * INTERVAL + 2
        await asyncio.sleep(begun - asyncio.get_running_loop().time())

    async def stop(self) -> float:
        """Stop the exporter. Return the seconds that it took."""
        began = time.time()
        await self.daemon.stop()
        return time.time() - began

    def leaks(self, planted: Planted, **more: str) -> list[str]:
        """Return the outputs that have a secret, or a signature or token made with it."""
        proofs = authorizations(arrival.headers for arrival in self.gateway.arrivals[-_PROOFS:])
        outputs = {"a page": "\n".join(dict.fromkeys(self.outputs)), "the log": self.logs.written, **more}
        outputs["what the provider logs"] = self.logs.said
        return hits(outputs, planted.secrets | proofs)

    async def scrape(self) -> Page:
        """Read the page of metrics. Raise ValueError if Prometheus could not parse it."""
        answer = await self._client.get("/metrics")
        if answer.status_code != 200:
            raise ValueError(f"/metrics answered {answer.status_code}")
        self.outputs.append(answer.text)
        return Page(answer.text)

    async def read_everything(self) -> None:
        """Read every page, the metrics in both formats. Raise ValueError if one is invalid."""
        text = await self._client.get("/metrics")
        answer = await self._client.get("/metrics", headers=_OPENMETRICS)
        check_both(text.text, answer.text)
        self.outputs.append(answer.text)
        for path in ("/", "/config", "/-/ready"):
            answer = await self._client.get(path)
            if answer.status_code != 200:
                raise ValueError(f"{path} answered {answer.status_code}")
            self.outputs.append(answer.text)

    async def reload(self) -> str:
        """Reload the config. Return the response."""
        return (await self._client.post("/-/reload")).text

    async def aclose(self) -> None:
        await self._client.aclose()


class Logs(logging.Handler):
    """The log: the exporter's lines at debug level, and the messages of the provider's package before redaction."""

    def __init__(self, package: str) -> None:
        super().__init__(logging.DEBUG)
        self._package = package
        self._written = io.StringIO()
        self._said: list[str] = []

    @property
    def written(self) -> str:
        """Lines of the exporter's log."""
        return self._written.getvalue()

    @property
    def said(self) -> str:
        """Messages of the provider's package with all their arguments, at every level."""
        return "\n".join(self._said)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message of the provider."""
        if record.name.partition(".")[0] == self._package:
            self._said.append(f"{record.getMessage()} {getattr(record, 'fields', '')} {record.exc_info or ''}")

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Capture the logs of this process, and restore them at the end."""
        root = logging.getLogger()
        handlers, level, hook, warn = root.handlers[:], root.level, sys.excepthook, warnings.showwarning
        set_up_logs("debug", "logfmt", self._written)
        # If the test runner turns a warning into an exception, the exception is more useful than a log line.
        sys.excepthook, warnings.showwarning = hook, warn
        root.addHandler(self)
        try:
            yield
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)


@cache
def _authorities() -> ssl.SSLContext:
    """Load once, because it takes longer than a poll. All URLs are plain http here."""
    return ssl.create_default_context()


async def _in_executor(function: Callable[..., Any], *arguments: Any, **_: object) -> Any:
    """Run endpoints that are not coroutines in threads that the stepped clock counts, in place of anyio's."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, partial(context.run, function, *arguments))


@contextmanager
def _quickened() -> Iterator[None]:
    with ExitStack() as stack:
        for constant, seconds in _SELDOM.items():
            stack.enter_context(mock.patch(f"trainfleet_exporter.{constant}", seconds))
        # Use the same jitter in every run.
        stack.enter_context(mock.patch("random.SystemRandom", return_value=random.Random(1)))
        context = "trainfleet_exporter.transport.aiohttp_transport._tls_context"
        stack.enter_context(mock.patch(context, return_value=_authorities()))
        stack.enter_context(mock.patch("anyio.to_thread.run_sync", _in_executor))
        yield


@asynccontextmanager
async def serve_cloud(cloud: PretendCloud, signatures: Signatures) -> AsyncIterator[tuple[Gateway, Listener]]:
    """Serve a simulated cloud and record its requests."""
    gateway = Gateway(cloud.app, signatures)
    listener = Listener(gateway)
    try:
        with signatures.watching():
            yield gateway, listener
    finally:
        await listener.aclose()


@asynccontextmanager
async def open_stage(
    folder: Path,
    platform: Platform,
    cloud: PretendCloud,
    provider: Any,
    *,
    limits: Mapping[str, Any] | None = None,
    reloaded: Mapping[str, Any] | None = None,
    delay: float = 0.0,
) -> AsyncIterator[Stage]:
    """Run an exporter that polls `cloud`. `provider` makes the provider's config from a base URL; `limits` are its
    limits, and `reloaded` those after a reload."""
    package = platform.build.__module__.partition(".")[0]
    logs, signatures = Logs(package), Signatures()
    with logs.taken(), _quickened():
        async with serve_cloud(cloud, signatures) as (gateway, listener):
            gateway.delay = delay
            config = load(folder, platform, config_text(platform, provider(listener.url), limits or {}))
            again = config_text(platform, provider(listener.url), limits or {} if reloaded is None else reloaded)
            daemon = Daemon(
                config,
                {platform.name: platform},
                WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True),
                load=lambda: load(folder, platform, again),
            )
            stage = Stage(cloud, gateway, listener, daemon, logs)
            try:
                await daemon.start()
                yield stage
            finally:
                await stage.aclose()
                await daemon.stop()
