"""Where an Alibaba identity comes from, as config file, environment and profile files say it: known without a network.

What is wrong with credentials, and what the fault says, is in `tests/config/bad/` where one file can hold it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.loading import MINIMAL, faults, load
from trainfleet_exporter.config import Config, Secret, redacted
from trainfleet_exporter.providers.alibaba_pai.auth import CLI_FILE, SDK_FILE
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig, Credentials
from trainfleet_exporter.providers.credentials import (
    AssumedRole,
    FirstOf,
    GivenKeys,
    KeysUri,
    MachineRole,
    OidcRole,
    ProfileFile,
    ProfileKeys,
    Session,
    Source,
)

BARE = MINIMAL.rpartition("    credentials")[0]
KEYS = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "env-id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "env-secret"}
ROLE, PROVIDER = "acs:ram::1:role/x", "acs:ram::1:oidc-provider/y"
AK = {"name": "prod", "mode": "AK", "access_key_id": "cli-id", "access_key_secret": "hunter2"}


def credentials_of(folder: Path, given: str = "", environ: dict[str, str] | None = None) -> Credentials:
    """Of a provider whose credentials are `given`, or left out."""
    text = BARE + (f"    credentials: {given}\n" if given else "")
    (provider,) = load(folder, text, environ).providers
    assert isinstance(provider, AlibabaPaiConfig)
    return provider.credentials


def source_of(folder: Path, given: str = "", environ: dict[str, str] | None = None) -> Source:
    return credentials_of(folder, given, environ).source


def fault_of(folder: Path, given: str = "", environ: dict[str, str] | None = None) -> str:
    """The one fault of such a provider."""
    (reported,) = faults(folder, BARE + (f"    credentials: {given}\n" if given else ""), environ)
    return reported


def home(folder: Path, *profiles: dict[str, Any], current: str = "", ini: str = "") -> dict[str, str]:
    """An environment with a home folder, whose files of profiles hold these."""
    if profiles:
        (folder / ".aliyun").mkdir()
        (folder / ".aliyun" / "config.json").write_text(json.dumps({"current": current, "profiles": profiles}))
    if ini:
        (folder / ".alibabacloud").mkdir()
        (folder / ".alibabacloud" / "credentials").write_text(ini)
    return {"HOME": str(folder)}


def test_keys_of_the_file_keep_those_of_the_environment_out(tmp_path: Path) -> None:
    """A token of another identity would spoil the keys of the file."""
    environ = {**KEYS, "ALIBABA_CLOUD_SECURITY_TOKEN": "env-token"}
    source = source_of(tmp_path, "{access_key_id: id, access_key_secret: hunter2}", environ)
    assert source == GivenKeys(Secret("id"), Secret("hunter2"))


@pytest.mark.parametrize("given", ["", "null"])
def test_keys_of_the_environment(tmp_path: Path, given: str) -> None:
    token = {"ALIBABA_CLOUD_SECURITY_TOKEN": "env-token"}
    assert source_of(tmp_path, given, KEYS) == GivenKeys(Secret("env-id"), Secret("env-secret"))
    source = source_of(tmp_path, given, KEYS | token)
    assert source == GivenKeys(Secret("env-id"), Secret("env-secret"), Secret("env-token"))


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_half_a_key_in_the_environment_names_the_missing_half(tmp_path: Path, missing: str) -> None:
    (there,) = KEYS.keys() - {missing}
    expected = (
        "2: providers[0].credentials: found no credentials, and an environment that cannot stand in for them "
        f"(it sets {there} without {missing}); "
        "allowed: credentials here, or the whole set of the vendor's variables, or none of them"
    )
    for environ in ({there: "hunter2"}, {there: "hunter2", missing: ""}):
        assert fault_of(tmp_path, environ=environ) == expected


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        (
            {**KEYS, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "hunter2\n"},
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET cannot be used: it holds a line break",
        ),
        ({"ALIBABA_CLOUD_CREDENTIALS_URI": "ftp://localhost/hunter2"}, "ALIBABA_CLOUD_CREDENTIALS_URI is no http or"),
        ({"ALIBABA_CLOUD_CREDENTIALS_URI": "http://[hunter2"}, "ALIBABA_CLOUD_CREDENTIALS_URI is no http or https"),
        ({"ALIBABA_CLOUD_CREDENTIALS_URI": "http://u:hunter2@localhost/"}, "ALIBABA_CLOUD_CREDENTIALS_URI is no http"),
        ({"ALIBABA_CLOUD_CREDENTIALS_URI": "http://localhost/ä"}, "ALIBABA_CLOUD_CREDENTIALS_URI is no http or https"),
        ({"ALIBABA_CLOUD_CREDENTIALS_URI": "http://keys.example/hunter2"}, "leads over plain http beyond this machine"),
        (
            {
                "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": PROVIDER,
                "ALIBABA_CLOUD_ROLE_ARN": ROLE,
                "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "none",
            },
            "the file of ALIBABA_CLOUD_OIDC_TOKEN_FILE cannot be used: No such file or directory",
        ),
    ],
)
def test_an_unusable_environment_is_a_fault_without_its_values(
    tmp_path: Path, environ: dict[str, str], reason: str
) -> None:
    reported = fault_of(tmp_path, environ=environ)
    assert reason in reported
    assert "hunter2" not in reported


def test_role_is_assumed_with_its_key_or_the_default_chain(tmp_path: Path) -> None:
    keys = GivenKeys(Secret("id"), Secret("hunter2"))
    given = f"{{access_key_id: id, access_key_secret: hunter2, role_arn: {ROLE}, external_id: hunter3}}"
    assert source_of(tmp_path, given, KEYS) == AssumedRole(ROLE, keys, Secret("hunter3"))
    alone = source_of(tmp_path, f"{{role_arn: {ROLE}}}", KEYS)
    assert alone == AssumedRole(ROLE, GivenKeys(Secret("env-id"), Secret("env-secret")))


def test_half_a_key_of_a_role_is_not_completed(tmp_path: Path) -> None:
    reported = fault_of(tmp_path, f"{{role_arn: {ROLE}, access_key_id: id}}", KEYS)
    assert reported.startswith("5: providers[0].credentials.access_key_secret: required, but missing; ")


def test_oidc_of_the_file_and_of_the_environment(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hunter2\n")
    role = OidcRole(ROLE, Secret.from_file(token), PROVIDER)
    given = f"{{oidc: {{provider_arn: '{PROVIDER}', role_arn: '{ROLE}', token_file: token}}}}"
    assert source_of(tmp_path, given) == role
    environ = {
        "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": PROVIDER,
        "ALIBABA_CLOUD_ROLE_ARN": ROLE,
        "ALIBABA_CLOUD_OIDC_TOKEN_FILE": str(token),
    }
    assert source_of(tmp_path, environ=environ) == role
    named = source_of(tmp_path, environ=environ | {"ALIBABA_CLOUD_ROLE_SESSION_NAME": "me"})
    assert named == OidcRole(ROLE, Secret.from_file(token), PROVIDER, Session(name="me"))
    # Two of the three belong to other tools, and the chain goes on.
    del environ["ALIBABA_CLOUD_OIDC_PROVIDER_ARN"]
    assert isinstance(source_of(tmp_path, environ=environ), FirstOf)


@pytest.mark.parametrize(("given", "name"), [("true", ""), ("exporter", "exporter"), ("'True'", "")])
def test_the_role_of_the_machine(tmp_path: Path, given: str, name: str) -> None:
    assert source_of(tmp_path, f"{{ecs_ram_role: {given}}}", KEYS) == MachineRole(name)
    environ = {"ALIBABA_CLOUD_IMDSV1_DISABLED": "true"}
    assert source_of(tmp_path, f"{{ecs_ram_role: {given}}}", environ) == MachineRole(name, needs_session=True)


def test_the_chain_asks_the_machine_and_the_uri_last(tmp_path: Path) -> None:
    environ = {"ALIBABA_CLOUD_CREDENTIALS_URI": "http://127.0.0.1:7/keys?of=me", "ALIBABA_CLOUD_ECS_METADATA": "role"}
    source = source_of(tmp_path, environ=environ)
    assert isinstance(source, FirstOf)
    assert source.links == (MachineRole("role"), KeysUri("http://127.0.0.1:7", Secret("/keys?of=me")))
    assert source.passed[0] == "the environment sets no ALIBABA_CLOUD_ACCESS_KEY_ID"
    assert "no profiles, since HOME is not set" in source.passed
    assert "of=me" not in repr(source)
    disabled = source_of(tmp_path, environ=environ | {"ALIBABA_CLOUD_ECS_METADATA_DISABLED": "TRUE"})
    assert isinstance(disabled, FirstOf)
    assert disabled.links == (KeysUri("http://127.0.0.1:7", Secret("/keys?of=me")),)


def test_profiles_of_the_cli(tmp_path: Path) -> None:
    (tmp_path / ".aliyun").mkdir()
    (tmp_path / ".aliyun" / "token").write_text("hunter2")
    role = {"mode": "RamRoleArn", "ram_role_arn": ROLE, "ram_session_name": "me", "expired_seconds": 900}
    chained = {"name": "chained", "mode": "ChainableRamRoleArn", "ram_role_arn": ROLE, "source_profile": "machine"}
    oidc = {"mode": "OIDC", "oidc_provider_arn": PROVIDER, "ram_role_arn": ROLE, "oidc_token_file": "token"}
    profiles = [
        AK,
        AK | {"name": "sts", "mode": "StsToken", "sts_token": "hunter3"},
        AK | role | {"name": "role", "external_id": "hunter4", "policy": "{}"},
        {"name": "machine", "mode": "EcsRamRole", "ram_role_name": "node"},
        chained | {"expired_seconds": 0},  # as the CLI writes by default
        oidc | {"name": "oidc"},
    ]
    file = tmp_path / ".aliyun" / "config.json"
    file.write_text(json.dumps({"current": "sts", "profiles": profiles}))
    environ = {"HOME": str(tmp_path)}

    def keys(profile: str, mode: str) -> ProfileKeys:
        return ProfileKeys(ProfileFile(file, "~/.aliyun/config.json", CLI_FILE), profile, mode)

    found = {name: source_of(tmp_path, f"{{profile: {name}}}", environ) for name in ("prod", "sts", "role", "machine")}
    assert found == {
        "prod": keys("prod", "AK"),
        "sts": keys("sts", "StsToken"),
        "role": AssumedRole(ROLE, keys("role", "RamRoleArn"), Secret("hunter4"), Session("me", 900, "{}")),
        "machine": MachineRole("node"),
    }
    assert source_of(tmp_path, "{profile: chained}", environ) == AssumedRole(
        ROLE, MachineRole("node"), session=Session(seconds=3600)
    )
    token = Secret.from_file(tmp_path / ".aliyun" / "token")
    assert source_of(tmp_path, "{profile: oidc}", environ) == OidcRole(ROLE, token, PROVIDER)
    assert source_of(tmp_path, environ=environ) == keys("sts", "StsToken")
    assert source_of(tmp_path, environ=environ | {"ALIBABA_CLOUD_PROFILE": "prod"}) == keys("prod", "AK")
    disabled = source_of(tmp_path, environ=environ | {"ALIBABA_CLOUD_CLI_PROFILE_DISABLED": "true"})
    assert isinstance(disabled, FirstOf)
    assert "~/.aliyun/config.json is disabled" in disabled.passed


INI = f"""
# a comment
[default]
type = sts
access_key_id = ini-id
access_key_secret = hunter2%  # a comment
security_token = hunter3

