"""Every kind of Alibaba credentials over real loopback HTTP, in stepped time: start, renew, revoke, expire.

What the log says, what the gauge shows, how many keys are asked for, and that no secret shows anywhere.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.support.clock import START, run_stepped
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.simulator import Simulator
from trainfleet_exporter.simulator.faults import Fault
from trainfleet_exporter.simulator.pai.keys import Key
from trainfleet_exporter.simulator.pai.sts import ECS_ROLE, OIDC_PROVIDER, OIDC_TOKEN, ROLE, Sts
from trainfleet_exporter.simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
from trainfleet_exporter.transport.json_fields import iso_time

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
        return [record.getMessage() for record in self._caplog.records if record.levelno > logging.DEBUG]

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
    log: str = f"p: STS keys of {ROLE_ARN}"
    asked: tuple[str, ...] = ("AssumeRole",)
    """What one renewal asks for."""
    more: str = ""
    """One more line of the provider's."""


_MACHINE = ("PutToken", "ListRamRoles", "GetRamRoleCredentials")
_OIDC_ENVIRON = {
    "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": OIDC_PROVIDER,
    "ALIBABA_CLOUD_ROLE_ARN": ROLE_ARN,
    "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "{home}/token",
}


def _profile(**fields: str) -> dict[str, str]:
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
        environ=_OIDC_ENVIRON,
        files={"token": f"{OIDC_TOKEN}\n"},
        asked=("AssumeRoleWithOIDC",),
    ),
    "machine": Kind(
        f"ECS metadata, role {ECS_ROLE}",
        "{ecs_ram_role: true}",
        lifetime=6 * HOUR,
        log="p: keys of the machine's RAM role",
        asked=_MACHINE,
    ),
    "machine by name": Kind(
        f"ECS metadata, role {ECS_ROLE}",
        f"{{ecs_ram_role: {ECS_ROLE}}}",
        lifetime=6 * HOUR,
        log="p: keys of the machine's RAM role",
        asked=("PutToken", "GetRamRoleCredentials"),
    ),
    "chain: machine": Kind(
        f"ECS metadata, role {ECS_ROLE}", lifetime=6 * HOUR, log="p: keys of the default chain", asked=_MACHINE
    ),
    "chain: uri": Kind(
        "the credentials URI at {url}",
        environ={
            "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
            "ALIBABA_CLOUD_CREDENTIALS_URI": f"{{url}}/credentials-uri?secret={EXTERNAL_ID}",
        },
        log="p: keys of the default chain",
        asked=("GetCredentialsUri",),
    ),
    "role of a profile": Kind(
        f"STS role {ROLE_ARN}, with keys of profile prod of ~/.aliyun/config.json",
        "{profile: prod}",
        {"HOME": "{home}"},
        _profile(mode="RamRoleArn", ram_role_arn=ROLE_ARN, external_id=EXTERNAL_ID),
    ),
}

Steps = Callable[[Account], Awaitable[None]]
Stepped = Callable[..., None]


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
                path.write_text(CONFIG.format(credentials=credentials, url=url, more=kind.more))
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


@pytest.mark.parametrize("name", KINDS)
def test_keys_are_refreshed_and_replaced_when_revoked(name: str, stepped: Stepped, tmp_path: Path) -> None:
    kind = KINDS[name]

    async def steps(account: Account) -> None:
        sts = account.simulator.sts
        assert account.gauge() is None
        assert await account.poll(3)
        first = int(START) + kind.lifetime
        assert account.gauge() == first
        assert account.calls == Counter({f"{operation} ok": 1 for operation in kind.asked})
        assert account.origin == kind.origin.format(home=tmp_path, url=account.provider.endpoints["dlc"])
        assert [line for line in account.log if "valid until" in line] == [
            f"{kind.log} received, valid until {iso_time(first)}"
        ]
        await asyncio.sleep(START + kind.lifetime - 900 - 1 - time.time())
        assert await account.poll(3)
        assert account.gauge() == first
        await asyncio.sleep(2)
        assert await account.poll(3)
        second = int(time.time()) + kind.lifetime
        assert account.gauge() == second
        assert len(sts.issued) == 2
        assert account.log[-1] == f"{kind.log} renewed, valid until {iso_time(second)}"

        await asyncio.sleep(6 * MINUTE)
        sts.revoke("all")
        assert await account.poll(3)  # the refused call itself is made again, with new keys
        assert len(sts.issued) == 3
        sts.revoke("all")
        assert not await account.poll(3)  # seconds old: others would be refused just so
        assert "InvalidAccessKeyId.NotFound" in account.log[-1]
        assert len(sts.issued) == 3
        await asyncio.sleep(5 * MINUTE)
        assert await account.poll(3)
        assert len(sts.issued) == 4
        assert account.calls == Counter({f"{operation} ok": 4 for operation in kind.asked})

    stepped(kind, steps)


