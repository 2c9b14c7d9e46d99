"""The simulated clouds, ready to be served: their worlds, the application, a socket, and a config that reaches them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence

import uvicorn
from starlette.types import ASGIApp

from trainfleet_exporter.simulator.app import CloudApp
from trainfleet_exporter.simulator.exchange import Cloud
from trainfleet_exporter.simulator.faults import Faults
from trainfleet_exporter.simulator.modelarts import catalog as modelarts
from trainfleet_exporter.simulator.modelarts.agency import Agency
from trainfleet_exporter.simulator.modelarts.aom_samples import Aom
from trainfleet_exporter.simulator.modelarts.auth import Gatekeeper
from trainfleet_exporter.simulator.modelarts.gate import ModelArts
from trainfleet_exporter.simulator.modelarts.legacy import SETTING as V1
from trainfleet_exporter.simulator.modelarts.past import SETTING as V2
from trainfleet_exporter.simulator.modelarts.tokens import LIFETIME, Tokens
from trainfleet_exporter.simulator.pai.gate import Pai
from trainfleet_exporter.simulator.pai.keys import Key, Keys
from trainfleet_exporter.simulator.pai.monitor import MonitorSettings
from trainfleet_exporter.simulator.pai.setting import SETTING as PAI
from trainfleet_exporter.simulator.pai.sts import Sts
from trainfleet_exporter.simulator.world.fleet import World

ACCESS_KEY_ID = "LTAISIMULATOR"
ACCESS_KEY_SECRET = "simulated-secret"  # noqa: S105 - opens nothing but this simulator

_HEAD = """\
# Reaches the simulated clouds at {base_url}. Everything is polled often, so that there is something to see.
global:
  poll_interval: 10s
  poll_timeout: 8s
  metrics:
    job_labels: [team, project, cost-center]
providers:
"""
_PAI = """\
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
      cloudmonitor: {base_url}
    collectors:
      job_counts: {{interval: 15s}}
      pods: {{interval: 20s}}
      usage: {{interval: 15s}}
      nodes: {{enabled: true, interval: 20s}}
    limits:
      requests_per_second: 200
      concurrency: 8
"""
_MODELARTS = """\
  - name: sim-modelarts-north4
    platform: huawei_modelarts
    region: {region}
    project_id: {project_id}
    credentials:
      access_key: {access_key}
      secret_key: {secret_key}
{token}    endpoints:
      modelarts: {base_url}
      iam: {base_url}
      aom: {base_url}
    collectors:
      job_counts: {{interval: 15s}}
      usage: {{interval: 15s}}
      nodes: {{enabled: true, interval: 20s}}
      jobs_v1: {{enabled: true, interval: 20s}}
    limits:
      requests_per_second: 200
      concurrency: 8
"""


class Simulator:
    """The simulated clouds, each with a seeded world.

    `clouds` are some of `pai` and `modelarts`. `clock` gives Unix seconds; `population` is about how many jobs live at
    a time on PAI (40 is the demo; 3,000 take 2 s to come about), of which ModelArts has six tenths; ordinary jobs live
    for minutes, or `patience` times as long. Without a security token the keys are permanent ones; both clouds know the
    same token. `token_lifetime` is that of IAM's, in seconds.
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
        patience: int = 1,
        clouds: Sequence[str] = ("pai",),
        access_key: str = modelarts.ACCESS_KEY,
        secret_key: str = modelarts.SECRET_KEY,
        token_lifetime: float = LIFETIME,
    ) -> None:
        self._keys = {
            "access_key_id": access_key_id,
            "access_key_secret": access_key_secret,
            "access_key": access_key,
            "secret_key": secret_key,
        }
        self._security_token = security_token
        self.worlds: dict[str, World] = {}
        """Each cloud's world by its name."""
        self.tokens = Tokens(token_lifetime)
        """What IAM has issued."""
        self.agency = Agency()
        """Huawei's STS and the metadata of a Huawei machine: what they issue, for how long, and to whom."""
        self.aom = Aom()
        """What Huawei's AOM serves, and how late."""
        keys = Keys(Key(access_key_id, access_key_secret, security_token))
        self.monitor = MonitorSettings()
        """How PAI's CloudMonitor behaves."""
        self.sts = Sts(keys)
        """The temporary keys of the PAI account, who gets them, and from which service."""
        served: list[Cloud] = []
        if "modelarts" in clouds:
            world = self.worlds["modelarts"] = World(
                V2, seed, clock(), population=max(population * 6 // 10, 1), patience=patience
            )
            legacy = self.worlds["modelarts-v1"] = World(V1, seed, clock())
            gatekeeper = Gatekeeper(access_key, secret_key, security_token, self.tokens, self.agency)
            served.append(ModelArts(world, legacy, gatekeeper, tokens=self.tokens, agency=self.agency, aom=self.aom))
        if "pai" in clouds:
            world = self.worlds["pai"] = World(PAI, seed, clock(), population=population, patience=patience)
            served.append(Pai(world, keys, self.monitor, self.sts))
        if not served or set(clouds) - {"pai", "modelarts"}:
            raise ValueError("clouds are some of: pai, modelarts")
        self._cloud = CloudApp(served, clock)

    @property
    def world(self) -> World:
        """The PAI account's world."""
        return self.worlds["pai"]

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
                date_header=False,  # the clouds' own clock tells it
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
        """A config file by which the exporter polls this simulator, one provider a cloud."""
        token = "" if self._security_token is None else f"      security_token: {self._security_token}\n"
        parts = [_HEAD, *(text for cloud, text in (("pai", _PAI), ("modelarts", _MODELARTS)) if cloud in self.worlds)]
        return "".join(parts).format(
            base_url=base_url, token=token, region=modelarts.REGION, project_id=modelarts.PROJECT_ID, **self._keys
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
