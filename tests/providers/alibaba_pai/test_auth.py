"""Odd answers of STS, metadata services and credentials URIs, and odd files: errors in words, and never keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.credentials.rig import ask
from tests.support.clock import START, run_stepped
from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied, CloudError, Throttled
from trainfleet_exporter.providers.alibaba_pai.auth import CLI_FILE, CREDENTIALS, SDK_FILE, profile_source
from trainfleet_exporter.providers.alibaba_pai.signing import judge
from trainfleet_exporter.providers.credentials import Issued, Keys, KeysUri, MachineRole, ProfileFile
from trainfleet_exporter.transport import HttpAnswer
from trainfleet_exporter.transport.json_fields import iso_time

GOOD = {
    "Code": "Success",
    "AccessKeyId": "STS.x",
    "AccessKeySecret": "hunter2",
    "SecurityToken": "hunter3",
    "Expiration": iso_time(START + 3600),
}
_NOTHING: tuple[object, ...] = ("", None, [])
ROLES = "/latest/meta-data/ram/security-credentials/"


def machine(answers: dict[str, Any], name: str = "") -> Issued[Keys] | str:
    """What a metadata service with these answers, by their path, comes to: keys, or an error."""

    def answer(request: httpx.Request) -> httpx.Response:
        given = answers[request.url.path]
        return httpx.Response(200, json=given) if isinstance(given, dict) else httpx.Response(200, text=given)

    uri = KeysUri("http://metadata.test", Secret("/keys"))
    return ask(uri if "/keys" in answers else MachineRole(name), CREDENTIALS, answer)


def test_a_good_answer_is_keys_until_their_end() -> None:
    keys = Issued(Keys("STS.x", "hunter2", "hunter3"), START + 3600)
    answers = {"/latest/api/token": "token\n", ROLES: "role\n", f"{ROLES}role": GOOD}
    assert machine(answers) == machine(answers, "role") == machine({"/keys": GOOD}) == keys


_NO_TOKEN = "PutToken: HTTP 200 metadata.test: the answer is not a token"
_NO_ROLE = "ListRamRoles: HTTP 200 metadata.test: the answer is not the name of a role"


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        ({"/latest/api/token": ""}, _NO_TOKEN),
        ({"/latest/api/token": "two words"}, _NO_TOKEN),
        ({"/latest/api/token": "<html>"}, None),
        ({"/latest/api/token": "t", ROLES: ""}, _NO_ROLE),
        ({"/latest/api/token": "t", ROLES: "one\ntwo"}, _NO_ROLE),
        ({"/latest/api/token": "t", ROLES: "../../x"}, _NO_ROLE),
        ({"/keys": {}}, "GetCredentialsUri: no keys, but no code"),
        ({"/keys": GOOD | {"Code": "Failed\n"}}, "GetCredentialsUri: no keys, but Failed "),
        ({"/keys": GOOD | {"Code": "STS.planted0secret1key"}}, "GetCredentialsUri: no keys, but another code"),
        ({"/keys": "[]"}, "GetCredentialsUri: HTTP 200 metadata.test: the answer is JSON but no object"),
        (
            {"/keys": "hunter2"},
            "GetCredentialsUri: HTTP 200 metadata.test: the answer is not JSON but 7 bytes of text/plain",
        ),
        *(
            (
                {"/keys": {**GOOD, key: value}},
                "GetCredentialsUri: the answer lacks keys, or does not say when they end",
            )
            for key in ("AccessKeyId", "AccessKeySecret", "SecurityToken", "Expiration")
            for value in _NOTHING
        ),
        (
            {"/keys": GOOD | {"Expiration": "soon"}},
            "GetCredentialsUri: the answer lacks keys, or does not say when they end",
        ),
    ],
)
def test_odd_answer_is_reported_without_its_content(answers: dict[str, Any], reported: str | None) -> None:
    if reported is None:
        answers = answers | {ROLES: "role", f"{ROLES}role": GOOD}
        assert isinstance(machine(answers), Issued)  # any word will do for a token: it is handed back as it is
        return
    assert machine(answers) == reported


@given(content=st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("latin-1"))), is_json=st.booleans())
def test_a_file_of_profiles_is_read_or_denied(
    tmp_path_factory: pytest.TempPathFactory, content: str, is_json: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "profiles"
    path.write_text(content, encoding="utf-8", errors="replace")
    with pytest.raises(AccessDenied, match=r"^shown: "):
        profile_source(ProfileFile(path, "shown", CLI_FILE if is_json else SDK_FILE), "prod")


_VALUES = st.one_of(
    st.none(), st.text(max_size=5), st.integers(), st.lists(st.text(max_size=3)), st.sampled_from(["AK", "OIDC", "p"])
)
_NAMES = ("mode", "access_key_id", "access_key_secret", "ram_role_arn", "expired_seconds", "source_profile", "policy")
_MODES = st.sampled_from(["AK", "StsToken", "RamRoleArn", "ChainableRamRoleArn", "EcsRamRole", "OIDC"])


@given(st.lists(st.tuples(_MODES, st.dictionaries(st.sampled_from(_NAMES[1:]), _VALUES)), max_size=3))
def test_odd_profiles_are_read_or_denied(
    tmp_path_factory: pytest.TempPathFactory, profiles: list[tuple[str, dict[str, Any]]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "config.json"
    rows = [{"name": "p", "mode": mode, **fields} for mode, fields in profiles]
    path.write_text(json.dumps({"current": "p", "profiles": rows}))
    reported = ""
    try:
        profile_source(ProfileFile(path, "shown", CLI_FILE))
    except AccessDenied as error:
        reported = str(error)
    assert reported == "" or reported.startswith("shown: ")


@pytest.mark.parametrize("code", ["InvalidTimeStamp.Expired", "InvalidTimestamp", "IllegalTimestamp"])
@pytest.mark.parametrize(
    ("date", "reported"),
    [
        (
            "Fri, 02 Jan 2026 03:20:05 GMT",
            "is off by 16 minutes (behind): here it is 2026-01-02T03:04:05Z, there it is 2026-01-02T03:20:05Z",
        ),
        (
            "Fri, 02 Jan 2026 02:48:05 GMT",
            "is off by 16 minutes (ahead): here it is 2026-01-02T03:04:05Z, there it is 2026-01-02T02:48:05Z",
        ),
        (
            "Fri, 02 Jan 2026 03:04:05 GMT",
            "is off: here it is 2026-01-02T03:04:05Z, there it is 2026-01-02T03:04:05Z",
        ),
        ("yesterday", "is off: here it is 2026-01-02T03:04:05Z, there it is unknown"),
        (None, "is off: here it is 2026-01-02T03:04:05Z, there it is unknown"),
    ],
)
def test_wrong_clock_is_reported_with_the_services_time(code: str, date: str | None, reported: str) -> None:
    async def main() -> CloudError | None:
        headers = httpx.Headers({} if date is None else {"Date": date})
        return judge(HttpAnswer(400, headers, b"", {"Code": code, "Message": "hunter2", "RequestId": "r"}))

    error = run_stepped(main)
    assert isinstance(error, AccessDenied)
    assert error.message == f"the clock of this machine {reported}"


def test_metadata_429_gives_its_retry_after() -> None:
    error = CREDENTIALS.metadata.judge(HttpAnswer(429, {"retry-after": "7"}, b"", None))
    assert isinstance(error, Throttled)
    assert (error.status, error.retry_after) == (429, 7.0)


@pytest.mark.parametrize("code", ["AuthenticationFail.NoPermission", "EntityNotExist.Role", "NoPermission"])
def test_what_sts_refuses_is_denied_access(code: str) -> None:
    for status in (400, 404):
        assert isinstance(judge(HttpAnswer(status, {}, b"", {"Code": code, "Message": "no"})), AccessDenied)


def test_the_path_of_a_profiles_token_stays_out_of_the_message(tmp_path: Path) -> None:
    role = {
        "ram_role_arn": "acs:ram::1:role/x",
        "oidc_provider_arn": "acs:ram::1:oidc-provider/y",
        "oidc_token_file": "hunter2",
    }
    (tmp_path / "config.json").write_text(json.dumps({"profiles": [{"name": "p", "mode": "OIDC", **role}]}))
    with pytest.raises(AccessDenied) as caught:
        profile_source(ProfileFile(tmp_path / "config.json", "shown", CLI_FILE), "p")
    assert str(caught.value) == 'shown: oidc_token_file of profile "p" cannot be used: No such file or directory'
