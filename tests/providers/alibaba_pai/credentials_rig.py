"""Every kind of credentials, on an exporter that polls a simulated account."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from tests.support.logs import texts_of
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_simulator import Simulator
from trainfleet_simulator.pai.sts import ECS_ROLE, OIDC_PROVIDER, OIDC_TOKEN, ROLE, Sts
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

MINUTE, HOUR = 60.0, 3600.0
EXTERNAL_ID = "planted-external-id"
ROLE_ARN = Sts.role_arn(ROLE)
KEYS = f"access_key_id: {ACCESS_KEY_ID}, access_key_secret: {ACCESS_KEY_SECRET}"
ENVIRON_KEYS = {
    "ALIBABA_CLOUD_ACCESS_KEY_ID": ACCESS_KEY_ID,
    "ALIBABA_CLOUD_ACCESS_KEY_SECRET": ACCESS_KEY_SECRET,
}
CLI = {"name": "prod", "access_key_id": ACCESS_KEY_ID, "access_key_secret": ACCESS_KEY_SECRET}
CONFIG = """
providers:
  - name: p
    platform: alibaba_pai
    region: cn-hangzhou
    {credentials}
    {more}
    endpoints: {{dlc: {url}, paistudio: {url}, aiworkspace: {url}, cloudmonitor: {url}, sts: {url}, metadata: {url}}}
    limits: {{requests_per_second: 1000}}
    collectors:
      job_counts: {{enabled: false}}
      jobs: {{enabled: false}}
      pods: {{enabled: false}}
      usage: {{enabled: false}}
      pools: {{enabled: false}}
      pool_workloads: {{enabled: false}}
"""


class Account:
    """An exporter that polls a simulated account: workspaces alone, which is one call a poll."""

    def __init__(self, simulator: Simulator, exporter: Exporter, caplog: pytest.LogCaptureFixture) -> None:
        self.simulator = simulator
        self.exporter = exporter
        self._caplog = caplog
        (self.provider,) = exporter.providers
        (self._runner,) = exporter.runners

    @property
    def origin(self) -> str:
        return self.provider.identity.origin

    @property
    def log(self) -> list[str]:
        """Every message so far, but for the debug log's."""
        return texts_of(record for record in self._caplog.records if record.levelno > logging.DEBUG)

    def gauge(self) -> float | None:
        """When the credentials end, as the exporter shows it."""
        return self.exporter.telemetry.registry.get_sample_value(
            "trainfleet_exporter_credentials_expiry_timestamp_seconds", {"provider": "p"}
        )

    @property
    def calls(self) -> Counter[str]:
        """How often STS and the metadata service were asked, by operation and outcome."""
        found: Counter[str] = Counter()
        for family in self.exporter.telemetry.registry.collect():
            for sample in family.samples:
                if sample.name.endswith("api_requests_total") and sample.labels["api"] in {"sts", "metadata"}:
                    found[f"{sample.labels['operation']} {sample.labels['outcome']}"] += int(sample.value)
        return found

    @property
    def errors(self) -> dict[str, int]:
        """How many polls failed, by reason."""
        return {
            sample.labels["reason"]: int(sample.value)
            for family in self.exporter.telemetry.registry.collect()
            for sample in family.samples
            if sample.name == "trainfleet_exporter_collector_errors_total" and sample.value
        }

    async def poll(self, times: int = 1, every: float = 0.0) -> bool:
        """Poll so often; whether all of the polls succeeded."""
        good = True
        for _ in range(times):
            await self._runner.tick()
            good = good and self._runner.state.success is True
            await asyncio.sleep(every)
        return good


@dataclass(frozen=True)
class Kind:
    """One way to say who asks; `given` and `environ` may hold {home}, the folder of the files, and {url}."""

    origin: str
    given: str = ""
    environ: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    lifetime: float = HOUR
    log: str = f"STS keys of {ROLE_ARN}"
    asked: tuple[str, ...] = ("AssumeRole",)
    """What one renewal asks for."""
    more: str = ""
    """One more line of the provider's."""


MACHINE = ("PutToken", "ListRamRoles", "GetRamRoleCredentials")
OIDC_ENVIRON = {
    "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": OIDC_PROVIDER,
    "ALIBABA_CLOUD_ROLE_ARN": ROLE_ARN,
    "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "{home}/token",
}


def profile(**fields: str) -> dict[str, str]:
    return {".aliyun/config.json": json.dumps({"current": "prod", "profiles": [CLI | fields]})}


KINDS = {
    "role": Kind(
        f"STS role {ROLE_ARN}, with keys of the config file",
        f"{{{KEYS}, role_arn: '{ROLE_ARN}', external_id: {EXTERNAL_ID}}}",
    ),
    "role of the environment's": Kind(
        f"STS role {ROLE_ARN}, with keys of the environment",
        f"{{role_arn: '{ROLE_ARN}', external_id: {EXTERNAL_ID}}}",
        ENVIRON_KEYS,
    ),
    "oidc": Kind(
        f"OIDC role {ROLE_ARN}, with the token of file {{home}}/token",
        f"{{oidc: {{provider_arn: '{OIDC_PROVIDER}', role_arn: '{ROLE_ARN}', token_file: token}}}}",
        files={"token": f"{OIDC_TOKEN}\n"},
        asked=("AssumeRoleWithOIDC",),
    ),
    "chain: oidc": Kind(
        f"OIDC role {ROLE_ARN}, with the token of file {{home}}/token",
        environ=OIDC_ENVIRON,
        files={"token": f"{OIDC_TOKEN}\n"},
        asked=("AssumeRoleWithOIDC",),
    ),
    "machine": Kind(
        f"ECS metadata, role {ECS_ROLE}",
        "{ecs_ram_role: true}",
        lifetime=6 * HOUR,
        log="keys of the machine's RAM role",
        asked=MACHINE,
    ),
    "machine by name": Kind(
        f"ECS metadata, role {ECS_ROLE}",
        f"{{ecs_ram_role: {ECS_ROLE}}}",
        lifetime=6 * HOUR,
        log="keys of the machine's RAM role",
        asked=("PutToken", "GetRamRoleCredentials"),
    ),
    "chain: machine": Kind(
        f"ECS metadata, role {ECS_ROLE}", lifetime=6 * HOUR, log="keys of the default chain", asked=MACHINE
    ),
    "chain: uri": Kind(
        "the credentials URI at {url}",
        environ={
            "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
            "ALIBABA_CLOUD_CREDENTIALS_URI": f"{{url}}/credentials-uri?secret={EXTERNAL_ID}",
        },
        log="keys of the default chain",
        asked=("GetCredentialsUri",),
    ),
    "role of a profile": Kind(
        f"STS role {ROLE_ARN}, with keys of profile prod of ~/.aliyun/config.json",
        "{profile: prod}",
        {"HOME": "{home}"},
        profile(mode="RamRoleArn", ram_role_arn=ROLE_ARN, external_id=EXTERNAL_ID),
    ),
}

Steps = Callable[[Account], Awaitable[None]]
Stepped = Callable[..., None]
