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

from tests.support.accounts import config_text, provider
from tests.support.configs import loaded
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.web.access import Access
from trainfleet_simulator import Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.listener import Listener
from trainfleet_simulator.modelarts import catalog

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

_MODELARTS_KEYS = (("access", "key"), ("secret", "secret"))
_LIMITS = {"requests_per_second": 50, "concurrency": 8}


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
        url, folder, pace = self.door.url, self._folder, self.often * wish.pace
        jobs = {"interval": f"{round(pace)}s"}
        seldom = {"interval": f"{round(3 * pace)}s"}
        often = {"jobs": jobs, "usage": jobs, "job_counts": seldom, "pools": seldom}
        keys: dict[str, object] = {f"{name}_key_file": f"{folder}/modelarts-{key}" for name, key in _MODELARTS_KEYS}
        if wish.by_password:
            keys = {
                "username": catalog.USER_NAME,
                "domain_name": catalog.DOMAIN_NAME,
                "password_file": f"{folder}/password",
            }
        more = dict.fromkeys(("pool_workloads", "pool_usage"), seldom) | {"jobs_v1": {"enabled": True, **seldom}}
        providers = [
            provider(
                "pai",
                url,
                workspaces=WORKSPACES,
                credentials={f"access_key_{name}_file": f"{folder}/pai-{name}" for name in ("id", "secret")},
                collectors={
                    **often,
                    "pods": seldom,
                    "usage": {**jobs, "source": "cloudmonitor"},
                    "pool_workloads": {"enabled": False},
                },
                limits={**_LIMITS, "monthly_calls": {"cloudmonitor": 2_000_000}},
            ),
            provider("modelarts", url, credentials=keys, collectors={**often, **more}, limits=_LIMITS),
            provider("sagemaker", url, collectors={**often, "nodes": {"enabled": True, **seldom}}, limits=_LIMITS),
        ]
        if not wish.has_modelarts:
            del providers[1]
        text = config_text(
            providers,
            poll_interval=f"{round(pace / 6)}s",
            poll_timeout="30s",
            finished_job_retention=f"{RETENTION}s",
            metrics={"job_labels": wish.labels, "deny": [f"trainfleet_*_{one}" for one in _DENIED]},
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
    simulator = Simulator(seed, clouds=CLOUDS, population=_POPULATION, patience=_PATIENCE)
    simulator.tokens.lifetime = _TOKEN_LIFETIME
    async with simulator.serve_listeners(["clouds"]) as doors:
        found = Site(folder, simulator, doors["clouds"], often)
        try:
            await found.daemon.start()
            yield found
        finally:
            await found.daemon.stop()
