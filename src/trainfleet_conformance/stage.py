"""The test setup of the kit: an exporter that polls a simulated cloud on loopback, and a scraper, in stepped time."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import random
import ssl
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import yaml

from trainfleet_conformance.gateway import Gateway, PretendCloud, Spoil
from trainfleet_conformance.page import Page, check_both
from trainfleet_conformance.planted import Planted, authorizations, hits
from trainfleet_exporter.app.daemon import Daemon
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.providers.registry import Platform
from trainfleet_simulator.listener import Listener

PROVIDER = "kit"
INTERVAL = 60.0
KEPT_POLLS = 1
_GLOBAL = {"poll_interval": f"{INTERVAL:.0f}s", "poll_timeout": "50s", "keep_last_good_polls": KEPT_POLLS}
_GENEROUS = {"requests_per_second": 200, "concurrency": 8}
_QUIET = 57.0
"""Seconds after its start at which a poll has ended in any case."""
_OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0", "accept-encoding": "gzip"}
_PROOFS = 40
"""The number of requests whose tokens and signatures the kit searches for; all would take too long."""


def write_config(
    folder: Path, platform: Platform, provider: Mapping[str, Any], limits: Mapping[str, Any] | None = None
) -> Config:
    """Write the config file of one provider, and load it as the exporter does. `limits` override the provider's."""
    allowed = {**_GENEROUS, **provider.get("limits", {}), **(limits or {})}
    mine = {"name": PROVIDER, "platform": platform.name, **provider, "limits": allowed}
    text = yaml.safe_dump({"global": _GLOBAL, "providers": [mine]}, allow_unicode=True, width=10_000)
    path = folder / "config.yaml"
    path.write_text(text.replace("$", "$$"), encoding="utf-8")
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
        self.client = httpx.AsyncClient(
            base_url=f"http://{daemon.server.addresses[0]}", trust_env=False, verify=_authorities()
        )

    async def polls(self, count: int, spoil: Spoil | None = None) -> None:
        """Wait until `count` more polls of every collector have begun and ended. `spoil` changes responses to them."""
        self.gateway.spoil = spoil
        self._polls += count
        await self._until((self._polls - 1) * INTERVAL + _QUIET)

    async def during_a_poll(self, spoil: Spoil | None = None) -> None:
        """Wait until the next poll has begun; a poll that hangs has not ended then."""
        self.gateway.spoil = spoil
        await self._until(self._polls * INTERVAL + 2)

    async def page(self, polls: int, spoil: Spoil | None = None) -> Page:
        """Wait for so many polls as `polls` does, and scrape."""
        await self.polls(polls, spoil)
        return Page(await self._read("/metrics"))

    def leaks(self, planted: Planted, **more: str) -> list[str]:
        """Return the outputs that have a secret, or a signature or token made with it."""
        proofs = authorizations(arrival.headers for arrival in self.gateway.arrivals[-_PROOFS:])
        outputs = {"a page": "\n".join(dict.fromkeys(self.outputs)), "the log": self.logs.written, **more}
        outputs["what the provider logs"] = "\n".join(self.logs.said)
        return hits(outputs, planted.secrets | proofs)

    async def read_everything(self) -> Page:
        """Read every page. Raise ValueError if one is invalid, or if the two formats of the metrics differ."""
        text = await self._read("/metrics")
        check_both(text, await self._read("/metrics", _OPENMETRICS))
        for path in ("/", "/config", "/-/ready"):
            await self._read(path)
        return Page(text)

    async def _until(self, seconds: float) -> None:
        await asyncio.sleep(self._origin + seconds - asyncio.get_running_loop().time())

    async def _read(self, path: str, headers: Mapping[str, str] | None = None) -> str:
        answer = await self.client.get(path, headers=headers)
        if answer.status_code != 200:
            raise ValueError(f"{path} answered {answer.status_code}")
        self.outputs.append(answer.text)
        return answer.text


class Logs(logging.Handler):
    """The log: the exporter's lines at debug level, and the messages of the provider's package before redaction."""

    def __init__(self, package: str) -> None:
        super().__init__(logging.DEBUG)
        self._package = package
        self._written = io.StringIO()
        self.said: list[str] = []
        """Messages of the provider's package with all their arguments, at every level."""

    @property
    def written(self) -> str:
        """Lines of the exporter's log."""
        return self._written.getvalue()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message of the provider."""
        if record.name.partition(".")[0] == self._package:
            self.said.append(f"{record.getMessage()} {getattr(record, 'fields', '')} {record.exc_info or ''}")

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
def quickened() -> Iterator[None]:
    """Make an exporter fast and repeatable in stepped time."""
    patches: dict[str, dict[str, Any]] = {
        # A task that runs every second would take half of the test's time, mostly without work.
        "trainfleet_exporter.polling.schedule._EXPIRY_INTERVAL": {"new": 5.0},
        # Use the same jitter in every run.
        "random.SystemRandom": {"return_value": random.Random(1)},
        "trainfleet_exporter.transport.aiohttp_transport._tls_context": {"return_value": _authorities()},
        "anyio.to_thread.run_sync": {"new": _in_executor},
    }
    with ExitStack() as stack:
        for name, options in patches.items():
            stack.enter_context(mock.patch(name, **options))
        yield
