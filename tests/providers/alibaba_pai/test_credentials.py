"""Every kind of Alibaba credentials over real loopback HTTP, in stepped time: start, renew, revoke, expire.

What the log says, what the gauge shows, how many keys are asked for, and that no secret shows anywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.providers.alibaba_pai.credentials_rig import (
    HOUR,
    KEYS,
    KINDS,
    MINUTE,
    ROLE_ARN,
    Account,
    Kind,
    Stepped,
)
from tests.support.clock import START
from trainfleet_exporter.transport.json_fields import iso_time
from trainfleet_simulator import Simulator
from trainfleet_simulator.faults import Fault
from trainfleet_simulator.pai.sts import ECS_ROLE, OIDC_TOKEN
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET


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
        assert [line for line in account.log if line.startswith("credential ")] == [
            f"credential received provider=p credential={kind.log} expires={iso_time(first)}"
        ]
        await asyncio.sleep(START + kind.lifetime - 900 - 1 - time.time())
        assert await account.poll(3)
        assert account.gauge() == first
        await asyncio.sleep(2)
        assert await account.poll(3)
        second = int(time.time()) + kind.lifetime
        assert account.gauge() == second
        assert len(sts.issued) == 2
        facts = f"provider=p credential={kind.log} expires={iso_time(second)}"
        assert account.log[-1] == f"credential refreshed {facts}"

        await asyncio.sleep(6 * MINUTE)
        sts.revoke()
        assert await account.poll(3)  # the refused call itself is made again, with new keys
        assert len(sts.issued) == 3
        sts.revoke()
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
        assert "cannot refresh the credential" in account.log[-1]
        assert "token cannot be used: No such file or directory" in account.log[-1]

    stepped(KINDS["oidc"], steps)


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
        assert (
            f"the keys in the answer expired at {ended}, and the time here is {here}: check the clock of this machine"
            in account.log[-1]
        )
        assert account.calls["GetCredentialsUri ok"] == 1

    stepped(KINDS["chain: uri"], steps, ahead=-3 * HOUR)