@pytest.mark.parametrize(
    ("name", "change", "reported"),
    [
        (
            "role",
            ("external_id", "another"),
            "AssumeRole: HTTP 403 NoPermission You are not authorized to do this action.",
        ),
        ("role", ("roles", set()), "AssumeRole: HTTP 404 EntityNotExist.Role The specified role does not exist."),
        (
            "oidc",
            ("expired_oidc_tokens", {OIDC_TOKEN}),
            "AssumeRoleWithOIDC: HTTP 400 AuthenticationFail.OIDCToken.Expired This JSON Web Token has expired.",
        ),
        ("machine", ("ecs_role", None), "ListRamRoles: this machine has no RAM role"),
        ("machine by name", ("ecs_role", "other"), f"GetRamRoleCredentials: this machine has no RAM role {ECS_ROLE}"),
    ],
)
def test_refusal_is_reported_and_retried_in_five_minutes(
    name: str, change: tuple[str, object], reported: str, stepped: Stepped
) -> None:
    was: list[object] = []

    def prepare(simulator: Simulator) -> None:
        was.append(getattr(simulator.sts, change[0]))
        setattr(simulator.sts, *change)

    async def steps(account: Account) -> None:
        assert not await account.poll(10, every=20)
        assert reported in account.log[-1]
        asked = account.calls.copy()
        assert asked[f"{KINDS[name].asked[-1]} ok"] == 0
        assert account.gauge() is None
        setattr(account.simulator.sts, change[0], was[0])
        assert not await account.poll()
        assert account.calls == asked
        await asyncio.sleep(5 * MINUTE)
        assert await account.poll()
        assert account.gauge() is not None

    stepped(KINDS[name], steps, prepare)


@pytest.mark.parametrize(
    ("answer", "outcome", "pause"),
    [
        ((400, "InvalidParameter.RoleSessionName"), "client", 5 * MINUTE),
        ((400, "Throttling.User"), "throttled", MINUTE / 2),
        ((404, "Nothing.Here"), "not_found", 5 * MINUTE),
        ((500, "InternalError"), "server", MINUTE / 2),
        ((200, "OK"), "bad_answer", MINUTE / 2),
    ],
)
@pytest.mark.parametrize("name", ["role", "oidc"])
def test_what_fails_is_not_asked_for_by_every_call(
    name: str, answer: tuple[int, str], outcome: str, pause: float, stepped: Stepped
) -> None:
    (operation,) = KINDS[name].asked

    def prepare(simulator: Simulator) -> None:
        status, code = answer
        simulator.faults.add(Fault({"api": "sts"}, status=status, body={"Code": code, "Message": "no"}))

    async def steps(account: Account) -> None:
        began = time.time()
        while time.time() < began + pause - 2:
            assert not await account.poll(every=2)
            assert f"{operation}: " in account.log[-1]
        asked = account.calls.copy()
        assert asked == Counter({f"{operation} {'ok' if outcome == 'bad_answer' else outcome}": 1})
        # Whatever the refusal was: to who has no credentials for it, it is one of access.
        assert set(account.errors) == {"auth" if outcome in {"client", "not_found"} else outcome}
        account.simulator.faults.clear()
        await asyncio.sleep(4)
        assert await account.poll()
        assert account.calls - asked == Counter({f"{operation} ok": 1})

    stepped(KINDS[name], steps, prepare)


def test_a_chain_whose_metadata_service_was_slow_once_is_not_blind_for_minutes(stepped: Stepped) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.faults.add(Fault({"api": "metadata"}, delay=100))

    async def steps(account: Account) -> None:
        assert not await account.poll(2)
        assert account.errors == {"timeout": 2}  # no refusal: it may have keys after all
        assert "no credentials are configured, and none were found: the environment sets no " in account.log[-1]
        assert "ECS metadata: " in account.log[-1]
        assert account.calls["PutToken timeout"] == 1
        account.simulator.faults.clear()
        await asyncio.sleep(30)
        assert await account.poll()

    stepped(KINDS["chain: machine"], steps, prepare)


