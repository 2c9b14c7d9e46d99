"""The tested system: one daemon, the clouds that it polls, and its config files, in the running loop."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import bcrypt

from tests.support.configs import loaded
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.web.access import Access
from trainfleet_simulator import Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.listener import Listener
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.sagemaker import catalog as aws

PAI, MODELARTS, SAGEMAKER = CLOUDS = ("pai", "modelarts", "sagemaker")
"""Providers, with the names of their simulated clouds."""
WORKSPACES = ("12345",)
"""The polled workspaces of PAI. Each needs ten calls for every poll of its jobs."""
RETENTION = 600
"""Seconds that finished jobs stay on the page."""
USER = "prometheus"
_POPULATION = 30
_PATIENCE = 6
"""Ordinary jobs live six times as long as in the demo (most of an hour), so that their number stays within the lists of
the clouds."""
_TOKEN_LIFETIME = 7200.0
_DENIED = ("network_*", "disk_*", "cpu_usage_cores", "memory_*_bytes", "memory_utilization_ratio", "power_watts")
"""Families of usage that are not polled, for jobs, pods, devices and pools. Each would need a call in every poll."""
_BROKEN = "providers: [{name: pai, platform: no_such_cloud}]\n"

_HEAD = """\
global:
  poll_interval: {minutes}s
  poll_timeout: 30s
  finished_job_retention: {retention}s
  metrics:
    job_labels: [{labels}]
    deny: [{denied}]
providers:
  - name: pai
    platform: alibaba_pai
    region: cn-hangzhou
    workspaces: [{workspaces}]
    credentials: {{access_key_id_file: {folder}/pai-id, access_key_secret_file: {folder}/pai-secret}}
    endpoints: {{dlc: {url}, paistudio: {url}, aiworkspace: {url}, cloudmonitor: {url}}}
    collectors:
      jobs: {{interval: {often}s}}
      job_counts: {{interval: {seldom}s}}
      pods: {{interval: {seldom}s}}
      usage: {{interval: {often}s, source: cloudmonitor}}
      pools: {{interval: {seldom}s}}
      pool_workloads: {{enabled: false}}
    limits: {{requests_per_second: 50, concurrency: 8, monthly_calls: {{cloudmonitor: 2000000}}}}
"""
_MODELARTS = """\
  - name: modelarts
    platform: huawei_modelarts
    region: {region}
    project_id: {project_id}
    credentials: {credentials}
    endpoints: {{modelarts: {url}, iam: {url}, aom: {url}}}
    collectors:
      jobs: {{interval: {often}s}}
      job_counts: {{interval: {seldom}s}}
      usage: {{interval: {often}s}}
      jobs_v1: {{enabled: true, interval: {seldom}s}}
      pools: {{interval: {seldom}s}}
      pool_workloads: {{interval: {seldom}s}}
      pool_usage: {{interval: {seldom}s}}
    limits: {{requests_per_second: 50, concurrency: 8}}
"""
_SAGEMAKER = """\
  - name: sagemaker
    platform: aws_sagemaker
    region: {aws_region}
    credentials: {{access_key_id: {aws_id}, secret_access_key: {aws_secret}}}
    endpoints: {{sagemaker: {url}, cloudwatch: {url}, sts: {url}}}
    collectors:
      jobs: {{interval: {often}s}}
      job_counts: {{interval: {seldom}s}}
      usage: {{interval: {often}s}}
      pools: {{interval: {seldom}s}}
      nodes: {{enabled: true, interval: {seldom}s}}
    limits: {{requests_per_second: 50, concurrency: 8}}
