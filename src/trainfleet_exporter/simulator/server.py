"""The simulated clouds, ready to be served: one world, its application, a socket, and a config that reaches them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Generator

import uvicorn
from starlette.types import ASGIApp

from trainfleet_exporter.simulator.app import CloudApp
from trainfleet_exporter.simulator.auth import Verifier
from trainfleet_exporter.simulator.faults import Faults
from trainfleet_exporter.simulator.world import World

ACCESS_KEY_ID = "LTAISIMULATOR"
ACCESS_KEY_SECRET = "simulated-secret"  # noqa: S105 - opens nothing but this simulator

_CONFIG = """\
# Reaches the simulated clouds at {base_url}. Everything is polled often, so that there is something to see.
global:
  poll_interval: 10s
  poll_timeout: 8s
  metrics:
    job_labels: [team, project, cost-center]
providers:
  - name: sim-pai-hangzhou
    platform: alibaba_pai
    region: cn-hangzhou
    credentials:
      access_key_id: {access_key_id}
      access_key_secret: {access_key_secret}
{token}    endpoints:
      dlc: {base_url}
      paistudio: {base_url}
      aiworkspace: {base_url}
    collectors:
      job_counts: {{interval: 15s}}
      pods: {{interval: 20s}}
      usage: {{interval: 15s, source: job_metrics}}
    limits:
      requests_per_second: 200
      concurrency: 8
"""


class Simulator:
    """The clouds of one seeded world.

    `clock` gives Unix seconds; `population` is about how many jobs live at a time (40 is the demo; 3,000 take 2 s to
    come about). Without a security token the keys are permanent ones.
    """

    def __init__(
        self,
        seed: int = 1,
        access_key_id: str = ACCESS_KEY_ID,
        access_key_secret: str = ACCESS_KEY_SECRET,
        *,
        security_token: str | None = None,
        clock: Callable[[], float] = time.time,
        population: int = 40,
    ) -> None:
        self._access_key_id = access_key_id
        self._access_key_secret = access_key_secret
        self._security_token = security_token
        self.world = World(seed, clock(), population=population)
        self._cloud = CloudApp(self.world, Verifier(access_key_id, access_key_secret, security_token), clock)

    @property
    def app(self) -> ASGIApp:
        """The ASGI application."""
        return self._cloud.asgi

    @property
    def faults(self) -> Faults:
        """What is made to fail."""
        return self._cloud.faults

    @contextlib.asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve within the running loop; yields the base URL. Port 0 takes any free one. Raises OSError."""
        sock = _listen(host, port)
        server = _QuietServer(
            uvicorn.Config(
                self.app,
                http="httptools",
                ws="none",
                loop="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            # The socket listens already, so that a client that comes before uvicorn only waits a little.
            yield f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving
            sock.close()

    def config_yaml(self, base_url: str) -> str:
        """A config file by which the exporter polls this simulator."""
        token = "" if self._security_token is None else f"      security_token: {self._security_token}\n"
        return _CONFIG.format(
            base_url=base_url,
            access_key_id=self._access_key_id,
            access_key_secret=self._access_key_secret,
            token=token,
        )


class _QuietServer(uvicorn.Server):
    """uvicorn within somebody else's loop: signals are not its business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP; else kept connections lag by 40 ms.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(1024)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