def test_a_right_that_is_lacking_takes_no_new_keys(stepped: Stepped) -> None:
    async def steps(account: Account) -> None:
        assert await account.poll()
        account.simulator.faults.add(Fault({"operation": "ListWorkspaces"}, status=403))
        await asyncio.sleep(10 * MINUTE)
        assert not await account.poll(3)
        assert len(account.simulator.sts.issued) == 1

    stepped(KINDS["role"], steps)


def test_corrected_key_is_tried_at_once(stepped: Stepped, tmp_path: Path) -> None:
    async def steps(account: Account) -> None:
        assert not await account.poll(10, every=10)
        assert account.calls == Counter({"AssumeRole auth": 1})
        assert "the signature was refused: is the access key secret the right one?" in "".join(account.log)
        (tmp_path / "secret").write_text(ACCESS_KEY_SECRET)
        assert not await account.poll(3, every=20)  # as long as others may be about to change
        assert await account.poll()
        assert account.calls == Counter({"AssumeRole auth": 1, "AssumeRole ok": 1})

    given = f"{{access_key_id_file: id, access_key_secret_file: secret, role_arn: '{ROLE_ARN}'}}"
    origin = f"STS role {ROLE_ARN}, with keys of file {{home}}/id, file {{home}}/secret"
    stepped(Kind(origin, given, files={"id": ACCESS_KEY_ID, "secret": "planted"}), steps)


def test_a_new_oidc_token_is_tried_at_once(stepped: Stepped, tmp_path: Path) -> None:
    async def steps(account: Account) -> None:
        sts = account.simulator.sts
        sts.oidc_token = "planted-new-token"
        assert not await account.poll(3)
        assert account.calls == Counter({"AssumeRoleWithOIDC auth": 1})
        (tmp_path / "token").write_text("planted-new-token")
        assert await account.poll(3)
        assert account.calls == Counter({"AssumeRoleWithOIDC auth": 1, "AssumeRoleWithOIDC ok": 1})
        assert "planted-new-token" not in "".join(account.log)
        (tmp_path / "token").unlink()
        await asyncio.sleep(50 * MINUTE)
        assert await account.poll()
        assert "could not be renewed" in account.log[-1]
        assert "token cannot be used: No such file or directory" in account.log[-1]

    stepped(KINDS["oidc"], steps)


@pytest.mark.parametrize("status", [403, 404])
def test_a_metadata_service_without_tokens_is_asked_without_one(status: int, stepped: Stepped) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.sts.allow_v1 = True
        simulator.faults.add(Fault({"operation": "PutToken"}, status=status))

    async def steps(account: Account) -> None:
        assert await account.poll()
        assert account.calls["GetRamRoleCredentials ok"] == 1

    async def refused(account: Account) -> None:
        assert not await account.poll()
        assert "the metadata service gives no tokens, and asking without one is disabled" in account.log[-1]
        assert set(account.calls) == {f"PutToken {'auth' if status == 403 else 'not_found'}"}

    machine = KINDS["machine"]
    stepped(machine, steps, prepare)
    stepped(replace(machine, environ={"ALIBABA_CLOUD_IMDSV1_DISABLED": "true"}), refused, prepare)


@pytest.mark.parametrize(
    ("status", "outcome", "pause"),
    [(400, "client", 5 * MINUTE), (429, "throttled", MINUTE / 2), (503, "server", MINUTE / 2)],
)
def test_a_metadata_service_that_fails_is_not_asked_without_a_token(
    stepped: Stepped, status: int, outcome: str, pause: float
) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.sts.allow_v1 = True
        simulator.faults.add(Fault({"operation": "PutToken"}, status=status))

    async def steps(account: Account) -> None:
        assert not await account.poll()
        assert account.calls == Counter({f"PutToken {outcome}": 1})
        account.simulator.faults.clear()
        await asyncio.sleep(pause - 1)
        assert not await account.poll(every=1)
        assert await account.poll()

    stepped(KINDS["machine"], steps, prepare)


