"""Sources of credentials: files and profiles, metadata services, chains, and where the project comes from."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.credentials_rig import (
    HOUR,
    KEYS,
    MACHINE,
    OIDC,
    PROFILE,
    USER,
    Rig,
    simulated,
    stepped,
)
from tests.support.clock import START
from trainfleet_simulator.faults import Fault
from trainfleet_simulator.keys import Key
from trainfleet_simulator.modelarts.catalog import (
    ACCESS_KEY,
    PROJECT_ID,
    SECRET_KEY,
)

pytestmark = pytest.mark.usefixtures("no_secret_in_any_log")

FILES = "credentials: {access_key_file: access, secret_key_file: secret, security_token_file: token}"


async def polled(rig: Rig, seconds: int = 10) -> bool:
    """Whether every poll of so many seconds, one a second, succeeded."""
    good = [bool(await rig.exporter.poll_once())]
    for _ in range(seconds):
        await asyncio.sleep(1)
        good.append(bool(await rig.exporter.poll_once()))
    return all(good)


def test_files_that_rotate_in_turn_are_read_together(home: Path) -> None:
    simulator = simulated()
    first, second, third = (simulator.agency.issue(START, 24 * HOUR, "sts") for _ in range(3))
    texts = {"access": "access_key_id", "secret": "access_key_secret", "token": "security_token"}

    def put(key: Key, *parts: str) -> None:
        for part in parts:
            (home / part).write_text(getattr(key, texts[part]))

    async def check(rig: Rig) -> None:
        assert await polled(rig)
        for part in texts:
            put(second, part)
            assert await polled(rig)  # half a rotation changes nothing
        simulator.agency.revoke(first.access_key_id)
        assert await polled(rig)
        simulator.agency.revoke(second.access_key_id)  # at once: what is refused is not waited for
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

    def text(key: Key) -> str:
        return (
            f"[team]\nak = {key.access_key_id}\nsecurity_token = {key.security_token}\nsk = {key.access_key_secret}\n"
        )

    async def check(rig: Rig) -> None:
        assert await polled(rig)
        whole = text(second)
        path.write_text(whole[: whole.index("sk =")])
        assert await polled(rig, 30)
        path.write_text(whole)
        assert await polled(rig)
        simulator.agency.revoke(first.access_key_id)
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


def test_metadata_service_without_sessions_needs_no_token(home: Path) -> None:
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


def test_chain_retries_soon_after_a_slow_metadata_service(home: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_changed_keys_request_the_project_at_once(home: Path) -> None:
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


def test_empty_chain_names_all_links_and_pauses_five_minutes(home: Path, caplog: pytest.LogCaptureFixture) -> None:
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
