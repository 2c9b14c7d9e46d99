"""Runs on stepped time: on a scripted cloud, and on a simulated account with some kind of credentials."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.providers.alibaba_pai import credentials_rig
from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, Run
from tests.providers.alibaba_pai.credentials_rig import EXTERNAL_ID, Account, Kind, Stepped, Steps
from tests.support.clock import run_stepped
from tests.support.fleet import Fleet
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator
from trainfleet_simulator.pai.sts import OIDC_TOKEN
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET


@pytest.fixture
def config() -> str:
    """The config of a fleet; test modules override it."""
    return CONFIG


@pytest.fixture
def run(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Run:
    """Run a test's steps on a fleet with the given config, in stepped time."""
    caplog.set_level(logging.INFO)

    def run_steps(cloud: Cloud, steps: Callable[[Fleet], Awaitable[None]], config: str = config) -> None:
        async def main() -> None:
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                await steps(fleet)

        run_stepped(main)

    return run_steps


@pytest.fixture
def stepped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Stepped:
    """Run steps on an account with a kind of credentials; at the end, no secret may have been logged."""
    caplog.set_level(logging.DEBUG, logger="trainfleet_exporter")
    secrets = {ACCESS_KEY_ID, ACCESS_KEY_SECRET, EXTERNAL_ID, OIDC_TOKEN}

    def run(
        kind: Kind,
        steps: Steps,
        prepare: Callable[[Simulator], None] = lambda simulator: None,
        *,
        ahead: float = 0.0,
    ) -> None:
        async def main() -> None:
            simulator = Simulator(seed=3, clock=lambda: time.time() + ahead)
            simulator.sts.external_id = EXTERNAL_ID if EXTERNAL_ID in kind.given + str(kind.files) else None
            prepare(simulator)
            for name, content in kind.files.items():
                (tmp_path / name).parent.mkdir(exist_ok=True)
                (tmp_path / name).write_text(content)
            async with simulator.serve() as url:
                credentials = f"credentials: {kind.given}" if kind.given else ""
                path = tmp_path / "config.yaml"
                path.write_text(credentials_rig.CONFIG.format(credentials=credentials, url=url, more=kind.more))
                environ = {name: value.format(home=tmp_path, url=url) for name, value in kind.environ.items()}
                platforms = installed_platforms()
                configs = {name: platform.config for name, platform in platforms.items()}
                exporter = Exporter(load_config(path, environ=environ, platforms=configs), platforms)
                account = Account(simulator, exporter, caplog)
                try:
                    await steps(account)
                    shown = repr(account.provider.identity) + repr(exporter.config) + account.origin
                finally:
                    await exporter.aclose()
            for key in simulator.sts.issued:
                secrets.update((key.access_key_id, key.access_key_secret, key.security_token or "none"))
            reported = "\n".join([*account.log, shown])
            assert [secret for secret in secrets if secret in reported] == []

        run_stepped(main)

    return run