def test_a_metadata_service_that_wants_a_token_for_a_token_is_not_asked_without_one(stepped: Stepped) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.sts.allow_v1 = True
        simulator.faults.add(Fault({"operation": "PutToken"}, status=401))

    async def steps(account: Account) -> None:
        assert not await account.poll()
        assert account.calls == Counter({"PutToken auth": 1})

    stepped(KINDS["machine"], steps, prepare)


def test_the_metadata_service_is_not_behind_the_proxy(stepped: Stepped) -> None:
    async def steps(account: Account) -> None:
        assert not await account.poll()  # ListWorkspaces is
        assert account.calls == Counter({f"{operation} ok": 1 for operation in _MACHINE})

    stepped(replace(KINDS["machine"], more="http: {proxy_url: 'http://127.0.0.1:1'}"), steps)


def test_empty_chain_names_every_source(stepped: Stepped) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.sts.ecs_role = None
        simulator.faults.add(Fault({"operation": "GetCredentialsUri"}, status=404))

    async def steps(account: Account) -> None:
        assert not await account.poll(5, every=10)
        (reported,) = {line.partition("no credentials")[2] for line in account.log if "no credentials" in line}
        assert reported.split(": ", 1)[1].split("; ") == [
            "the environment sets no ALIBABA_CLOUD_ACCESS_KEY_ID",
            "the environment sets no " + " and no ".join(_OIDC_ENVIRON),
            "no profiles, since HOME is not set",
            "ECS metadata: this machine has no RAM role",
            f"the credentials URI at {account.provider.endpoints['dlc']}: not served",
        ]
        assert account.calls["ListRamRoles not_found"] == 1
        account.simulator.faults.clear()
        await asyncio.sleep(5 * MINUTE)
        assert await account.poll()
        assert account.origin.startswith("the credentials URI at")
        # It stays with the one that answered, although the machine has a role now.
        account.simulator.sts.ecs_role = ECS_ROLE
        await asyncio.sleep(HOUR)
        assert await account.poll()
        assert account.origin.startswith("the credentials URI at")
        assert account.calls["GetCredentialsUri ok"] == 2

    uri = {"ALIBABA_CLOUD_CREDENTIALS_URI": f"{{url}}/credentials-uri?secret={EXTERNAL_ID}"}
    stepped(replace(KINDS["chain: uri"], environ=uri), steps, prepare)


def test_wrong_clock_is_reported_with_both_times(stepped: Stepped) -> None:
    reported = (
        "the clock of this machine is off by 16 minutes (behind): "
        f"here it is {iso_time(START)}, there it is {iso_time(START + 16 * MINUTE)}"
    )

    async def steps(account: Account) -> None:
        assert not await account.poll()
        assert reported in account.log[-1]
        assert "InvalidTimeStamp.Expired" in account.log[-1]

    for name in ("role", "keys"):
        stepped(KINDS.get(name, Kind("config file", f"{{{KEYS}}}")), steps, ahead=16 * MINUTE)


def test_keys_that_ended_before_they_came_are_not_used(stepped: Stepped) -> None:
    """What a clock that is ahead looks like where nothing is signed."""

    async def steps(account: Account) -> None:
        assert not await account.poll(3)
        ended, here = iso_time(START - 2 * HOUR), iso_time(START)
        assert f"the keys in the answer ended at {ended}, and here it is {here}: is the clock right?" in account.log[-1]
        assert account.calls["GetCredentialsUri ok"] == 1

    stepped(KINDS["chain: uri"], steps, ahead=-3 * HOUR)


def test_a_role_by_way_of_a_role_by_way_of_the_machine(stepped: Stepped) -> None:
    profiles = [
        {"name": "prod", "mode": "ChainableRamRoleArn", "ram_role_arn": ROLE_ARN, "source_profile": "second"},
        {"name": "second", "mode": "ChainableRamRoleArn", "ram_role_arn": ROLE_ARN, "source_profile": "node"},
        {"name": "node", "mode": "EcsRamRole"},
    ]
    kind = Kind(
        f"STS role {ROLE_ARN}, with keys of STS role {ROLE_ARN}, with keys of ECS metadata, role {ECS_ROLE}",
        environ={"HOME": "{home}"},
        files={".aliyun/config.json": json.dumps({"current": "prod", "profiles": profiles})},
    )

    async def steps(account: Account) -> None:
        assert await account.poll(20, every=MINUTE)
        assert [key.via for key in account.simulator.sts.issued] == ["metadata", "AssumeRole", "AssumeRole"]
        assert account.origin == kind.origin
        assert account.gauge() == int(START) + HOUR
        # Those in between are revoked: each call that they sign is made again with new ones.
        account.simulator.sts.revoke("all")
        assert await account.poll(3)
        assert [key.via for key in account.simulator.sts.issued[3:]] == ["metadata", "AssumeRole", "AssumeRole"]

    stepped(kind, steps)


