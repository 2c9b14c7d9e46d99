"""The life of every kind of credentials: start, renewal, end, revocation; over loopback HTTP, in stepped time."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.credentials_rig import Rig, rigged
from tests.support.clock import START, run_stepped
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.huawei_modelarts.signing import HuaweiDialect
from trainfleet_exporter.simulator import Simulator
from trainfleet_exporter.simulator.faults import Fault
from trainfleet_exporter.simulator.modelarts.agency import AGENCY_URN, OIDC_TOKEN, PROVIDER_URN, TemporaryKey
from trainfleet_exporter.simulator.modelarts.catalog import (
    ACCESS_KEY,
    DOMAIN_NAME,
    PASSWORD,
    PROJECT_ID,
    SECRET_KEY,
    USER_NAME,
)
from trainfleet_exporter.transport import Call

HOUR = 3600.0
SECURITY_TOKEN = "planted-security-token"
KEYS = f"credentials: {{access_key: {ACCESS_KEY}, secret_key: {SECRET_KEY}}}"
USER = f"credentials: {{username: {USER_NAME}, password: {PASSWORD}, domain_name: {DOMAIN_NAME}}}"
OIDC = f'credentials: {{oidc: {{provider_urn: "{PROVIDER_URN}", agency_urn: "{AGENCY_URN}", token_file: id-token}}}}'
MACHINE = "credentials: {ecs_agency: true}"
TOKEN = "KeystoneCreateUserTokenByPassword"
PROFILE = "credentials: {profile: team}"

Check = Callable[[Rig], Awaitable[None]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with a file of profiles, and an ID token next to the config."""
    folder = tmp_path / ".huaweicloud"
    folder.mkdir()
    keys = f"ak = {ACCESS_KEY}\nsk = {SECRET_KEY}\n"
    text = f"[basic]\n{keys}[team]\n{keys}project_id = {PROJECT_ID}\n"
    (folder / "credentials").write_text(text, encoding="utf-8")
    (tmp_path / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    (tmp_path / "id-token").write_text(OIDC_TOKEN + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def _no_secret_in_any_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    issued: list[Simulator] = SIMULATORS
    issued.clear()
    with caplog.at_level(logging.DEBUG):
        yield
    secrets = {SECRET_KEY, PASSWORD, OIDC_TOKEN, SECURITY_TOKEN}
    for simulator in issued:
        for key in simulator.agency.issued:
            secrets |= {key.access_key, key.secret_key, key.security_token}
    records = caplog.get_records("call")
    logged = "\n".join(f"{record.getMessage()} {record.__dict__.get('fields', '')}" for record in records)
    assert logged
    assert not [secret for secret in secrets if secret in logged]
    assert "MIISIM" not in logged  # what every IAM token of the simulator begins with


SIMULATORS: list[Simulator] = []


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
def test_it_opens_the_cloud_says_where_it_comes_from_and_when_it_ends(kind: str, home: Path) -> None:
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


def test_temporary_keys_that_are_given_are_signed_with_their_token(home: Path) -> None:
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
def test_what_cannot_be_renewed_is_used_to_its_end_and_had_again_after_it(
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


FILES = "credentials: {access_key_file: access, secret_key_file: secret, security_token_file: token}"


async def polled(rig: Rig, seconds: int = 10) -> bool:
    """Whether every poll of so many seconds, one a second, succeeded."""
    good = [bool(await rig.exporter.poll_once())]
    for _ in range(seconds):
        await asyncio.sleep(1)
        good.append(bool(await rig.exporter.poll_once()))
    return all(good)


def test_files_that_rotate_one_after_the_other_are_taken_together(home: Path) -> None:
    simulator = simulated()
    first, second, third = (simulator.agency.issue(START, 24 * HOUR, "sts") for _ in range(3))
    texts = {"access": "access_key", "secret": "secret_key", "token": "security_token"}

    def put(key: TemporaryKey, *parts: str) -> None:
        for part in parts:
            (home / part).write_text(getattr(key, texts[part]))

    async def check(rig: Rig) -> None:
        assert await polled(rig)
        for part in texts:
            put(second, part)
            assert await polled(rig)  # half a rotation changes nothing
        simulator.agency.revoke(first.access_key)
        assert await polled(rig)
        simulator.agency.revoke(second.access_key)  # at once: what is refused is not waited for
        put(third, *texts)
        assert await polled(rig)
        assert rig.calls("ListWorkspaces", "auth") == 1
        assert rig.identity.origin == ", ".join(f"file {home / part}" for part in texts)

    put(first, *texts)
    stepped(home, FILES, check, simulator=simulator)


def test_a_profile_is_followed_and_half_a_file_is_not_taken(home: Path) -> None:
    simulator = simulated()
    first, second = (simulator.agency.issue(START, 24 * HOUR, "sts") for _ in range(2))
    path = home / ".huaweicloud" / "credentials"

    def text(key: TemporaryKey) -> str:
        return f"[team]\nak = {key.access_key}\nsecurity_token = {key.security_token}\nsk = {key.secret_key}\n"

    async def check(rig: Rig) -> None:
        assert await polled(rig)
        whole = text(second)
        path.write_text(whole[: whole.index("sk =")])
        assert await polled(rig, 30)
        path.write_text(whole)
        assert await polled(rig)
        simulator.agency.revoke(first.access_key)
        assert await polled(rig)
        assert rig.calls("ListWorkspaces", "auth") == 0

    path.write_text(text(first))
    stepped(home, PROFILE, check, simulator=simulator, environ={"HOME": str(home)})


def test_missing_profile_is_reported_after_a_while(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(rig: Rig) -> None:
        assert await polled(rig)
        (home / ".huaweicloud" / "credentials").unlink()
        assert await polled(rig, 50)
        assert not await polled(rig, 30)
        reported = (
            "poll failed: ListWorkspaces: the file ~/.huaweicloud/credentials cannot be used: No such file or directory"
        )
        assert reported in caplog.messages

    stepped(home, PROFILE, check, environ={"HOME": str(home)})


def test_a_metadata_service_without_sessions_is_asked_without_one(home: Path) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.agency.metadata_tokens = False
        assert await rig.exporter.poll_once()
        assert rig.calls("GetMetadataToken", "client") == 1
        assert rig.calls("GetSecurityKey") == 1

    stepped(home, MACHINE, check)


@pytest.mark.parametrize("status", [405, 503])
def test_and_so_is_one_that_says_so_in_another_way(home: Path, status: int) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(Fault(match={"operation": "GetMetadataToken"}, status=status, body=""))
        rig.simulator.agency.metadata_tokens = False
        assert await rig.exporter.poll_once()
        assert rig.calls("GetMetadataToken", "client") == 1  # once: it is an answer, no failure

    stepped(home, MACHINE, check)


ENDED = {"access": "a", "secret": "b", "securitytoken": "c", "expires_at": "2026-01-02T03:04:04Z"}
AMISS: dict[str, tuple[Fault, str]] = {
    "no leave": (Fault({"operation": "GetMetadataToken"}, 403, ""), "GetMetadataToken: HTTP 403 access denied"),
    "no session": (
        Fault({"operation": "GetMetadataToken"}, 200, "a\nb"),
        "GetMetadataToken: HTTP 200 SIMULATOR: the answer is not a token",
    ),
    "no luck": (Fault({"operation": "GetSecurityKey"}, 500, ""), "GetSecurityKey: HTTP 500 the service failed"),
    "no JSON": (Fault({"operation": "GetSecurityKey"}, 200, "<html>"), "the answer is not JSON but 6 bytes"),
    "half a key": (
        Fault({"operation": "GetSecurityKey"}, 200, {"credential": {"access": "a"}}),
        "GetSecurityKey: the answer has no whole temporary key, or does not say when it ends",
    ),
    "an old key": (
        Fault({"operation": "GetSecurityKey"}, 200, {"credential": ENDED}),
        "the temporary key that was issued ended at 2026-01-02T03:04:04Z, and here it is 2026-01-02T03:04:0",
    ),
}


@pytest.mark.parametrize("case", AMISS)
def test_bad_answer_of_the_metadata_service_is_reported(
    case: str, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fault, reported = AMISS[case]

    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(fault)
        assert not await rig.exporter.poll_once()
        (line,) = [line for line in caplog.messages if "poll failed" in line]
        assert reported in re.sub(r"127\.0\.0\.1:\d+", "SIMULATOR", line)

    stepped(home, MACHINE, check)


def test_a_metadata_service_that_hangs_takes_three_seconds(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(Fault(match={"api": "metadata"}, delay=100))
        began = time.time()
        assert not await rig.exporter.poll_once()
        assert time.time() - began == pytest.approx(3, abs=0.1)
        assert any("no whole answer after 3.0 s" in line for line in caplog.messages)

    stepped(home, MACHINE, check)


def test_a_chain_whose_metadata_service_was_slow_once_is_not_blind_for_minutes(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(Fault(match={"api": "metadata"}, delay=100))
        assert not await rig.exporter.poll_once()
        assert rig.errors() == {"timeout": 1}
        (line,) = [line for line in caplog.messages if "poll failed" in line]
        assert "no credentials are configured, and none were found: the environment sets no " in line
        assert "ECS metadata: " in line
        assert "no whole answer after 3.0 s" in line
        asked = rig.calls("GetMetadataToken", "timeout")
        assert not await rig.exporter.poll_once()  # no call is repeated at once, and every caller gets the error
        assert rig.errors() == {"timeout": 2}
        rig.simulator.faults.clear()
        await asyncio.sleep(30)
        assert await rig.exporter.poll_once()
        assert rig.calls("GetMetadataToken", "timeout") == asked

    stepped(home, "", check, environ={"HOME": str(home / "nowhere")})


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


def test_unknown_project_is_requested_every_five_minutes(home: Path) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.faults.add(Fault(match={"operation": "KeystoneListProjects"}, status=403, body={}))
        for _ in range(29):
            assert not await rig.exporter.poll_once()
            await asyncio.sleep(10)
        assert rig.calls("KeystoneListProjects", "auth") == 1
        assert rig.errors() == {"auth": 29}
        rig.simulator.faults.clear()
        await asyncio.sleep(10)
        assert await rig.exporter.poll_once()

    stepped(home, KEYS, check, more="")


def test_a_project_is_asked_for_at_once_where_the_keys_have_changed(home: Path) -> None:
    async def check(rig: Rig) -> None:
        assert not await rig.exporter.poll_once()
        (home / "secret").write_text(SECRET_KEY)
        (home / "access").write_text(ACCESS_KEY)
        await asyncio.sleep(3)
        assert not await rig.exporter.poll_once()  # they may be about to change
        await asyncio.sleep(3)
        assert await rig.exporter.poll_once()
        assert rig.calls("KeystoneListProjects") == 1

    (home / "secret").write_text("planted-wrong")
    (home / "access").write_text(ACCESS_KEY)
    stepped(home, "credentials: {access_key_file: access, secret_key_file: secret}", check, more="")


def test_metadata_is_never_asked_through_a_proxy(home: Path) -> None:
    async def check(rig: Rig) -> None:
        assert not await rig.exporter.poll_once()  # ModelArts is, and nothing listens there
        assert rig.calls("GetSecurityKey") == 1

    stepped(home, MACHINE, check, more=f'project_id: {PROJECT_ID}\n    http: {{proxy_url: "http://127.0.0.1:9"}}')


def test_a_chain_without_any_link_names_them_all_and_asks_no_more_than_every_five_minutes(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(rig: Rig) -> None:
        rig.simulator.agency.name = None
        rig.schedule.start()
        await asyncio.sleep(30)
        (line,) = {line for line in caplog.messages if "no credentials" in line}
        assert line == (
            "poll failed: ListWorkspaces: no credentials are configured, and none were found: "
            "the environment sets no HUAWEICLOUD_OIDC_PROVIDER_URN; the environment sets no HUAWEICLOUD_SDK_AK; "
            "the file ~/.huaweicloud/credentials cannot be used: No such file or directory; "
            "ECS metadata: this server has no agency"
        )
        await asyncio.sleep(HOUR)
        assert 12 <= rig.calls("GetSecurityKey", "client") <= 13
        assert rig.left() is None
        rig.simulator.agency.name = "now-it-has-one"
        await asyncio.sleep(700)
        assert rig.good()
        # The chain stays with the link that answered: what fails now is that link.
        rig.simulator.agency.revoke()
        rig.simulator.agency.name = None
        before = len(caplog.messages)
        await asyncio.sleep(100)
        assert not rig.good()
        assert "poll failed: GetSecurityKey: HTTP 404 this server has no agency" in caplog.messages[before:]
        assert not any("none were found" in line for line in caplog.messages[before:])

    stepped(home, "", check, environ={"HOME": str(home / "nowhere")})


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


@pytest.mark.parametrize(
    ("credentials", "environ", "asked"),
    [
        (KEYS, {}, 1),
        (USER, {}, 0),  # the token has it
        (PROFILE, {"HOME": "."}, 0),
        ("", {"HUAWEICLOUD_SDK_AK": ACCESS_KEY, "HUAWEICLOUD_SDK_SK": SECRET_KEY}, 1),
        (
            "",
            {
                "HUAWEICLOUD_SDK_AK": ACCESS_KEY,
                "HUAWEICLOUD_SDK_SK": SECRET_KEY,
                "HUAWEICLOUD_SDK_PROJECT_ID": PROJECT_ID,
            },
            0,
        ),
        (KEYS, {"HUAWEICLOUD_SDK_PROJECT_ID": "of-other-credentials"}, 1),
    ],
    ids=["keys", "password", "profile", "variables", "variables with a project", "a project of other credentials"],
)
def test_missing_project_comes_from_credentials_or_iam(
    home: Path, credentials: str, environ: dict[str, str], asked: int
) -> None:
    if "HOME" in environ:
        environ = {"HOME": str(home)}

    async def check(rig: Rig) -> None:
        for _ in range(3):
            assert await rig.exporter.poll_once()
        assert rig.calls("KeystoneListProjects") == asked
        (provider,) = rig.exporter.providers
        assert provider.facts.project_id == PROJECT_ID
        text = (await rig.exporter.text()).decode()
        (info,) = [line for line in text.splitlines() if line.startswith("trainfleet_provider_info{")]
        assert f'project_id="{PROJECT_ID}"' in info

    stepped(home, credentials, check, environ=environ, more="")


def test_start_follows_from_the_endpoints(home: Path) -> None:
    async def check(rig: Rig) -> None:
        (provider,) = rig.exporter.providers
        assert set(provider.endpoints) == {"modelarts", "iam", "sts"}
        assert time.time() >= START

    stepped(home, OIDC, check)
