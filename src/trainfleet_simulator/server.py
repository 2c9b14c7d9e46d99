"""The simulated clouds with their worlds, the application, a socket, and a config for the exporter."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from starlette.types import ASGIApp

from trainfleet_simulator.app import CloudApp
from trainfleet_simulator.exchange import ApiRequest, Cloud
from trainfleet_simulator.faults import Faults
from trainfleet_simulator.identity import Key
from trainfleet_simulator.listener import Listener
from trainfleet_simulator.modelarts import catalog as modelarts
from trainfleet_simulator.modelarts.agency import Agency
from trainfleet_simulator.modelarts.aom import Aom
from trainfleet_simulator.modelarts.catalog import SETTING as V2
from trainfleet_simulator.modelarts.gate import ModelArts
from trainfleet_simulator.modelarts.v1 import SETTING as V1
from trainfleet_simulator.pai.catalog import SETTING as PAI
from trainfleet_simulator.pai.gate import Pai
from trainfleet_simulator.pai.sts import Sts
from trainfleet_simulator.sagemaker import catalog as aws
from trainfleet_simulator.sagemaker.catalog import SETTING as SAGEMAKER
from trainfleet_simulator.sagemaker.gate import Aws
from trainfleet_simulator.sagemaker.identity import AwsSts
from trainfleet_simulator.world.fleet import Setting, World

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
_LIMITS = """\
    limits:
      requests_per_second: 200
      concurrency: 8
"""
_USUAL, _OPTIONAL = {"job_counts": "interval: 15s", "usage": "interval: 15s"}, "enabled: true, interval: 20s"
_PROVIDERS: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str], Mapping[str, str]]] = {
    "pai": (
        ("name: sim-pai-hangzhou", "platform: alibaba_pai", "region: cn-hangzhou"),
        ("access_key_id", "access_key_secret"),
        ("dlc", "paistudio", "aiworkspace", "cloudmonitor"),
        {"job_counts": "interval: 15s", "pods": "interval: 20s", "usage": "interval: 15s"}
        | dict.fromkeys(("pool_users", "nodes"), _OPTIONAL),
    ),
    "modelarts": (
        (
            *("name: sim-modelarts-north4", "platform: huawei_modelarts", f"region: {modelarts.REGION}"),
            f"project_id: {modelarts.PROJECT_ID}",
        ),
        ("access_key", "secret_key"),
        ("modelarts", "iam", "aom"),
        _USUAL | dict.fromkeys(("pool_users", "nodes", "maintenance", "jobs_v1"), _OPTIONAL),
    ),
    "sagemaker": (
        ("name: sim-sagemaker-us-east-1", "platform: aws_sagemaker", f"region: {aws.REGION}"),
        ("access_key_id", "secret_access_key"),
        ("sagemaker", "cloudwatch", "sts"),
        _USUAL | {"nodes": _OPTIONAL},
    ),
}
"""The provider of each cloud in a config: its head, and the names of its credentials, endpoints and collectors."""
CLOUDS = ("pai", "modelarts", "sagemaker")
"""The clouds that can be simulated."""


class Simulator:
    """The simulated clouds, each with a seeded world.

    `clouds` are some of CLOUDS. `clock` gives Unix seconds. `population` is the approximate number of live jobs on PAI
    (40 is the demo; 3,000 take 2 s to create). Each other cloud has six tenths of it. Ordinary jobs live for minutes,
    or `patience` times as long. In a `still` world, nothing happens after the start, and every value is constant: only
    the times of readings change.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        clock: Callable[[], float] = time.time,
        population: int = 40,
        patience: int = 1,
        clouds: Sequence[str] = ("pai",),
        still: bool = False,
    ) -> None:
        self.worlds: dict[str, World] = {}
        """Each cloud's world by name."""
        self.sts = Sts(Key(ACCESS_KEY_ID, ACCESS_KEY_SECRET))
        """The keys of the PAI account, and their issuers."""
        self.agency = Agency(Key(modelarts.ACCESS_KEY, modelarts.SECRET_KEY))
        """The keys of the Huawei account, its STS, and the metadata of a Huawei machine."""
        self.tokens = self.agency.tokens
        """The tokens of IAM."""
        self.aws_sts = AwsSts(Key(aws.ACCESS_KEY_ID, aws.SECRET_ACCESS_KEY))
        """The keys of the AWS account, its STS, and the metadata of machines and containers."""
        served: list[Cloud] = []

        def world(name: str, setting: Setting, **options: Any) -> World:
            self.worlds[name] = World(setting, seed, clock(), still=still, **options)
            return self.worlds[name]

        smaller = {"population": max(population * 6 // 10, 1), "patience": patience}
        if "sagemaker" in clouds:
            served.append(Aws(world("sagemaker", SAGEMAKER, **smaller), self.aws_sts))
        if "modelarts" in clouds:
            v2, v1 = world("modelarts", V2, **smaller), world("modelarts-v1", V1)
            self.aom = Aom(v2)
            served.append(ModelArts(v2, v1, self.agency, self.aom))
        if "pai" in clouds:
            served.append(Pai(world("pai", PAI, population=population, patience=patience), self.sts))
        if not served or set(clouds) - set(CLOUDS):
            raise ValueError(f"clouds are some of: {', '.join(CLOUDS)}")
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
        return self._cloud.faults

    def take_quoted(self) -> list[ApiRequest]:
        """Return the requests that errors have quoted since the last call, at most the latest 400."""
        found = list(self._cloud.injector.quoted)
        self._cloud.injector.quoted.clear()
        return found

    @contextlib.asynccontextmanager
    async def serve(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve within the running loop; yield the base URL. Port 0 takes any free one. Raises OSError."""
        async with contextlib.aclosing(Listener(self.app, host, port)) as listener:
            yield listener.url

    @contextlib.asynccontextmanager
    async def serve_listeners(self, names: Iterable[str]) -> AsyncIterator[Mapping[str, Listener]]:
        """Serve the same clouds at an address for each name; yield the listeners by name. Raises OSError."""
        async with contextlib.AsyncExitStack() as stack:
            yield {name: await stack.enter_async_context(contextlib.aclosing(Listener(self.app))) for name in names}

    def config_yaml(self, base_url: str) -> str:
        """Return a config file with which the exporter polls this simulator, one provider for each cloud."""
        issuers = {"pai": self.sts, "modelarts": self.agency, "sagemaker": self.aws_sts}
        text = _HEAD.format(base_url=base_url)
        for cloud in CLOUDS:
            if cloud not in self.worlds:
                continue
            head, names, endpoints, collectors = _PROVIDERS[cloud]
            key = issuers[cloud].permanent
            text += "  - " + "\n    ".join(head) + "\n"
            text += _section("credentials", dict(zip(names, (key.access_key_id, key.access_key_secret), strict=True)))
            text += _section("endpoints", dict.fromkeys(endpoints, base_url))
            text += _section("collectors", {name: f"{{{options}}}" for name, options in collectors.items()}) + _LIMITS
        return text


def _section(name: str, lines: Mapping[str, str]) -> str:
    return "".join((f"    {name}:\n", *(f"      {key}: {value}\n" for key, value in lines.items())))