def test_permanent_keys_never_expire_and_cost_no_call(stepped: Stepped) -> None:
    async def steps(account: Account) -> None:
        assert await account.poll(3)
        assert (account.gauge(), account.calls) == (None, Counter())
        assert account.origin == "environment"

    stepped(Kind("environment", environ=ENVIRON_KEYS), steps)


FILES = ("access_key_id", "access_key_secret", "security_token")
ROTATING = Kind(
    "file {home}/access_key_id, file {home}/access_key_secret, file {home}/security_token",
    f"{{{', '.join(f'{name}_file: {name}' for name in FILES)}}}",
    files=dict.fromkeys(FILES, "planted-nothing"),
)


def test_files_that_rotate_are_followed_while_polls_go_on(stepped: Stepped, tmp_path: Path) -> None:
    async def steps(account: Account) -> None:
        sts = account.simulator.sts

        async def rotate(every: float) -> None:
            key = sts.issue(ROLE, "sidecar", time.time(), HOUR)
            for name in FILES:
                (tmp_path / name).write_text(f"{getattr(key, name)}\n")
                assert await account.poll()
                await asyncio.sleep(every)

        for name in FILES:
            (tmp_path / name).unlink()
        assert not await account.poll()
        assert f"the secret file {tmp_path / 'access_key_id'} cannot be used: No such file" in account.log[-1]
        first = sts.issue(ROLE, "sidecar", time.time(), HOUR)
        for name in FILES:
            (tmp_path / name).write_text(f"{getattr(first, name)}\n")
        assert await account.poll()
        for _ in range(3):
            await rotate(every=10)
            assert await account.poll()
            sts.revoke(sts.issued[-2].access_key_id)  # the old ones are not used any more
            assert await account.poll()
        # A rotation that revokes the old keys before it has written the new ones heals as soon as it has.
        sts.revoke("all")
        assert not await account.poll()
        key = sts.issue(ROLE, "sidecar", time.time(), HOUR)
        for name in FILES:
            (tmp_path / name).write_text(f"{getattr(key, name)}\n")
        assert await account.poll()

    stepped(ROTATING, steps)


def test_a_profile_is_followed(stepped: Stepped, tmp_path: Path) -> None:
    file = tmp_path / ".aliyun" / "config.json"

    def write(key: Key, mode: str = "StsToken") -> None:
        keys = {"access_key_id": key.access_key_id, "access_key_secret": key.access_key_secret}
        profile = {"name": "prod", "mode": mode, "sts_token": key.security_token, **keys}
        file.write_text(json.dumps({"current": "prod", "profiles": [profile]}))

    async def steps(account: Account) -> None:
        sts = account.simulator.sts
        write(sts.issue(ROLE, "cli", time.time(), HOUR))
        assert await account.poll()
        assert account.origin == "profile prod of ~/.aliyun/config.json"
        await asyncio.sleep(HOUR)
        write(sts.issue(ROLE, "cli", time.time(), HOUR))
        assert await account.poll()  # the old ones are refused, so the new ones are taken without waiting
        file.write_text("{")  # half of a file
        assert await account.poll()
        await asyncio.sleep(2 * MINUTE)
        assert not await account.poll()
        assert "~/.aliyun/config.json: it is no JSON of the CLI's" in account.log[-1]
        write(sts.issue(ROLE, "cli", time.time(), HOUR))
        assert await account.poll()
        write(sts.issue(ROLE, "cli", time.time(), HOUR), mode="AK")
        assert await account.poll(every=MINUTE)
        assert not await account.poll()
        assert 'profile "prod" is of another mode now; restart for it' in account.log[-1]

    files = _profile(mode="StsToken", sts_token="planted")
    stepped(Kind("profile prod of ~/.aliyun/config.json", environ={"HOME": "{home}"}, files=files), steps)
