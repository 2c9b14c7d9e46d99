"""Credentials of Huawei Cloud: environments in the vendor's documented order, and broken profiles by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.providers.key_rig import Found, find
from tests.support.hang import at_most
from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers.huawei_modelarts.api import Token, public_endpoint
from trainfleet_exporter.providers.huawei_modelarts.credentials import Credentials, Oidc, load

ENV = {"HUAWEICLOUD_SDK_AK": "env-ak", "HUAWEICLOUD_SDK_SK": "planted-sk"}
OIDC = {
    "HUAWEICLOUD_OIDC_PROVIDER_URN": "iam::1:oidcProvider:p",
    "HUAWEICLOUD_OIDC_AGENCY_URN": "iam::1:agency:a",
    "HUAWEICLOUD_OIDC_TOKEN_FILE": "{home}/token",
}
AGENCY = "OIDC agency iam::1:agency:a"
PROJECT = {"HUAWEICLOUD_SDK_PROJECT_ID": "0123456789abcdef0123456789abcdef"}
FILE = ".huaweicloud/credentials"
KEYS = "ak = file-ak\nsk = planted-sk\n"
BASIC = {FILE: f"[basic]\n{KEYS}"}
SHOWN = "profile basic of ~/.huaweicloud/credentials"
MACHINE = ["GetMetadataToken", "GetSecurityKey"]
ASKED = ["AssumeAgencyWithOIDC"]


@dataclass(frozen=True)
class Env:
    """An environment; what is found there, or the words of the refusal; and the calls."""

    found: str = ""
    calls: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    refusal: tuple[str, ...] = ()
    project: str = ""


ENVIRONMENTS = {
    "OIDC": Env(AGENCY, ASKED, OIDC),
    "OIDC with a token": Env(AGENCY, ASKED, {**OIDC, "HUAWEICLOUD_OIDC_ID_TOKEN": "planted"}),
    "OIDC before keys": Env(AGENCY, ASKED, OIDC | ENV),
    "OIDC before profile": Env(AGENCY, ASKED, OIDC, BASIC),
    "OIDC with a project": Env(AGENCY, ASKED, OIDC | PROJECT, project=PROJECT["HUAWEICLOUD_SDK_PROJECT_ID"]),
    "environment": Env("environment", [], ENV),
    "environment with a token": Env("environment", [], ENV | {"HUAWEICLOUD_SDK_SECURITY_TOKEN": "planted"}),
    "environment with a project": Env("environment", [], ENV | PROJECT, project=PROJECT["HUAWEICLOUD_SDK_PROJECT_ID"]),
    "environment before profile": Env("environment", [], ENV, BASIC),
    "profile": Env(SHOWN, [], {}, BASIC),
    "profile with a token": Env(SHOWN, [], {}, {FILE: f"[basic]\n{KEYS}security_token = planted\n"}),
    "profile with a project": Env(SHOWN, [], {}, {FILE: f"[basic]\n{KEYS}project_id = abc-1\n"}, project="abc-1"),
    "profile with a byte order mark": Env(SHOWN, [], {}, {FILE: "\ufeff" + BASIC[FILE]}),
    "profile elsewhere": Env(
        "profile basic", [], {"HUAWEICLOUD_SDK_CREDENTIALS_FILE": "{home}/other"}, {"other": BASIC[FILE]}
    ),
    "file of other profiles": Env("ECS metadata", MACHINE, {}, {FILE: f"[global]\n{KEYS}"}),
    "empty file": Env("ECS metadata", MACHINE, {}, {FILE: "\n"}),
    "nothing": Env("ECS metadata", MACHINE),
    "machine with a project": Env("ECS metadata", MACHINE, PROJECT, project=PROJECT["HUAWEICLOUD_SDK_PROJECT_ID"]),
    "half a key": Env(env={"HUAWEICLOUD_SDK_AK": "x"}, refusal=("HUAWEICLOUD_SDK_AK without HUAWEICLOUD_SDK_SK",)),
    "secret alone": Env(env={"HUAWEICLOUD_SDK_SK": "planted"}, refusal=("without HUAWEICLOUD_SDK_AK",)),
    "token alone": Env(env={"HUAWEICLOUD_SDK_SECURITY_TOKEN": "planted"}, refusal=("HUAWEICLOUD_SDK_SECURITY_TOKEN",)),
    "half of OIDC": Env(env={"HUAWEICLOUD_OIDC_AGENCY_URN": "a"}, refusal=("without HUAWEICLOUD_OIDC_PROVIDER_URN",)),
    "OIDC without its file": Env(
        env=OIDC | {"HUAWEICLOUD_OIDC_TOKEN_FILE": "/planted"}, refusal=("the file of HUAWEICLOUD_OIDC_TOKEN_FILE",)
    ),
    "pod identity": Env(
        env={"HC_CONTAINER_CREDENTIALS_FULL_URI": "http://planted.test"}, refusal=("HC_CONTAINER_CREDENTIALS_FULL_URI",)
    ),
    "federated": Env(env={"HUAWEICLOUD_SDK_IDP_ID": "x"}, refusal=("HUAWEICLOUD_SDK_IDP_ID",)),
    "wrong project": Env(env={"HUAWEICLOUD_SDK_PROJECT_ID": "a b"}, refusal=("HUAWEICLOUD_SDK_PROJECT_ID",)),
    "wrong duration": Env(
        env=OIDC | {"HUAWEICLOUD_OIDC_DURATION_SECONDS": "1h"}, refusal=("HUAWEICLOUD_OIDC_DURATION_SECONDS",)
    ),
    "file that is missing": Env(
        env={"HUAWEICLOUD_SDK_CREDENTIALS_FILE": "{home}/none"}, refusal=("none cannot be used: No such file",)
    ),
}
BROKEN = {
    "half a key": Env(files={FILE: "[basic]\nak = x\n"}, refusal=("sk of section [basic]",)),
    "secret alone": Env(files={FILE: "[basic]\nsk = planted\n"}, refusal=("ak of section [basic]",)),
    "empty section": Env(files={FILE: "[basic]\n"}, refusal=("ak of section [basic]",)),
    "project alone": Env(files={FILE: "[basic]\nproject_id = a\n"}, refusal=("ak of section [basic]",)),
    "wrong project": Env(
        files={FILE: f"[basic]\n{KEYS}project_id = a b\n"}, refusal=("project_id of section [basic]",)
    ),
    "invisible character": Env(
        files={FILE: "[basic]\nak = \u200bx\nsk = planted\n"}, refusal=("ak of section [basic]",)
    ),
    "no INI file": Env(files={FILE: "ak = planted\n"}, refusal=("it is not an INI file (line 1)",)),
    "swapped keys": Env(
        files={FILE: f"[basic]\nak = {'planted' * 6}\nsk = ABCDEFGHIJ0123456789\n"}, refusal=("swapped",)
    ),
}


def answer(request: httpx.Request) -> httpx.Response:
    """STS, IAM, and the metadata service of a machine with an agency."""
    end = "2099-01-01T00:00:00.000000Z"
    if request.url.host == "sts.test":
        keys = {"access_key_id": "issued", "secret_access_key": "planted-s", "security_token": "planted-t"}
        return httpx.Response(200, json={"credentials": keys | {"expiration": end}})
    if request.url.host == "iam.test":
        token = {"token": {"expires_at": end, "project": {"id": "of-the-token"}}}
        return httpx.Response(201, json=token, headers={"X-Subject-Token": "planted-token"})
    if request.method == "PUT":
        return httpx.Response(200, text="session")
    keys = {"access": "issued", "secret": "planted-s", "securitytoken": "planted-t", "expires_at": end}
    return httpx.Response(200, json={"credential": keys})


def use(given: Env, home: Path, section: object = None, answer: Callable[..., httpx.Response] = answer) -> Found:
    """Find keys in an environment."""
    (home / "token").write_text("planted-id-token")
    for name, text in given.files.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    environ = {name: value.replace("{home}", str(home)) for name, value in given.env.items()} | {"HOME": str(home)}
    return find(load, section, environ, answer, scope={"name": "cn-north-4"})


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_first_source_that_says_something_is_used(name: str, tmp_path: Path) -> None:
    given = ENVIRONMENTS[name]
    found = use(given, tmp_path)
    assert (found.keys is None) == bool(given.refusal)
    assert [words for words in given.refusal if words not in found.refusal] == []
    assert found.origin.startswith(given.found)
    assert found.at_start == found.origin
    assert found.calls == given.calls
    assert found.keys is None or found.keys.project_id == given.project
    assert "planted" not in found.refusal + found.origin


@pytest.mark.parametrize("name", BROKEN)
def test_broken_profile_never_becomes_the_machines_role(name: str, tmp_path: Path) -> None:
    given = BROKEN[name]
    found = use(given, tmp_path)
    assert found.keys is None
    assert [words for words in (*given.refusal, "~/.huaweicloud/credentials") if words not in found.refusal] == []
    assert found.calls == []
    assert "planted" not in found.refusal


def test_profile_that_is_a_named_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".huaweicloud").mkdir()
    os.mkfifo(tmp_path / ".huaweicloud/credentials")
    with at_most(20):
        found = use(Env(), tmp_path)
    assert "~/.huaweicloud/credentials cannot be used: it is not a regular file" in found.refusal
    assert found.calls == []


S = Secret
USER = Credentials(username="u", password=S("planted-password"), domain_name="d")
BY_OIDC = Credentials(oidc=Oidc(provider_urn="p", agency_urn="a", token=S("planted-token")))
SECTIONS: dict[str, tuple[Credentials, str, list[str]]] = {
    "keys": (Credentials(access_key=S("a"), secret_key=S("planted")), "config file", []),
    "password": (USER, "IAM password of user u, from the config file", ["KeystoneCreateUserTokenByPassword"]),
    "oidc": (BY_OIDC, "OIDC agency a, with the token of the config file", ASKED),
    "machine": (Credentials(ecs_agency=True), "ECS metadata", MACHINE),
    "profile": (Credentials(profile="basic"), SHOWN, []),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_each_form_of_the_section_works(name: str, tmp_path: Path) -> None:
    section, origin, calls = SECTIONS[name]
    found = use(Env(files=BASIC), tmp_path, section)
    assert (found.origin, found.calls) == (origin, calls)


def test_password_becomes_a_token_of_the_project(tmp_path: Path) -> None:
    requests: list[httpx.Request] = []

    def note(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return answer(request)

    found = use(Env(), tmp_path, USER, note)
    assert isinstance(found.keys, Token)
    assert (found.keys.security_token, found.keys.project_id) == ("planted-token", "of-the-token")
    asked = json.loads(requests[0].content)["auth"]
    assert asked["scope"] == {"project": {"name": "cn-north-4"}}
    user = {"name": "u", "password": "planted-password", "domain": {"name": "d"}}
    assert asked["identity"] == {"methods": ["password"], "password": {"user": user}}
    use(Env(), tmp_path, BY_OIDC, note)
    assert json.loads(requests[1].content)["id_token"] == "planted-token"
    assert not {"authorization", "x-auth-token"} & set(requests[1].headers)


ANSWERS: dict[str, tuple[Callable[[httpx.Request], httpx.Response], str]] = {
    "no agency": (lambda request: httpx.Response(404), "this server has no agency"),
    "incomplete": (lambda request: httpx.Response(200, json={"credential": {"access": "a"}}), "the answer lacks keys"),
    "broken": (lambda request: httpx.Response(500), "HTTP 500"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_machine_that_gives_no_keys_says_why(name: str, tmp_path: Path) -> None:
    bad, words = ANSWERS[name]
    machine = Credentials(ecs_agency=True)
    found = use(Env(), tmp_path, machine, lambda r: answer(r) if r.method == "PUT" else bad(r))
    assert words in found.refusal


@pytest.mark.parametrize("status", [404, 405, 503])
def test_old_metadata_service_is_asked_without_a_session(status: int, tmp_path: Path) -> None:
    found = use(Env(), tmp_path, None, lambda r: httpx.Response(status) if r.method == "PUT" else answer(r))
    assert (found.origin, found.calls) == ("ECS metadata", MACHINE)


def test_hanging_metadata_names_the_hop_limit(tmp_path: Path) -> None:
    def hang(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("hangs")

    found = use(Env(), tmp_path, answer=hang)
    assert "hop limit of the metadata service must be 2 or more" in found.refusal
    assert set(found.calls) == {"GetMetadataToken"}


def test_domain_of_a_region() -> None:
    assert public_endpoint("modelarts", "cn-north-4") == "https://modelarts.cn-north-4.myhuaweicloud.com"
    assert public_endpoint("aom", "eu-west-101") == "https://aom.eu-west-101.myhuaweicloud.eu"