[role]
type = ram_role_arn
access_key_id = ini-id
access_key_secret = hunter2
role_arn = {ROLE}
role_session_name = me
duration_seconds = 1800

[machine]
type = ecs_ram_role
role_name = node

[key]
type = rsa_key_pair
public_key_id = hunter2
"""


@pytest.mark.parametrize("name", ["credentials", "credentials.ini", "elsewhere"])
def test_profiles_of_the_sdks(tmp_path: Path, name: str) -> None:
    (tmp_path / ".alibabacloud").mkdir()
    file = tmp_path / ".alibabacloud" / name
    file.write_text(INI)
    shown = f"~/.alibabacloud/{name}"
    environ = {"HOME": str(tmp_path)}
    if name == "elsewhere":
        environ["ALIBABA_CLOUD_CREDENTIALS_FILE"] = shown = str(file)

    def keys(profile: str, mode: str) -> ProfileKeys:
        return ProfileKeys(ProfileFile(file, shown, SDK_FILE), profile, mode)

    assert source_of(tmp_path, environ=environ) == keys("default", "StsToken")
    assert source_of(tmp_path, "{profile: machine}", environ) == MachineRole("node")
    assert source_of(tmp_path, "{profile: role}", environ) == AssumedRole(
        ROLE, keys("role", "RamRoleArn"), session=Session("me", 1800)
    )
    reported = fault_of(tmp_path, "{profile: key}", environ)
    assert f'({shown}: profile "key" is of mode "rsa_key_pair", which is not served; served are AK, ' in reported


@pytest.mark.parametrize("seconds", ["1", "899", "43201", "1h", "900.5", "-900", "0.0"])
def test_profile_that_sts_would_refuse_is_a_fault(tmp_path: Path, seconds: str) -> None:
    role = AK | {"mode": "RamRoleArn", "ram_role_arn": ROLE, "expired_seconds": seconds}
    environ = home(tmp_path, role, current="prod", ini=INI.replace("1800", seconds))
    allowed = "allowed: a whole number of seconds from 900 to 43200"
    reported = fault_of(tmp_path, "{profile: prod}", environ)
    assert f'(~/.aliyun/config.json: STS would refuse expired_seconds of profile "prod"; {allowed})' in reported
    reported = fault_of(tmp_path, "{profile: role}", environ)
    assert f'(~/.alibabacloud/credentials: STS would refuse duration_seconds of profile "role"; {allowed})' in reported
    # The chain does not go on to another identity.
    reported = fault_of(tmp_path, environ=environ)
    assert f'(~/.aliyun/config.json: STS would refuse expired_seconds of profile "prod"; {allowed})' in reported


@pytest.mark.parametrize("seconds", [900, "43200"])
def test_and_what_it_takes_is_asked_for(tmp_path: Path, seconds: object) -> None:
    role = AK | {"mode": "RamRoleArn", "ram_role_arn": ROLE, "expired_seconds": seconds, "ram_session_name": ""}
    source = source_of(tmp_path, "{profile: prod}", home(tmp_path, role))
    assert isinstance(source, AssumedRole)
    assert source.session == Session(seconds=int(str(seconds)))


@pytest.mark.parametrize(
    "content", ["", "[", '{"profiles": {}}', "[hunter2]", "{" * 100_000, '{"profiles": ["hunter2", {"name": 5}]}']
)
def test_invalid_profile_file_is_reported_without_its_text(tmp_path: Path, content: str) -> None:
    environ = home(tmp_path, AK, ini="hunter2\nhunter2")
    (tmp_path / ".aliyun" / "config.json").write_text(content)
    reported = fault_of(tmp_path, "{profile: prod}", environ)
    assert "(~/.aliyun/config.json: " in reported
    assert "~/.alibabacloud/credentials: it is no INI file)" in reported
    assert "hunter2" not in reported


def test_a_profile_of_the_cli_goes_before_one_of_the_sdks(tmp_path: Path) -> None:
    environ = home(tmp_path, AK, ini=INI.replace("[role]", "[prod]"))
    source = source_of(tmp_path, "{profile: prod}", environ)
    assert isinstance(source, ProfileKeys)
    assert source.file.shown == "~/.aliyun/config.json"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("", None),
        ("{ecs_ram_role: true}", {"ecs_ram_role": True}),
        ("{ecs_ram_role: node}", {"ecs_ram_role": "node"}),
        ("{profile: prod}", {"profile": "prod"}),
        (
            f"{{role_arn: {ROLE}, external_id: hunter2}}",
            {"role_arn": ROLE, "external_id": "<secret>"},
        ),
        (
            f"{{oidc: {{provider_arn: {PROVIDER}, role_arn: {ROLE}, token: hunter2}}}}",
            {"oidc": {"provider_arn": PROVIDER, "role_arn": ROLE, "token": "<secret>"}},
        ),
    ],
)
def test_what_is_shown_of_them_reads_back_as_the_same(tmp_path: Path, given: str, shown: object) -> None:
    environ = home(tmp_path, AK, current="prod")
    text = BARE + (f"    credentials: {given}\n" if given else "")
    config = load(tmp_path, text, environ)
    reported = redacted(config)
    assert config.model_dump(mode="json")["providers"][0]["credentials"] == shown
    assert "hunter2" not in reported + repr(config)
    again = load(tmp_path, reported.replace("<secret>", "hunter2"), environ)
    assert _credentials(again) == _credentials(config)
    assert redacted(again) == reported


def _credentials(config: Config) -> Credentials:
    (provider,) = config.providers
    assert isinstance(provider, AlibabaPaiConfig)
    return provider.credentials


def test_they_differ_where_what_they_stand_for_differs(tmp_path: Path) -> None:
    """A reload must see that the environment has other keys."""
    assert credentials_of(tmp_path, environ=KEYS) == credentials_of(tmp_path, environ=KEYS)
    changed = KEYS | {"ALIBABA_CLOUD_ACCESS_KEY_SECRET": "other"}
    assert credentials_of(tmp_path, environ=KEYS) != credentials_of(tmp_path, environ=changed)


def test_metadata_service_uses_http_and_sts_https(tmp_path: Path) -> None:
    text = MINIMAL + "    endpoints: {metadata: 'http://metadata.example'}\n"
    for near in ("http://100.100.100.200", "http://169.254.169.254", "http://[fe80::1]", "http://127.0.0.1:1"):
        (provider,) = load(tmp_path, text.replace("http://metadata.example", near)).providers
        assert isinstance(provider, AlibabaPaiConfig)
        assert provider.endpoint("metadata") == near
        assert provider.endpoint("sts") == "https://sts.cn-hangzhou.aliyuncs.com"
    (reported,) = faults(tmp_path, text)  # another address would give keys to anyone who listens
    assert reported.startswith('6: providers[0].endpoints.metadata: found "http://metadata.example"; allowed: https://')
    load(tmp_path, text + "    http: {allow_plain_http: true}\n")
    (reported,) = faults(tmp_path, text.replace("metadata:", "sts:"))
    assert reported.startswith('6: providers[0].endpoints.sts: found "http://metadata.example"; allowed: https://')


def test_the_metadata_service_is_where_every_machine_has_it(tmp_path: Path) -> None:
    (provider,) = load(tmp_path, MINIMAL).providers
    assert isinstance(provider, AlibabaPaiConfig)
    assert provider.endpoint("metadata") == "http://100.100.100.200"
