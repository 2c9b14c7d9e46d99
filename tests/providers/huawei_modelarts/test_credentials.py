"""The life of every kind of credentials: start, renewal, end, revocation; over loopback HTTP, in stepped time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.credentials_rig import (
    HOUR,
    KEYS,
    MACHINE,
    OIDC,
    PROFILE,
    SECURITY_TOKEN,
    USER,
    Rig,
    simulated,
    stepped,
)
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.huawei_modelarts.signing import HuaweiDialect
from trainfleet_exporter.transport import Call
from trainfleet_simulator.faults import Fault
from trainfleet_simulator.modelarts.agency import AGENCY_URN, OIDC_TOKEN, PROVIDER_URN
from trainfleet_simulator.modelarts.catalog import (
    ACCESS_KEY,
    PASSWORD,
    SECRET_KEY,
    USER_NAME,
)

pytestmark = pytest.mark.usefixtures("no_secret_in_any_log")

TOKEN = "KeystoneCreateUserTokenByPassword"


KINDS: dict[str, tuple[str, dict[str, str], str, float | None]] = {
    "keys": (KEYS, {}, "config file", None),
    "keys by reference": (KEYS.replace(SECRET_KEY, "'${S}'"), {"S": SECRET_KEY}, "config file, environment", None),
    "password": (USER, {}, f"IAM password of user {USER_NAME}, from the config file", 24 * HOUR),
    "password by file": (
        USER.replace(f"password: {PASSWORD}", "password_file: password"),
        {},
        f"IAM password of user {USER_NAME}, from file {{home}}/password",
        24 * HOUR,
    ),
    "oidc": (OIDC, {}, f"OIDC agency {AGENCY_URN}, with the token of file {{home}}/id-token", HOUR),
    "machine": (MACHINE, {}, "ECS metadata", 24 * HOUR),
    "profile": (PROFILE, {"HOME": "."}, "profile team of ~/.huaweicloud/credentials", None),
    "chain: oidc": (
        "",
        {
            "HUAWEICLOUD_OIDC_PROVIDER_URN": PROVIDER_URN,
            "HUAWEICLOUD_OIDC_AGENCY_URN": AGENCY_URN,
            "HUAWEICLOUD_OIDC_ID_TOKEN": OIDC_TOKEN,
            "HUAWEICLOUD_SDK_AK": "of-a-later-link",
            "HUAWEICLOUD_SDK_SK": "of-a-later-link",
        },
        f"OIDC agency {AGENCY_URN}, with the token of the environment",
        HOUR,
    ),
    "chain: variables": (
        "",
        {"HUAWEICLOUD_SDK_AK": ACCESS_KEY, "HUAWEICLOUD_SDK_SK": SECRET_KEY, "HOME": "."},
        "environment",
        None,
    ),
    "chain: profile": ("", {"HOME": "."}, "profile basic of ~/.huaweicloud/credentials", None),
    "chain: machine": ("", {"HOME": "nowhere"}, "ECS metadata", 24 * HOUR),
}


@pytest.mark.parametrize("kind", KINDS)
def test_credential_works_and_states_origin_and_expiry(kind: str, home: Path) -> None:
    credentials, environ, origin, lifetime = KINDS[kind]
    if "HOME" in environ:
        environ = {**environ, "HOME": str(home / environ["HOME"])}

    async def check(rig: Rig) -> None:
        assert rig.left() is None
        assert await rig.exporter.poll_once()
        assert rig.identity.origin == origin.format(home=home)
        left = rig.left()
        assert left == (None if lifetime is None else pytest.approx(lifetime, abs=1))
        shown = rig.config_text + repr(rig.exporter.config) + repr(rig.identity) + repr(vars(rig.identity))
        for secret in (SECRET_KEY, PASSWORD, OIDC_TOKEN):
            assert secret not in shown

    stepped(home, credentials, check, environ=environ)


def test_given_temporary_keys_are_signed_with_their_token(home: Path) -> None:
    async def check(rig: Rig) -> None:
        assert await rig.exporter.poll_once()

    (home / "security").write_text(SECURITY_TOKEN)
    keys = KEYS.replace("}", ", security_token_file: security}")
    stepped(home, keys, check, simulator=simulated(security_token=SECURITY_TOKEN))


LIVES = {
    "oidc": (OIDC, "AssumeAgencyWithOIDC", 1000, 6 * HOUR, 6 * HOUR - 2400),
    "oidc of an hour": (OIDC, "AssumeAgencyWithOIDC", 100, HOUR, HOUR / 2),  # shorter than the margin allows
    "machine": (MACHINE, "GetSecurityKey", 200, 2 * HOUR, 2 * HOUR - 2400),
    "password": (USER, "KeystoneCreateUserTokenByPassword", 200, 2 * HOUR, 1.5 * HOUR),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", LIVES)
def test_many_polls_take_one_renewal_a_lifetime(home: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    credentials, operation, polls, lifetime, used = LIVES[kind]

    async def check(rig: Rig) -> None:
        rig.simulator.agency.lifetime = lifetime
        rig.schedule.start()
        shortest = lifetime
        for _ in range(polls):
            await asyncio.sleep(60)
            shortest = min(shortest, rig.left() or 0.0)
        assert rig.calls("ListWorkspaces") >= polls - 1
        assert rig.calls("ListWorkspaces", "auth") == 0
        lives = polls * 60 / used
        assert lives - 1 <= rig.calls(operation) <= lives + 1
        # What is about to be renewed is never nearer to its end than the margin (less the time to the next poll).
        assert shortest >= lifetime - used - 61
        reported = [line for line in caplog.messages if "valid until" in line]
        assert len(reported) == rig.calls(operation)
        assert " received, valid until " in reported[0]
        assert all(" renewed, valid until " in line for line in reported[1:])

    stepped(home, credentials, check, simulator=simulated(token_lifetime=lifetime))


@pytest.mark.parametrize(
    ("credentials", "api", "what"),
    [
        (OIDC, "sts", f"p: temporary keys of OIDC agency {AGENCY_URN}"),
        (MACHINE, "metadata", "p: temporary keys of ECS metadata"),
        (USER, "iam", f"p: IAM tokens of user {USER_NAME}"),
    ],
    ids=["oidc", "machine", "password"],
)
def test_unrenewable_credential_is_used_until_it_expires(
    home: Path, credentials: str, api: str, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.agency.lifetime = HOUR
        rig.schedule.start()
        await asyncio.sleep(10)
        rig.simulator.faults.add(Fault(match={"api": api}, status=500))
        await asyncio.sleep(HOUR - 60)
        assert rig.good()
        assert rig.left() == pytest.approx(50, abs=1)
        warnings = [line for line in caplog.messages if f"{what} could not be renewed and are used until" in line]
        assert 5 <= len(warnings) <= 7  # every five minutes of the second half
        assert "2026-01-02T04:04:05Z" in warnings[0]
        await asyncio.sleep(180)
        assert not rig.good()
        left = rig.left()
        assert left is not None
        assert left < 0  # an alert on this gauge fires
        rig.simulator.faults.clear()
        await asyncio.sleep(120)
        assert rig.good()
        assert (rig.left() or 0) > HOUR / 2

    stepped(home, credentials, check, simulator=simulated(token_lifetime=HOUR))


@pytest.mark.parametrize("credentials", [OIDC, MACHINE, USER], ids=["oidc", "machine", "password"])
def test_revoked_token_is_replaced_after_five_minutes(
    home: Path, credentials: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(rig: Rig) -> None:
        def revoke() -> None:
            rig.simulator.agency.revoke()
            rig.simulator.tokens.revoke_all()

        rig.schedule.start()
        await asyncio.sleep(310)
        first = rig.left()
        assert first is not None
        revoke()
        await asyncio.sleep(60)
        assert rig.good()
        assert rig.calls("ListWorkspaces", "auth") == 1
        assert (rig.left() or 0) > first
        assert len([line for line in caplog.messages if "renewed, valid until" in line]) == 1
        revoke()
        await asyncio.sleep(60)
        assert not rig.good()  # it is too new to have been refused for its age
        await asyncio.sleep(HOUR / 2)
        assert rig.good()
        assert len([line for line in caplog.messages if "renewed, valid until" in line]) == 2

    stepped(home, credentials, check)


ISSUED_BY = {"oidc": (OIDC, "AssumeAgencyWithOIDC"), "machine": (MACHINE, "GetSecurityKey"), "password": (USER, TOKEN)}


@pytest.mark.parametrize(("credentials", "operation"), ISSUED_BY.values(), ids=list(ISSUED_BY))
def test_a_young_credential_that_is_refused_is_replaced_once(home: Path, credentials: str, operation: str) -> None:
    async def check(rig: Rig) -> None:
        rig.schedule.start()
        await asyncio.sleep(70)
        assert rig.calls(operation) == 1
        rig.simulator.agency.revoke()
        rig.simulator.tokens.revoke_all()
        await asyncio.sleep(60)
        assert rig.good()
        assert rig.errors() == {}
        assert (rig.calls(operation), rig.calls("ListWorkspaces", "auth")) == (2, 1)

    stepped(home, credentials, check)


@pytest.mark.parametrize(("credentials", "operation"), ISSUED_BY.values(), ids=list(ISSUED_BY))
def test_a_cloud_that_refuses_all_gets_few_requests(home: Path, credentials: str, operation: str) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(Fault({"operation": "ListWorkspaces"}, kind="expired_credentials"))
        rig.schedule.start()
        await asyncio.sleep(HOUR / 2)
        assert rig.calls("ListWorkspaces", "auth") > 30
        assert rig.calls(operation) == 1 + 6  # the first, and one in five minutes
        assert rig.errors() == {"auth": 30}

    stepped(home, credentials, check)


def test_id_token_is_read_again_at_each_refresh(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(rig: Rig) -> None:
        rig.schedule.start()
        await asyncio.sleep(60)
        rig.simulator.agency.oidc_token = "planted-second-token"
        await asyncio.sleep(HOUR - 120)
        assert rig.good()
        refused = rig.calls("AssumeAgencyWithOIDC", "auth")
        assert 5 <= refused <= 7  # every five minutes of the second half, not at every poll
        assert any("the ID token is invalid or has expired" in line for line in caplog.messages)
        (home / "id-token").write_text("planted-second-token")
        await asyncio.sleep(300)
        assert rig.good()
        assert rig.calls("AssumeAgencyWithOIDC", "auth") == refused
        assert rig.calls("AssumeAgencyWithOIDC") == 2
        (home / "id-token").unlink()
        await asyncio.sleep(HOUR)
        assert not rig.good()
        assert any("id-token cannot be used: No such file" in line for line in caplog.messages)
        assert "planted-second-token" not in "".join(caplog.messages)

    stepped(home, OIDC, check)


@pytest.mark.parametrize(
    ("status", "outcome", "pause"),
    [(400, "client", 300), (403, "auth", 300), (500, "server", 30), (429, "throttled", 30)],
)
@pytest.mark.parametrize("credentials", [OIDC, USER], ids=["oidc", "password"])
def test_what_fails_is_not_asked_for_by_every_call(
    home: Path, credentials: str, status: int, outcome: str, pause: float
) -> None:
    operation = "AssumeAgencyWithOIDC" if credentials == OIDC else "KeystoneCreateUserTokenByPassword"

    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(Fault(match={"operation": operation}, status=status, body={}))
        began = time.time()
        while time.time() < began + pause - 5:
            assert not await rig.exporter.poll_once()
            await asyncio.sleep(2)
        assert rig.calls(operation, outcome) == 1
        assert set(rig.errors()) == {"auth" if outcome == "client" else outcome}
        rig.simulator.faults.clear()
        await asyncio.sleep(10)
        assert await rig.exporter.poll_once()
        assert rig.calls(operation, outcome) == 1

    stepped(home, credentials, check)


@pytest.mark.parametrize("credentials", [OIDC, MACHINE, USER], ids=["oidc", "machine", "password"])
def test_nothing_is_signed_with_what_ended_while_a_call_waited(home: Path, credentials: str) -> None:
    async def check(rig: Rig) -> None:
        loop = asyncio.get_running_loop()
        mark = await rig.identity.credential.prepare(loop.time() + 20)
        call = Call(operation="ListWorkspaces", path="/")
        dialect = HuaweiDialect("modelarts", rig.identity)
        assert dialect.sign(call, "host").headers
        await asyncio.sleep(HOUR)
        with pytest.raises(AccessDenied, match="the temporary credentials ended at 2026-01-02T04:04:05") as caught:
            dialect.sign(call, "host")
        assert dialect.refused(caught.value, mark)  # so that the call is prepared again
        assert rig.left() == pytest.approx(0, abs=1)  # the gauge stays, and an alert on it fires
        await rig.identity.credential.prepare(loop.time() + 20)
        assert dialect.sign(call, "host").headers

    simulator = simulated(token_lifetime=HOUR)
    simulator.agency.lifetime = HOUR
    stepped(home, credentials, check, simulator=simulator)


def test_wrong_clock_is_reported_with_both_times(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(rig: Rig) -> None:
        rig.schedule.start()
        await asyncio.sleep(HOUR - 1)
        (line, *_) = [line for line in caplog.messages if "poll failed" in line]
        assert line.startswith(
            "poll failed: ListWorkspaces: HTTP 401 APIGW.0301 the clock of this machine is off by 16 minutes: "
            "here it is 2026-01-02T03:04:0"
        )
        assert "there it is 2026-01-02T03:20:0" in line
        # Other keys would be refused just so: no more of them than their lifetime asks for.
        assert rig.calls("AssumeAgencyWithOIDC") == 2

    stepped(home, OIDC, check, simulator=simulated(clock=lambda: time.time() + 960))
