"""Sources of credentials against the simulated cloud: metadata services, chains, roles, files and profiles."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.providers.alibaba_pai.credentials_rig import (
    ENVIRON_KEYS,
    EXTERNAL_ID,
    HOUR,
    KINDS,
    MACHINE,
    MINUTE,
    OIDC_ENVIRON,
    ROLE_ARN,
    Account,
    Kind,
    Stepped,
    profile,
)
from tests.support.clock import START
from trainfleet_simulator import Simulator
from trainfleet_simulator.faults import Fault
from trainfleet_simulator.keys import Key
from trainfleet_simulator.pai.sts import ECS_ROLE, ROLE


def test_chain_retries_soon_after_a_slow_metadata_service(stepped: Stepped) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.faults.add(Fault({"api": "metadata"}, delay=100))

    async def steps(account: Account) -> None:
        assert not await account.poll(2)
        assert account.errors == {"timeout": 2}  # no refusal: it may have keys after all
        assert "no credentials found: the environment sets no " in account.log[-1]
        assert "ECS metadata: " in account.log[-1]
        assert account.calls["PutToken timeout"] == 1
        account.simulator.faults.clear()
        await asyncio.sleep(30)
        assert await account.poll()

    stepped(KINDS["chain: machine"], steps, prepare)


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
def test_failing_metadata_service_is_not_asked_without_token(
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


def test_metadata_401_for_a_token_is_not_retried_without_token(stepped: Stepped) -> None:
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
        assert account.calls == Counter({f"{operation} ok": 1 for operation in MACHINE})

    stepped(replace(KINDS["machine"], more="http: {proxy_url: 'http://127.0.0.1:1'}"), steps)


def test_empty_chain_names_every_source(stepped: Stepped) -> None:
    def prepare(simulator: Simulator) -> None:
        simulator.sts.ecs_role = None
        simulator.faults.add(Fault({"operation": "GetCredentialsUri"}, status=404))

    async def steps(account: Account) -> None:
        assert not await account.poll(5, every=10)
        lines = [line.partition(" provider=")[0] for line in account.log]
        (reported,) = {line.partition("no credentials")[2] for line in lines if "no credentials" in line}
        assert reported.split(": ", 1)[1].split("; ") == [
            "the environment sets no ALIBABA_CLOUD_ACCESS_KEY_ID",
            "the environment sets no " + " and no ".join(OIDC_ENVIRON),
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
        account.simulator.sts.revoke()
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
        sts.revoke()
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
        assert "~/.aliyun/config.json: it is not a JSON file of the CLI" in account.log[-1]
        write(sts.issue(ROLE, "cli", time.time(), HOUR))
        assert await account.poll()
        write(sts.issue(ROLE, "cli", time.time(), HOUR), mode="AK")
        assert await account.poll(every=MINUTE)
        assert not await account.poll()
        assert 'profile "prod" has changed its mode; restart the exporter' in account.log[-1]

    files = profile(mode="StsToken", sts_token="planted")
    stepped(Kind("profile prod of ~/.aliyun/config.json", environ={"HOME": "{home}"}, files=files), steps)