"""
_KEYS = "{{access_key_file: {folder}/modelarts-key, secret_key_file: {folder}/modelarts-secret}}"
_PASSWORD = "{{username: {user}, password_file: {folder}/password, domain_name: {domain}}}"


@dataclass(frozen=True, slots=True)
class Wish:
    """A change of the config. `pace` multiplies the intervals between polls."""

    labels: Sequence[str] = ("team",)
    pace: float = 1.0
    has_modelarts: bool = True
    by_password: bool = False
    """Whether calls to ModelArts use tokens of IAM, in place of signatures by keys in files."""


class Site:
    """The daemon and its surroundings. `often` is the interval of polls of jobs and usage, in seconds."""

    def __init__(self, folder: Path, simulator: Simulator, door: Listener, often: int) -> None:
        self.simulator = simulator
        self.door = door
        self.often = often
        self.password = ""
        self._folder = folder
        self._serial = 0
        self._hashing = 0
        self.rotate(Random(0))
        self.write("password", f"{catalog.PASSWORD}\n")
        self.renew_user(Random(0))
        self.wish(Wish())
        web = WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True, access=Access(folder / "web.yml"))
        self.daemon = Daemon(self._load(), installed_platforms(), web, load=self._load)

    @property
    def port(self) -> int:
        """Return the port of the daemon's pages."""
        return int(self.daemon.server.addresses[0].rpartition(":")[2])

    def write(self, name: str, text: str) -> None:
        """Replace a file. Its modification time is that of the stepped clock."""
        draft = self._folder / f"{name}.new"
        draft.write_text(text, encoding="utf-8")
        now = time.time()
        os.utime(draft, (now, now))
        draft.replace(self._folder / name)

    def wish(self, wish: Wish) -> None:
        """Rewrite the config file, without a reload."""
        parts = [_HEAD, _MODELARTS, _SAGEMAKER] if wish.has_modelarts else [_HEAD, _SAGEMAKER]
        credentials = (_PASSWORD if wish.by_password else _KEYS).format(
            folder=self._folder, user=catalog.USER_NAME, domain=catalog.DOMAIN_NAME
        )
        text = "".join(parts).format(
            folder=self._folder,
            url=self.door.url,
            labels=", ".join(wish.labels),
            denied=", ".join(f'"trainfleet_*_{one}"' for one in _DENIED),
            workspaces=", ".join(f'"{one}"' for one in WORKSPACES),
            retention=RETENTION,
            minutes=round(self.often / 6 * wish.pace),
            often=round(self.often * wish.pace),
            seldom=round(self.often * 3 * wish.pace),
            region=catalog.REGION,
            project_id=catalog.PROJECT_ID,
            credentials=credentials,
            aws_region=aws.REGION,
            aws_id=aws.ACCESS_KEY_ID,
            aws_secret=aws.SECRET_ACCESS_KEY,
        )
        self.write("config.yaml", text)

    def break_config(self) -> None:
        """Write an invalid config file."""
        self.write("config.yaml", _BROKEN)

    def rotate(self, rng: Random) -> None:
        """Replace the keys of PAI and ModelArts, which reject the old ones. `hand_out_keys` gives the new ones to the
        daemon."""
        self._serial += 1
        made = [f"{prefix}{self._serial:04d}{rng.getrandbits(96):024x}" for prefix in ("LTAI", "s", "HPUA", "s")]
        self._rotated = dict(zip(("pai-id", "pai-secret", "modelarts-key", "modelarts-secret"), made, strict=True))
        self.simulator.sts.permanent, self.simulator.agency.permanent = Key(made[0], made[1]), Key(made[2], made[3])
        if self._serial == 1:
            self.hand_out_keys()

    def hand_out_keys(self) -> None:
        """Write the files of the current keys."""
        for name, text in self._rotated.items():
            self.write(name, f"{text}\n")

    def renew_user(self, rng: Random) -> None:
        """Change the password of the scraper."""
        self.password = f"{rng.getrandbits(64):016x}"
        salted = bcrypt.hashpw(self.password.encode(), bcrypt.gensalt(4)).decode()
        self.write("web.yml", f"basic_auth_users:\n  {USER}: '{salted}'\n")

    def close_clouds(self, closed: bool) -> None:
        """Stop submitting jobs, or start again."""
        for world in self.simulator.worlds.values():
            world.closed = closed

    def _load(self) -> Config:
        return loaded(self._folder / "config.yaml")


@contextlib.asynccontextmanager
async def site(folder: Path, seed: int, often: int) -> AsyncIterator[Site]:
    """Yield a site whose daemon polls and serves. Stop it at the end."""
    simulator = Simulator(
        seed,
        clouds=CLOUDS,
        population=_POPULATION,
        patience=_PATIENCE,
        token_lifetime=_TOKEN_LIFETIME,
    )
    async with simulator.serve_listeners(["clouds"]) as doors:
        found = Site(folder, simulator, doors["clouds"], often)
        try:
            await found.daemon.start()
            yield found
        finally:
            await found.daemon.stop()
