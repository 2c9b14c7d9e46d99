"""The test setup of the kit: an exporter that polls a simulated cloud on loopback, and a scraper, in stepped time."""

from __future__ import annotations

import asyncio
import contextvars
import io
import logging
import random
import ssl
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import yaml

from trainfleet_conformance.clock import stepped
from trainfleet_conformance.gateway import Gateway, PretendCloud, Spoil, marking
from trainfleet_conformance.page import Page, check_both
from trainfleet_conformance.planted import Planted, authorizations, hits
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.providers.registry import Platform
from trainfleet_simulator.listener import Listener

PROVIDER = "kit"
INTERVAL = 60.0
KEPT_POLLS = 1
_GLOBAL = {"poll_interval": f"{INTERVAL:.0f}s", "poll_timeout": "50s", "keep_last_good_polls": KEPT_POLLS}
_LIMITS = {"requests_per_second": 200, "concurrency": 8}
RELOADED = {"requests_per_second": 3, "concurrency": 2}
"""The limits of calls after a reload."""
_WEB = WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True)
LOG = "the log"
_QUIET = 57.0
"""Seconds after its start at which a poll has ended in any case."""
_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Without authorities, which take longer to load than a poll. All URLs are plain http here."""
_OPENMETRICS = {"accept": "application/openmetrics-text;version=1.0.0", "accept-encoding": "gzip"}
_PROOFS = 40
"""The number of requests whose tokens and signatures the kit searches for; all would take too long."""


class Stage:
    """One exporter of one provider, its simulated cloud, and a scraper. Time passes only in the methods that wait."""

    def __init__(self, runner: asyncio.Runner, cloud: PretendCloud, logs: dict[str, io.StringIO]) -> None:
        self.run, self.loop = runner.run, runner.get_loop()
        self.cloud = cloud
        self.gateway = Gateway(cloud.app)
        self.logs = logs
        self.outputs: list[str] = []
        """Every page that the scraper read."""
        self._polls = 0
        self._client = httpx.AsyncClient(trust_env=False, verify=_TLS)

    async def start(self, folder: Path, platform: Platform, make: Callable[[str], Mapping[str, Any]]) -> None:
        """Start cloud and exporter. `make` makes the provider's config for a URL of the cloud. Reloads change it."""
        self.listener = Listener(self.gateway)
        load = partial(_load, folder / "config.yaml", platform, make(self.listener.url))
        self.daemon = Daemon(load(_LIMITS), {platform.name: platform}, _WEB, load=lambda: load(RELOADED))
        await self.daemon.start()

    async def stop(self) -> int:
        """Stop exporter and cloud. Return the number of connections that the exporter left open."""
        await self._client.aclose()
        await self.daemon.stop()
        left = self.listener.connections
        await self.listener.aclose()
        return left

    def polls(self, count: int, spoil: Spoil | None = None) -> None:
        """Wait until `count` more polls of every collector have begun and ended. `spoil` changes responses to them."""
        self.gateway.spoil = spoil
        self._polls += count
        self._wait_until((self._polls - 1) * INTERVAL + _QUIET)

    def begin_poll(self, spoil: Spoil | None = None) -> None:
        """Wait until the next poll has begun; a poll that hangs has not ended then."""
        self.gateway.spoil = spoil
        self._wait_until(self._polls * INTERVAL + 2)

    def page(self, polls: int, spoil: Spoil | None = None) -> Page:
        """Wait for so many polls as `polls` does, and scrape."""
        self.polls(polls, spoil)
        return Page(self.read("/metrics"))

    def leaks(self, planted: Planted, **more: str) -> list[str]:
        """Return the outputs that have a secret, or a signature or token made with it."""
        proofs = authorizations(arrival.headers for arrival in self.gateway.arrivals[-_PROOFS:])
        logs = {name: stream.getvalue() for name, stream in self.logs.items()}
        return hits({"a page": "\n".join(dict.fromkeys(self.outputs)), **logs, **more}, planted.secrets | proofs)

    def read_everything(self) -> Page:
        """Read every page. Raise ValueError if one is invalid, or if the two formats of the metrics differ."""
        text = self.read("/metrics")
        check_both(text, self.read("/metrics", headers=_OPENMETRICS))
        for path in ("/", "/config", "/-/ready"):
            self.read(path)
        return Page(text)

    def read(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> str:
        """Return what the exporter answers. Raise ValueError if it is an error."""
        url = f"http://{self.daemon.server.addresses[0]}{path}"
        answer = self.run(self._client.request(method, url, headers=headers))
        if answer.status_code != 200:
            raise ValueError(f"{path} answered {answer.status_code}: {answer.text}")
        self.outputs.append(answer.text)
        return answer.text

    def _wait_until(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds - self.loop.time()))


@contextmanager
def staged(
    platform: Platform, cloud: Callable[[], PretendCloud], config: Callable[[str], Mapping[str, Any]]
) -> Iterator[Stage]:
    """Run an exporter that polls a cloud, which is made in stepped time. `config` is the provider's for its URL."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _logs(platform.build.__module__.partition(".")[0]) as logs,
        _quickened(),
        marking(),
        stepped() as runner,
    ):
        stage = Stage(runner, cloud(), logs)
        runner.run(stage.start(Path(folder), platform, config))
        try:
            yield stage
        finally:
            runner.run(stage.stop())


def _load(path: Path, platform: Platform, provider: Mapping[str, Any], limits: Mapping[str, int]) -> Config:
    """Write the config file of one provider, and load it as the exporter does."""
    mine = {"name": PROVIDER, "platform": platform.name, **provider, "limits": {**provider.get("limits", {}), **limits}}
    text = yaml.safe_dump({"global": _GLOBAL, "providers": [mine]}, allow_unicode=True, width=10_000)
    path.write_text(text.replace("$", "$$"), encoding="utf-8")
    return load_config(path, environ={}, platforms={platform.name: platform.config})


@contextmanager
def _logs(package: str) -> Iterator[dict[str, io.StringIO]]:
    """Capture the logs of this process: the exporter's log at debug level, and a package's messages before
    redaction."""
    root = logging.getLogger()
    handlers, level, hook, warn = root.handlers[:], root.level, sys.excepthook, warnings.showwarning
    written, said = io.StringIO(), io.StringIO()
    set_up_logs("debug", "logfmt", written)
    # If the test runner turns a warning into an exception, the exception is more useful than a log line.
    sys.excepthook, warnings.showwarning = hook, warn
    unredacted = logging.StreamHandler(said)
    unredacted.setFormatter(logging.Formatter("%(message)s %(fields)s", defaults={"fields": ""}))
    unredacted.addFilter(logging.Filter(package))
    root.addHandler(unredacted)
    try:
        yield {LOG: written, "what the provider logs": said}
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


async def _in_executor(function: Callable[..., Any], *arguments: Any, **_: object) -> Any:
    """Run endpoints that are not coroutines in threads that the stepped clock counts, in place of anyio's."""
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, partial(context.run, function, *arguments))


@contextmanager
def _quickened() -> Iterator[None]:
    """Make an exporter fast and repeatable in stepped time."""
    with (
        # A task that runs every second would take half of the test's time, mostly without work.
        mock.patch("trainfleet_exporter.polling.schedule._EXPIRY_INTERVAL", 5.0),
        # Use the same jitter in every run.
        mock.patch("random.SystemRandom", return_value=random.Random(1)),
        mock.patch("trainfleet_exporter.transport.aiohttp_transport._tls_context", return_value=_TLS),
        mock.patch("anyio.to_thread.run_sync", _in_executor),
    ):
        yield
