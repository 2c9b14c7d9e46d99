"""The test setup of the kit: an exporter that polls a simulated cloud on loopback, and a scraper, in stepped time.

Between exporter and cloud, a gateway counts requests and changes responses. Each request of the transport has a mark.
The gateway needs no paths. A request without a mark did not use the transport.
"""

from __future__ import annotations

import asyncio
import contextvars
import io
import json
import logging
import random
import ssl
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import httpx
import yaml
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from trainfleet_conformance.clock import stepped
from trainfleet_conformance.page import Page, check_both
from trainfleet_conformance.planted import Planted, authorizations, hits
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.providers.registry import Platform
from trainfleet_exporter.transport import ApiClient, Call, Caller, SignedRequest
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
_MARK = "x-conformance-call"


class PretendCloud(Protocol):
    """A simulated cloud that follows the cloud's documentation. The kit serves it over loopback.

    Its data are constant, so two pages can be compared. Its lists have several pages if the cloud has pages. It rejects
    requests without valid credentials.
    """

    @property
    def app(self) -> ASGIApp:
        """The ASGI application of the cloud."""

    def live_jobs(self) -> Mapping[str, str]:
        """Return the ids of the live jobs, each with its state in the cloud's word."""

    def forget(self, job_id: str) -> None:
        """Delete a live job: lists leave it out, and a call with its id returns 404."""

    def end(self, job_id: str, word: str) -> None:
        """End a live job now (`time.time()`) in this state, in which it holds nothing. Report it like other ended jobs,
        and change no other job."""


@dataclass(slots=True)
class Arrival:
    """A request at the simulated cloud. `api` is empty if the transport did not send it, `collector` if no poll did."""

    api: str
    operation: str
    collector: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    payload: Any = field(default=None, repr=False)
    """The decoded JSON of the true response; None if it is not JSON."""
    at: float = field(default_factory=time.time)


Spoil = Callable[[Arrival, Response], Response | None]
"""Makes another response from the true one; None keeps it."""


@contextmanager
def marking() -> Iterator[None]:
    """Mark every request that the transport sends inside this block with its API, operation and collector."""
    attempt = ApiClient._attempt

    def marked(client: Any, call: Call, into: Any, signed: SignedRequest, *rest: Any) -> Any:
        caller: Caller = rest[-1]
        mark = json.dumps((client._dialect.api, call.operation, caller.collector))
        return attempt(client, call, into, replace(signed, headers={**signed.headers, _MARK: mark}), *rest)

    with mock.patch.object(ApiClient, "_attempt", marked):
        yield


class Gateway(BaseHTTPMiddleware):
    """Serves the simulated cloud (ASGI). `spoil` changes responses; `delay` is the seconds before each of them."""

    def __init__(self, cloud: ASGIApp) -> None:
        super().__init__(cloud)
        self.spoil: Spoil | None = None
        self.delay = 0.0
        self.arrivals: list[Arrival] = []
        self.spoilt = 0
        """The number of changed responses."""

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        api, operation, collector = json.loads(request.headers.get(_MARK, '["", "", ""]'))
        body = await request.body()
        arrival = Arrival(api, operation, collector, str(request.url), dict(request.headers), body)
        self.arrivals.append(arrival)
        await asyncio.sleep(self.delay)
        streamed: Any = await call_next(request)
        content = b"".join([chunk async for chunk in streamed.body_iterator])
        answer = Response(content, streamed.status_code, dict(streamed.headers))
        with suppress(ValueError):
            arrival.payload = json.loads(content)
        spoilt = None if self.spoil is None else self.spoil(arrival, answer)
        self.spoilt += spoilt is not None
        return spoilt or answer


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
        self.daemon = Daemon(load({}), {platform.name: platform}, _WEB, load=lambda: load(RELOADED))
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
    limits = {**_LIMITS, **provider.get("limits", {}), **limits}
    mine = {"name": PROVIDER, "platform": platform.name, **provider, "limits": limits}
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
