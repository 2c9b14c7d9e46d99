"""How clouds find keys: the vendor's order, broken profiles by name, every form of the section, metadata in trouble."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest

from tests.providers.alibaba_pai import chain as alibaba
from tests.providers.huawei_modelarts import chain as huawei
from tests.providers.key_rig import Answer, Env
from tests.support.hang import at_most
from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers import key_search
from trainfleet_exporter.providers.huawei_modelarts.api import Token
from trainfleet_exporter.providers.values import utc_time

CHAINS = {"alibaba": alibaba.CHAIN, "huawei": huawei.CHAIN}
CLOUDS = pytest.mark.parametrize("cloud", CHAINS)


def each(table: str) -> pytest.MarkDecorator:
    """Run a test with each row of a table of each cloud."""
    rows = [(cloud, name) for cloud, chain in CHAINS.items() for name in getattr(chain, table)]
    return pytest.mark.parametrize(("cloud", "name"), rows)


def hang(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("hangs")


@each("environments")
def test_the_first_source_that_says_something_is_used(cloud: str, name: str, tmp_path: Path) -> None:
    given = CHAINS[cloud].environments[name]
    found = CHAINS[cloud].use(given, tmp_path)
    assert [words for words in given.refusal if words not in found.refusal] == []
    assert (found.keys is None) == bool(given.refusal)
    assert found.origin.startswith(given.found)
    assert found.keys is None or (found.at_start and found.origin.startswith(found.at_start))
    assert found.calls == given.calls
    assert found.keys is None or found.keys.project_id == given.project
    assert "planted" not in found.refusal + found.origin


@each("broken")
def test_broken_profile_never_becomes_the_machines_role(cloud: str, name: str, tmp_path: Path) -> None:
    given = CHAINS[cloud].broken[name]
    found = CHAINS[cloud].use(given, tmp_path)
    assert found.keys is None
    assert [words for words in (*given.refusal, "~/.") if words not in found.refusal] == []
    assert found.calls == []
    assert "planted" not in found.refusal


@each("sections")
def test_each_form_of_the_section_works(cloud: str, name: str, tmp_path: Path) -> None:
    section, origin, calls = CHAINS[cloud].sections[name]
    found = CHAINS[cloud].use(Env(files=dict(CHAINS[cloud].files)), tmp_path, section)
    assert (found.origin, found.calls) == (origin, calls)


@each("bad_answers")
def test_machine_that_gives_no_keys_says_why(cloud: str, name: str, tmp_path: Path) -> None:
    chain = CHAINS[cloud]
    bad, words = chain.bad_answers[name]
    found = chain.use(Env(), tmp_path, chain.machine, lambda r: chain.answer(r) if r.method == "PUT" else bad(r))
    assert words in found.refusal


@CLOUDS
def test_old_metadata_service_is_asked_without_a_session(cloud: str, tmp_path: Path) -> None:
    chain = CHAINS[cloud]
    for status in (403, 404, 405, 503):
        old = httpx.Response(status)
        found = chain.use(Env(), tmp_path, None, lambda r, old=old: old if r.method == "PUT" else chain.answer(r))  # type: ignore[misc]
        assert found.calls == chain.environments["nothing"].calls
        assert found.keys is not None


@CLOUDS
@pytest.mark.parametrize("without", [hang, lambda request: httpx.Response(401)])
def test_metadata_that_gives_no_token_names_the_hop_limit(cloud: str, without: Answer, tmp_path: Path) -> None:
    found = CHAINS[cloud].use(Env(), tmp_path, answer=lambda r: (hang if r.method == "PUT" else without)(r))
    assert "hop limit of the metadata service must be 2 or more" in found.refusal
    assert found.calls == CHAINS[cloud].environments["nothing"].calls[:2]


@pytest.mark.parametrize(
    ("cloud", "name"), [("alibaba", alibaba.CLI), ("alibaba", alibaba.SDK), ("huawei", huawei.FILE)]
)
def test_profile_that_is_a_named_pipe_is_refused(cloud: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir()
    os.mkfifo(tmp_path / name)
    with at_most(20):
        found = CHAINS[cloud].use(Env(), tmp_path)
    assert f"~/{name} cannot be used: it is not a regular file" in found.refusal
    assert found.calls == []


@CLOUDS
def test_home_of_another_user_has_no_profiles(cloud: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object, **__: object) -> object:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(key_search, "read_regular_file", refuse)
    assert CHAINS[cloud].use(Env(), tmp_path).origin.startswith("ECS metadata")


def test_metadata_without_tokens_can_be_disabled(tmp_path: Path) -> None:
    given = Env(env={"ALIBABA_CLOUD_IMDSV1_DISABLED": "true"})
    found = alibaba.CHAIN.use(given, tmp_path, answer=lambda request: httpx.Response(404))
    assert (found.keys, found.calls) == (None, ["PutToken"])
    assert "PutToken: HTTP 404" in found.refusal


def test_requests_of_roles_say_role_session_and_external_id(tmp_path: Path) -> None:
    requests: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return alibaba.answer(request)

    section = alibaba.SECTIONS["role"][0].model_copy(update={"security_token": Secret("planted-t")})
    alibaba.CHAIN.use(Env(), tmp_path, section, note)
    assert requests[0].headers["x-acs-security-token"] == "planted-t"
    assert dict(requests[0].url.params) == {
        "RoleArn": alibaba.ROLE,
        "RoleSessionName": "trainfleet-exporter",
        "DurationSeconds": "3600",
        "ExternalId": "planted-x",
    }
    assert "Credential=a," in requests[0].headers["authorization"]
    asked_at = utc_time(requests[0].headers["x-acs-date"]) or 0.0
    alibaba.CHAIN.use(Env(), tmp_path, alibaba.SECTIONS["oidc"][0], note, ahead=3600.0)
    assert (utc_time(requests[1].headers["x-acs-date"]) or 0.0) - asked_at == pytest.approx(3600, abs=5)
    assert "authorization" not in requests[1].headers
    assert parse_qs(requests[1].content.decode())["OIDCToken"] == ["planted-token"]


@pytest.mark.parametrize("code", ["InvalidAccessKeyId.NotFound", "AuthenticationFail.NoPermission"])
def test_refusal_of_sts_is_about_access_whatever_the_status(code: str, tmp_path: Path) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(400, json={"Code": code, "Message": "no"})

    found = alibaba.CHAIN.use(Env(), tmp_path, alibaba.SECTIONS["role"][0], refuse)
    assert found.refusal == f"AssumeRole: HTTP 400 {code} no"


def test_password_becomes_a_token_of_the_project(tmp_path: Path) -> None:
    requests: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return huawei.answer(request)

    found = huawei.CHAIN.use(Env(), tmp_path, huawei.USER, note)
    assert isinstance(found.keys, Token)
    assert (found.keys.security_token, found.keys.project_id) == ("planted-token", "of-the-token")
    asked = json.loads(requests[0].content)["auth"]
    assert asked["scope"] == {"project": {"name": "cn-north-4"}}
    user = {"name": "u", "password": "planted-password", "domain": {"name": "d"}}
    assert asked["identity"] == {"methods": ["password"], "password": {"user": user}}
    session = {"HUAWEICLOUD_OIDC_SESSION_NAME": "mine", "HUAWEICLOUD_OIDC_POLICY_IDS": "a, b"}
    huawei.CHAIN.use(Env(env=huawei.OIDC | session), tmp_path, None, note)
    asked = json.loads(requests[1].content)
    assert (asked["id_token"], asked["agency_session_name"]) == ("planted-id-token", "mine")
    assert (asked["policy_ids"], asked["duration_seconds"]) == (["a", "b"], 3600)
    assert not {"authorization", "x-auth-token"} & set(requests[1].headers)
