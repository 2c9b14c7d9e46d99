"""What the config's credentials come to before anybody is asked: forms, the vendor's chain, and files of profiles."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.huawei_modelarts.credentials_rig import load
from trainfleet_exporter.config import load_config, redacted
from trainfleet_exporter.errors import AccessDenied, ConfigError
from trainfleet_exporter.providers.credentials import (
    FirstOf,
    Keys,
    MachineRole,
    OidcRole,
    ProfileFile,
    ProfileKeys,
    Session,
)
from trainfleet_exporter.providers.huawei_modelarts.auth import FORMAT, read_profile
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig

ID_TOKEN_FILE = "HUAWEICLOUD_OIDC_TOKEN_FILE"
URL = "http://127.0.0.1:1"
OIDC = {"HUAWEICLOUD_OIDC_PROVIDER_URN": "provider", "HUAWEICLOUD_OIDC_AGENCY_URN": "agency"}
KEYS = {"HUAWEICLOUD_SDK_AK": "planted-ak", "HUAWEICLOUD_SDK_SK": "planted-sk"}
BASIC = "[basic]\nak = planted-ak\nsk = planted-sk\n"


def provider(folder: Path, credentials: str, environ: Mapping[str, str]) -> HuaweiModelArtsConfig:
    (found,) = load(folder, credentials, environ, url=URL).providers
    assert isinstance(found, HuaweiModelArtsConfig)
    return found


def fault(folder: Path, environ: Mapping[str, str], credentials: str = "") -> str:
    """What is wrong with the only place that is wrong."""
    with pytest.raises(ConfigError) as caught:
        load(folder, credentials, environ, url=URL)
    (found,) = caught.value.faults
    assert found.path.startswith("providers[0].credentials")
    assert "planted" not in str(caught.value)
    return found.message


def profiles(folder: Path, text: str = BASIC) -> dict[str, str]:
    """An environment whose home has this file of profiles."""
    (folder / ".huaweicloud").mkdir(exist_ok=True)
    (folder / ".huaweicloud" / "credentials").write_text(text, encoding="utf-8")
    return {"HOME": str(folder)}


def form(config: HuaweiModelArtsConfig) -> str:
    found = config.credentials
    return next(name for name in ("oidc", "access_key", "profile", "ecs_agency") if getattr(found, name))


def test_the_chain_takes_the_first_link_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("planted-token")
    environ = profiles(tmp_path) | KEYS | OIDC | {"HUAWEICLOUD_OIDC_TOKEN_FILE": str(tmp_path / "token")}
    found = provider(tmp_path, "", environ)
    assert form(found) == "oidc"
    assert found.credentials.oidc is not None
    assert found.credentials.oidc.token.reveal() == "planted-token"
    for name in (*OIDC, "HUAWEICLOUD_OIDC_TOKEN_FILE"):
        del environ[name]
    assert form(provider(tmp_path, "", environ)) == "access_key"
    for name in KEYS:
        del environ[name]
    found = provider(tmp_path, "", environ)
    assert form(found) == "profile"
    assert found.credentials.profile == "basic"
    (tmp_path / ".huaweicloud" / "credentials").unlink()
    found = provider(tmp_path, "", environ)
    assert form(found) == "ecs_agency"
    source = found.credentials.source
    assert isinstance(source, FirstOf)
    assert source.passed == (
        "the environment sets no HUAWEICLOUD_OIDC_PROVIDER_URN",
        "the environment sets no HUAWEICLOUD_SDK_AK",
        "the file ~/.huaweicloud/credentials cannot be used: No such file or directory",
    )


def test_the_variables_are_those_of_the_vendors_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # importing the vendor's package writes there
    module, absent = "huaweicloudsdkcore.auth.provider", "the vendor's package huaweicloudsdkcore is not installed"
    if not os.environ.get("CI"):
        pytest.importorskip(module, reason=absent)
    vendor: Any = importlib.import_module(module)
    oidc, keys, file = (
        {key.strip("_"): name for key, name in vars(kind).items() if isinstance(name, str) and "_ENV" in key}
        for kind in (
            vendor.OidcStsCredentialProvider,
            vendor.EnvCredentialProvider,
            vendor.ProfileCredentialProvider,
        )
    )
    (tmp_path / "token").write_text("planted-token")
    environ = {
        oidc["PROVIDER_URN_ENV"]: "provider",
        oidc["AGENCY_URN_ENV"]: "agency",
        oidc["TOKEN_FILE_ENV"]: str(tmp_path / "token"),
        oidc["SESSION_NAME_ENV"]: "session",
        oidc["DURATION_SECONDS_ENV"]: "900",
        oidc["POLICY_ENV"]: "{}",
        oidc["POLICY_IDS_ENV"]: "a, b",
        oidc["PROJECT_ID_ENV"]: "project-1",
    }
    found = provider(tmp_path, "", environ).credentials
    assert found.oidc is not None
    assert (found.oidc.provider_urn, found.oidc.agency_urn) == ("provider", "agency")
    assert (found.oidc.token.reveal(), found.project_id) == ("planted-token", "project-1")
    assert isinstance(found.source, OidcRole)
    assert found.source.session == Session("session", 900, "{}", ("a", "b"))
    names = ("AK_ENV_NAME", "SK_ENV_NAME", "SECURITY_TOKEN_ENV_NAME")
    found = provider(tmp_path, "", {keys[name]: name for name in names}).credentials
    parts = (found.access_key, found.secret_key, found.security_token)
    assert [part.reveal() for part in parts if part is not None] == list(names)
    profiles(tmp_path)
    path = str(tmp_path / ".huaweicloud" / "credentials")
    assert form(provider(tmp_path, "", {file["CREDENTIALS_FILE_ENV_NAME"]: path})) == "profile"


def test_credentials_of_the_config_leave_the_chain_alone(tmp_path: Path) -> None:
    halves = {"HUAWEICLOUD_SDK_AK": "planted", "HUAWEICLOUD_OIDC_AGENCY_URN": "agency"}
    found = provider(tmp_path, "credentials: {ecs_agency: true}", halves)
    assert form(found) == "ecs_agency"
    assert found.credentials.source == MachineRole()


@pytest.mark.parametrize(
    ("environ", "reported"),
    [
        ({"HUAWEICLOUD_SDK_SK": "planted"}, "it sets HUAWEICLOUD_SDK_SK without HUAWEICLOUD_SDK_AK"),
        (
            {"HUAWEICLOUD_OIDC_AGENCY_URN": "agency"} | KEYS,
            "it sets HUAWEICLOUD_OIDC_AGENCY_URN without HUAWEICLOUD_OIDC_PROVIDER_URN and " + ID_TOKEN_FILE,
        ),
        (
            {**OIDC, "HUAWEICLOUD_OIDC_TOKEN_FILE": "/nowhere/planted"},
            "the file of HUAWEICLOUD_OIDC_TOKEN_FILE cannot be used: No such file or directory",
        ),
        (
            {**OIDC, "HUAWEICLOUD_OIDC_TOKEN_FILE": "planted\0"},
            "the file of HUAWEICLOUD_OIDC_TOKEN_FILE cannot be used: it is not a path",
        ),
        (
            {**OIDC, "HUAWEICLOUD_OIDC_ID_TOKEN": "t", "HUAWEICLOUD_OIDC_DURATION_SECONDS": "1h"},
            "HUAWEICLOUD_OIDC_DURATION_SECONDS is not a whole number of seconds",
        ),
        (
            {"HUAWEICLOUD_SDK_IDP_ID": "federation", **KEYS},
            "it sets HUAWEICLOUD_SDK_IDP_ID, which is not supported",
        ),
        (
            {**OIDC, "HUAWEICLOUD_OIDC_ID_TOKEN": "planted\n"},
            "HUAWEICLOUD_OIDC_ID_TOKEN cannot be used: it contains a line break or another control character",
        ),
        (
            {**KEYS, "HUAWEICLOUD_SDK_PROJECT_ID": "planted/id"},
            "HUAWEICLOUD_SDK_PROJECT_ID is not 1 to 64 letters, digits and hyphens",
        ),
    ],
)
def test_half_a_link_is_a_fault(environ: dict[str, str], reported: str, tmp_path: Path) -> None:
    assert f"({reported}); allowed:" in fault(tmp_path, environ)


def test_a_profile_needs_to_know_where_its_file_is(tmp_path: Path) -> None:
    message = fault(tmp_path, {}, "credentials: {profile: basic}")
    assert "neither HUAWEICLOUD_SDK_CREDENTIALS_FILE nor HOME is set, so there is no file of profiles" in message
    path = tmp_path / "elsewhere.ini"
    path.write_text("[team]\nak = planted-ak\nsk = planted-sk\nsecurity_token = planted-token\nproject_id = p-1\n")
    found = provider(tmp_path, "credentials: {profile: team}", {"HUAWEICLOUD_SDK_CREDENTIALS_FILE": str(path)})
    source = found.credentials.source
    assert isinstance(source, ProfileKeys)
    assert source == ProfileKeys(ProfileFile(path, str(path), FORMAT), "team")
    assert found.credentials.project_id == "p-1"
    assert read_profile(source) == (Keys("planted-ak", "planted-sk", "planted-token"), "p-1")
    assert "planted" not in repr(source) + repr(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no section [team]"),
        ("[team]\nak = planted\nsk\n", "it is not an INI file (line 3)"),
        ("ak = planted\n", "it is not an INI file (line 1)"),
        ("[team]\nak = planted\nak = planted\n", "it is not an INI file (line 3)"),
        ("[team]\n[team]\n", "it is not an INI file (line 2)"),
        ("[DEFAULT]\nak = planted\nsk = planted\n[team]\n", "ak of section [team] cannot be used: it is empty"),
        ("[team]\nak = planted\nsk =\n", "sk of section [team] cannot be used: it is empty"),
        (
            "[team]\nak = planted\nsk = planted\n  planted\n",
            "sk of section [team] cannot be used: it contains a line break or another control character",
        ),
        ("#" * 70000, "it is longer than 65536 bytes"),
        ("[team]\nak = \udcff", "it is not UTF-8"),
    ],
)
def test_unusable_file_is_reported_without_its_content(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(AccessDenied) as caught:
        read_profile(ProfileKeys(ProfileFile(path, "the file", FORMAT), "team"))
    assert str(caught.value) == f"the file the file cannot be used: {reason}"


@given(text=st.text(alphabet=st.sampled_from("[]team=:#;ak sk\n\t\\%\ufeff"), max_size=60))
def test_any_file_is_a_profile_or_an_error(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("profiles") / "credentials"
    path.write_text(text, encoding="utf-8")
    reported = ""
    try:
        keys, _ = read_profile(ProfileKeys(ProfileFile(path, "file", FORMAT), "team"))
    except AccessDenied as error:
        reported = str(error)
    if reported:
        assert reported.startswith("the file file cannot be used: ")
        assert reported.isprintable()
    else:
        assert keys.access_key_id
        assert keys.access_key_secret


@pytest.mark.parametrize(
    ("credentials", "shown"),
    [
        ("credentials: {access_key: a, secret_key: planted}", {"access_key": "<secret>", "secret_key": "<secret>"}),
        (
            "credentials: {oidc: {provider_urn: p, agency_urn: a, token: planted}}",
            {"oidc": {"provider_urn": "p", "agency_urn": "a", "token": "<secret>"}},
        ),
        ("credentials: {ecs_agency: true}", {"ecs_agency": True}),
        ("credentials: {profile: basic}", {"profile": "basic"}),
        ("", {"profile": "basic"}),
    ],
)
def test_the_shown_config_says_what_is_used_and_reads_back(
    credentials: str, shown: dict[str, object], tmp_path: Path
) -> None:
    environ = profiles(tmp_path)
    config = load(tmp_path, credentials, environ, url=URL)
    text = redacted(config)
    found = yaml.safe_load(text)["providers"][0]["credentials"]
    assert {key: value for key, value in found.items() if value} == shown
    (again,) = load_text(tmp_path, text, environ)
    assert form(again) == next(iter(shown))


def load_text(folder: Path, text: str, environ: Mapping[str, str]) -> list[HuaweiModelArtsConfig]:
    path = folder / "again.yaml"
    path.write_text(text, encoding="utf-8")
    config = load_config(path, environ=environ, platforms={"huawei_modelarts": HuaweiModelArtsConfig})
    return [found for found in config.providers if isinstance(found, HuaweiModelArtsConfig)]


def test_equal_configs_are_equal_and_others_are_not(tmp_path: Path) -> None:
    environ = profiles(tmp_path, BASIC + BASIC.replace("basic", "team"))
    chain = provider(tmp_path, "", environ)
    assert chain == provider(tmp_path, "", environ)
    assert chain != provider(tmp_path, "credentials: {profile: team}", environ)
    assert chain != provider(tmp_path, "", KEYS)
