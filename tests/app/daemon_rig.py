"""A daemon on a small platform, with or without a lease, in stepped time."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.app.reload_rig import SmallConfig, World, config
from trainfleet_conformance.page import check
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.lease import KubernetesLease


class Running:
    """A daemon of the config file in a folder, and its world."""

    def __init__(self, folder: Path, *, text: str = config("name: a"), lease: KubernetesLease | None = None) -> None:
        self.path = folder / "config.yaml"
        self.path.write_text(text, encoding="utf-8")
        self.world, self.lease = World(), lease
        web = WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True)
        platforms = {"small": self.world.platform}
        self.daemon = Daemon(self._load(), platforms, web, load=self._load, lease=lease)

    def _load(self) -> Config:
        return load_config(self.path, environ={}, platforms={"small": SmallConfig})

    @property
    def calls(self) -> int:
        return self.world.calls.total()

    @property
    def leads(self) -> float | None:
        return self.daemon.exporter.telemetry.registry.get_sample_value("trainfleet_exporter_leader")

    async def get(self, path: str, method: str = "GET") -> httpx.Response:
        async with httpx.AsyncClient(base_url=f"http://{self.daemon.server.addresses[0]}", trust_env=False) as client:
            return await client.request(method, path)

    async def reload(self, text: str) -> httpx.Response:
        """Write another config, and have it read."""
        self.path.write_text(text, encoding="utf-8")
        return await self.get("/-/reload", "POST")

    async def lines(self, with_: str) -> list[str]:
        """The lines of the page that have this text."""
        text = (await self.get("/metrics")).text
        check(text)
        return [line for line in text.splitlines() if with_ in line]

    async def cloud_lines(self) -> list[str]:
        """The lines of the page that are about a provider."""
        return await self.lines('provider="')

    async def usurp(self) -> None:
        """Have the lease name another exporter, which never renews it."""
        assert self.lease is not None
        seen = await self.lease.read()
        await self.lease.write(seen, "usurper", seen.term + 1)
