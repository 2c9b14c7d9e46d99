"""An exporter that polls the simulated ModelArts over loopback HTTP, with credentials of a test's choice."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

from tests.support.clock import run_stepped
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config, redacted
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.huawei_modelarts.config import Collectors
from trainfleet_exporter.providers.huawei_modelarts.provider import PLATFORM
from trainfleet_exporter.providers.huawei_modelarts.signing import Identity
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.agency import AGENCY_URN, PROVIDER_URN
from trainfleet_simulator.modelarts.catalog import (
    ACCESS_KEY,
    DOMAIN_NAME,
    PASSWORD,
    PROJECT_ID,
    SECRET_KEY,
    USER_NAME,
)

# No collector can be spared that lists workspaces: one call to ModelArts a poll.
_CONFIG = """
providers:
  - name: p
    platform: huawei_modelarts
    region: {region}
    {credentials}
    {more}
    endpoints: {{modelarts: {url}, iam: {url}, sts: {url}, metadata: {url}}}
    collectors: {{{off}}}
"""


def load(folder: Path, credentials: str, environ: Mapping[str, str], *, url: str, more: str = "") -> Config:
    """A config with this line of credentials (and one more line)."""
    path = folder / "config.yaml"
    off = ", ".join(f"{name}: {{enabled: false}}" for name in Collectors.model_fields)
    text = _CONFIG.format(region=catalog.REGION, credentials=credentials, url=url, more=more, off=off)
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ=environ, platforms={PLATFORM.name: PLATFORM.config})


class Rig:
    """The exporter, and what it shows of its credentials."""

    def __init__(self, simulator: Simulator, config: Config) -> None:
        self.simulator = simulator
        self.config_text = redacted(config)
        self.exporter = Exporter(config, {PLATFORM.name: PLATFORM})
        self.schedule = Schedule(self.exporter.runners)

    @property
    def identity(self) -> Identity:
        (provider,) = self.exporter.providers
        assert isinstance(provider.identity, Identity)
        return provider.identity

    def good(self) -> bool:
        """Whether the latest poll succeeded."""
        return bool(self._own("collector_success", collector="workspaces"))

    def left(self) -> float | None:
        """Seconds until the credentials end, by the gauge; None where it is absent."""
        value = self._own("credentials_expiry_timestamp_seconds")
        return None if value is None else value - time.time()

    def calls(self, operation: str, outcome: str = "ok") -> int:
        """How many attempts of an operation ended so."""
        api = {
            "AssumeAgencyWithOIDC": "sts",
            "GetMetadataToken": "metadata",
            "GetSecurityKey": "metadata",
            "KeystoneCreateUserTokenByPassword": "iam",
            "KeystoneListProjects": "iam",
        }.get(operation, "modelarts")
        return int(self._own("api_requests_total", api=api, operation=operation, outcome=outcome) or 0)

    def errors(self) -> dict[str, int]:
        """How many polls failed, by reason."""
        return {
            sample.labels["reason"]: int(sample.value)
            for family in self.exporter.telemetry.registry.collect()
            for sample in family.samples
            if sample.name == "trainfleet_exporter_collector_errors_total" and sample.value
        }

    def _own(self, name: str, **labels: str) -> float | None:
        registry = self.exporter.telemetry.registry
        return registry.get_sample_value(f"trainfleet_exporter_{name}", {"provider": "p", **labels})


@contextlib.asynccontextmanager
async def rigged(
    folder: Path,
    credentials: str,
    *,
    environ: Mapping[str, str] | None = None,
    simulator: Simulator | None = None,
    more: str = "",
) -> AsyncIterator[Rig]:
    """Inside stepped time: an exporter on a simulator, to be polled by hand or by its schedule."""
    simulator = simulator or Simulator(clouds=("modelarts",), population=1)
    async with simulator.serve() as url:
        rig = Rig(simulator, load(folder, credentials, environ or {}, url=url, more=more))
        try:
            yield rig
        finally:
            await rig.schedule.stop()
            await rig.exporter.aclose()


HOUR = 3600.0
KEYS = f"credentials: {{access_key: {ACCESS_KEY}, secret_key: {SECRET_KEY}}}"
USER = f"credentials: {{username: {USER_NAME}, password: {PASSWORD}, domain_name: {DOMAIN_NAME}}}"
OIDC = f'credentials: {{oidc: {{provider_urn: "{PROVIDER_URN}", agency_urn: "{AGENCY_URN}", token_file: id-token}}}}'
MACHINE = "credentials: {ecs_agency: true}"
PROFILE = "credentials: {profile: team}"
SECURITY_TOKEN = "planted-security-token"

Check = Callable[[Rig], Awaitable[None]]


SIMULATORS: list[Simulator] = []
"""Those that a test has made, whose secrets its log must not have."""


def simulated(**settings: object) -> Simulator:
    """A small ModelArts whose secrets are looked for in the log."""
    simulator = Simulator(clouds=("modelarts",), population=1, **settings)  # type: ignore[arg-type]  # as given
    SIMULATORS.append(simulator)
    return simulator


def stepped(
    folder: Path,
    credentials: str,
    check: Check,
    *,
    environ: Mapping[str, str] | None = None,
    simulator: Simulator | None = None,
    more: str = f"project_id: {PROJECT_ID}",
) -> None:
    async def main() -> None:
        made = simulator or simulated()
        async with rigged(folder, credentials, environ=environ, simulator=made, more=more) as rig:
            await check(rig)

    run_stepped(main)
