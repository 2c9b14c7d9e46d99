"""Credentials of AWS: 60 environments against botocore itself, and what botocore passes over is refused by name."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import botocore.configloader
import pytest
from botocore.session import Session

from tests.e2e.processes import eventually
from tests.providers.aws_sagemaker.aws_services import DENIED, ROLE, AwsServices, aws_services
from tests.support.configs import loaded
from trainfleet_exporter.config import Global
from trainfleet_exporter.errors import CloudError, ConfigError, RequestTimedOut
from trainfleet_exporter.process import files
from trainfleet_exporter.process.threads import THREAD_NAME
from trainfleet_exporter.providers.aws_sagemaker.api import public_endpoint
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.credentials import load
from trainfleet_exporter.providers.aws_sagemaker.provider import AwsSageMaker
from trainfleet_exporter.providers.key_search import KeyHttp, NoHttp, without_calls
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, Attempt, CallLimits, HttpSettings, Transport

PROFILE = 'profile "default" of ~/.aws/config or ~/.aws/credentials'
KEYS = "aws_access_key_id = AKIA{0}\naws_secret_access_key = planted-secret-{0}\n"
ROLE_OF = "role_arn = " + ROLE.format("{0}") + "\nsource_profile = {1}\n"
SSO = "sso_start_url = https://sso.test\nsso_region = us-east-1\n"
SSO_ROLE = "sso_account_id = 123456789012\nsso_role_name = r\n"
PROCESS = f'credential_process = "{sys.executable}" {{home}}/process.py\n'
ENV_KEYS = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "planted-env"}
WEB = {"AWS_WEB_IDENTITY_TOKEN_FILE": "{home}/token", "AWS_ROLE_ARN": ROLE.format("pod")}
WEB_PROFILE = f"role_arn = {ROLE.format('web')}\nweb_identity_token_file = {{home}}/token\n"
MACHINE_ROLE = f"role_arn = {ROLE.format('r')}\ncredential_source = Ec2InstanceMetadata\n"
ENDED = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
SOON = (datetime.now(UTC) + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M:%SZ")
LATER = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
HALF = "half a key is an error, not the machine's role"
ALONE = "it says something and cannot be used: an error, not the machine's role"


@dataclass(frozen=True)
class Env:
    """An environment: shared files, variables, and whether the machine has a role. `why` we differ from botocore."""

    config: str = ""
    credentials: str = ""
    env: dict[str, str] = field(default_factory=dict)
    machine: bool = True
    files: dict[str, str] = field(default_factory=dict)
    why: str = ""


def _sso_token(name: str, end: str, **more: str) -> dict[str, str]:
    token = {"accessToken": "planted-sso", "expiresAt": end, "startUrl": "https://sso.test", "region": "us-east-1"}
    return {f".aws/sso/cache/{hashlib.sha1(name.encode()).hexdigest()}.json": json.dumps(token | more)}


SHORT, REFUSED = "oidc-refresh-short", "oidc-refresh-refused"
REFRESH = {
    "refreshToken": "oidc-refresh-1",
    "clientId": "c",
    "clientSecret": "planted-client",
    "registrationExpiresAt": LATER,
}
SSO_SESSION = f"[default]\nsso_session = s\n{SSO_ROLE}[sso-session s]\n{SSO}"
ENVIRONMENTS = {
    "nothing": Env(),
    "nothing, no role": Env(machine=False),
    "metadata disabled": Env(env={"AWS_EC2_METADATA_DISABLED": "true"}),
    "metadata v1 disabled": Env(env={"AWS_EC2_METADATA_V1_DISABLED": "true"}),
    "account alone": Env(config="[default]\naws_account_id = 123456789012\n"),
    "region alone": Env(config="[default]\nregion = us-east-1\n"),
    "environment": Env(env=ENV_KEYS),
    "environment before profile": Env(credentials="[default]\n" + KEYS.format("D"), env=ENV_KEYS),
    "environment before AWS_PROFILE": Env(credentials="[p]\n" + KEYS.format("P"), env=ENV_KEYS | {"AWS_PROFILE": "p"}),
    "environment, id alone": Env(env={"AWS_ACCESS_KEY_ID": "AKIAENV"}),
    "environment, secret alone": Env(env={"AWS_SECRET_ACCESS_KEY": "planted-env"}, why=HALF),
    "environment, token alone": Env(env={"AWS_SESSION_TOKEN": "planted-token"}, why=HALF),
    "environment, old token alone": Env(env={"AWS_SECURITY_TOKEN": "planted-token"}, why=HALF),
    "environment, empty secret": Env(env={"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": ""}),
    "environment, role alone": Env(env={"AWS_ROLE_ARN": ROLE.format("pod")}),
    "keys in credentials": Env(credentials="[default]\n" + KEYS.format("D")),
    "keys in config": Env(config="[default]\n" + KEYS.format("C")),
    "secret alone in credentials": Env(credentials="[default]\naws_secret_access_key = planted\n", why=HALF),
    "id alone in config": Env(config="[default]\naws_access_key_id = AKIAHALF\n"),
    "secret alone in config": Env(config="[default]\naws_secret_access_key = planted\n", why=HALF),
    "AWS_PROFILE": Env(credentials="[p]\n" + KEYS.format("P"), env={"AWS_PROFILE": "p"}),
    "one file missing": Env(credentials="[default]\n" + KEYS.format("D"), env={"AWS_CONFIG_FILE": "/none"}, why=ALONE),
    "AWS_PROFILE misspelt": Env(credentials="[p]\n" + KEYS.format("P"), env={"AWS_PROFILE": "q"}),
    "AWS_PROFILE empty": Env(credentials="[default]\n" + KEYS.format("D"), env={"AWS_PROFILE": ""}),
    "role": Env(f"[default]\n{ROLE_OF.format('a', 'base')}", "[base]\n" + KEYS.format("B")),
    "role of a role": Env(
        f"[default]\n{ROLE_OF.format('a', 'b')}[profile b]\n{ROLE_OF.format('b', 'c')}", "[c]\n" + KEYS.format("C")
    ),
    "role, source with half a key": Env(f"[default]\n{ROLE_OF.format('a', 'b')}", "[b]\naws_access_key_id = AKIA\n"),
    "role of a process": Env(f"[default]\n{ROLE_OF.format('a', 'b')}[profile b]\n{PROCESS}"),
    "role of the machine": Env("[default]\n" + MACHINE_ROLE),
    "role of the machine, none there": Env("[default]\n" + MACHINE_ROLE, machine=False),
    "role of the container": Env(
        f"[default]\nrole_arn = {ROLE.format('r')}\ncredential_source = EcsContainer\n",
        env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/container"},
    ),
    "source_profile alone": Env("[default]\nsource_profile = b\n", why=ALONE),
    "web identity of the profile": Env("[default]\n" + WEB_PROFILE),
    "web identity without a role": Env("[default]\nweb_identity_token_file = {home}/token\n"),
    "web identity of the environment": Env(env=WEB),
    "web identity of no file": Env(env=WEB | {"AWS_WEB_IDENTITY_TOKEN_FILE": "{home}/none"}),
    "web identity of an empty file": Env(env=WEB, files={"token": " "}),
    "web identity variable without a role": Env(env={"AWS_WEB_IDENTITY_TOKEN_FILE": "{home}/token"}),
    "process": Env("[default]\n" + PROCESS),
    "process that fails": Env("[default]\ncredential_process = /bin/false\n"),
    "process that is missing": Env("[default]\ncredential_process = /no/such/program\n"),
    "process without JSON": Env("[default]\ncredential_process = /bin/echo planted-nonsense\n"),
    "sso": Env(f"[default]\n{SSO}{SSO_ROLE}", files=_sso_token("https://sso.test", LATER)),
    "sso session": Env(SSO_SESSION, files=_sso_token("s", LATER)),
    "sso session, refreshed": Env(SSO_SESSION, files=_sso_token("s", ENDED, **REFRESH)),
    "sso session of minutes": Env(SSO_SESSION, files=_sso_token("s", ENDED, **REFRESH | {"refreshToken": SHORT})),
    "sso session, refused": Env(
        SSO_SESSION,
        files=_sso_token("s", SOON, **REFRESH | {"refreshToken": REFUSED}),
        why="botocore uses the old token until it ends in some minutes",
    ),
    "role of sso": Env(
        f"[default]\n{ROLE_OF.format('a', 'b')}[profile b]\nsso_session = s\n{SSO_ROLE}[sso-session s]\n{SSO}",
        files=_sso_token("s", ENDED, **REFRESH),
    ),
    "sso without a login": Env(SSO_SESSION),
    "login without a session": Env("[default]\nlogin_session = arn:aws:iam::1:user/me\n"),
    "container": Env(env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/container"}),
    "container with a token": Env(
        env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "TOKEN"}
    ),
    "container at another machine": Env(env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.test/x"}),
    "container that fails": Env(env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/none"}),
    "old file": Env(env={"AWS_CREDENTIAL_FILE": "{home}/f"}, files={"f": "AWSAccessKeyId=AKIAEC2\nAWSSecretKey=s\n"}),
    "boto": Env(files={".boto": "[Credentials]\n" + KEYS.format("BOTO")}),
    "files elsewhere": Env(env={"AWS_CONFIG_FILE": "~/other"}, files={"other": "[default]\n" + KEYS.format("O")}),
    "file that is missing": Env(env={"AWS_CONFIG_FILE": "{home}/none"}, why=ALONE),
    "config is no INI": Env(config="[default\n"),
    "credentials are no INI": Env(credentials="aws_access_key_id = AKIA\n"),
}


@pytest.fixture
def services() -> Iterator[AwsServices]:
    with aws_services() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, services: AwsServices) -> Path:
    """A home directory, with variables that lead every service to this machine."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    cache = str(tmp_path / ".aws" / "sso" / "cache")  # which botocore takes from HOME when it is imported
    monkeypatch.setattr("botocore.credentials.SSOProvider._SSO_TOKEN_CACHE_DIR", cache)
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", cache)
    variables = {
        "HOME": str(tmp_path),
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": services.url,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    variables |= {f"AWS_ENDPOINT_URL_{service}": services.url for service in ("STS", "SSO", "SSO_OIDC")}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("getpass.getpass", lambda prompt: 1 / 0)  # botocore asks a person for the code of MFA
    (tmp_path / "token").write_text("ID.TOKEN")
    answer = {"Version": 1, "AccessKeyId": "PROCESS", "SecretAccessKey": "planted", "Expiration": LATER}
    (tmp_path / "process.py").write_text(f"print({json.dumps(answer)!r})\nopen(__file__ + '.runs', 'a').write('x')")
    return tmp_path


def arrange(given: Env, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files and set the variables."""
    services.machine_role = "m+a=c,h@ine" if given.machine else None
    files = {".aws/config": given.config, ".aws/credentials": given.credentials, **given.files}
    for name, text in files.items():
        if text:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text.replace("{home}", str(home)))
    for name, value in given.env.items():
        monkeypatch.setenv(name, value.replace("{home}", str(home)).replace("{url}", services.url))


def of_botocore() -> str:
    """The key id that botocore finds; empty if it finds none, or refuses."""
    try:
        found = Session().get_credentials()
        return found.get_frozen_credentials().access_key if found else ""
    except Exception:  # noqa: BLE001 - each of them is a refusal
        return ""


@dataclass
class Ours:
    """What the exporter finds: a key id and its origin, or the text of its refusal."""

    key: str = ""
    origin: str = ""
    refusal: str = ""
    reason: str = ""
    at_start: str = ""
    attempts: list[Attempt] = field(default_factory=list)


def ours(home: Path, section: str = "", region: str = "us-east-1") -> Ours:
    """The exporter's own way: the config, then the first use."""
    path, found = home / "config.yaml", Ours()
    path.write_text(
        f"providers: [{{name: p, platform: aws_sagemaker, region: {region}{section and ', credentials: '}{section}}}]"
    )
    try:
        (config,) = loaded(path, os.environ).providers
        assert isinstance(config, AwsSageMakerConfig)

        async def use() -> None:
            account = Account("test", CallLimits())
            context = BuildContext(settings=Global(), account=account, observe=found.attempts.append)
            provider = AwsSageMaker(config, context)
            credential = provider.identity
            found.at_start = credential.origin
            try:
                keys = await credential.keys(asyncio.get_running_loop().time() + 20)
                found.key, found.origin = keys.access_key_id, credential.origin
            finally:
                await provider.aclose()

        asyncio.run(use())
    except (ConfigError, CloudError) as error:
        found.refusal, found.reason = str(error), error.reason
    return found


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_identity_is_that_of_botocore(
    name: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ENVIRONMENTS[name]
    arrange(given, home, services, monkeypatch)
    found, theirs = ours(home), of_botocore()
    assert bool(found.key) != bool(found.refusal)
    assert "planted" not in found.refusal + found.origin + found.at_start
    if given.why:
        assert theirs
        assert not found.key
    else:
        assert found.key == theirs


BROKEN = {
    "credential_source": (Env("[default]\ncredential_source = Ec2InstanceMetadata\n"), "config"),
    "credential_process": (Env("[default]\ncredential_process = /bin/false\n"), "config"),
    "sso_session": (Env("[default]\nsso_session = s\n[sso-session s]\n" + SSO), "config"),
    "source_profile": (Env(f"[default]\n{ROLE_OF.format('a', 'misspelt')}"), "config"),
    "aws_secret_access_key": (Env(credentials="[default]\naws_access_key_id = AKIAHALF\n"), "credentials"),
    "aws_access_key_id": (Env(credentials="[default]\naws_access_key_id = AKIAHALF\n"), "credentials"),
    "mfa_serial needs a person": (
        Env(f"[default]\n{ROLE_OF.format('a', 'b')}mfa_serial = 1\n", "[b]\n" + KEYS.format("B")),
        "config",
    ),
    "web_identity_token_file": (Env("[default]\n" + WEB_PROFILE.replace("/token", "/none")), "config"),
    "it has no keys": (Env("[profile p]\nregion = us-east-1\n", env={"AWS_PROFILE": "p"}), "config"),
}


@pytest.mark.parametrize("key", BROKEN)
def test_broken_profile_never_becomes_the_machines_role(
    key: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, file = BROKEN[key]
    arrange(given, home, services, monkeypatch)
    found = ours(home)
    for words in (f"~/.aws/{file}", f'profile "{given.env.get("AWS_PROFILE", "default")}"', key):
        # In the same process, another test may have had the word as a secret.
        assert words in found.refusal.replace("aws_<secret>_access_key", "aws_secret_access_key")
    assert key == "credential_process" or "config.yaml:1" in found.refusal  # the program does not run at the check
    assert services.asked == []


ORIGINS = {
    "environment": ("environment", "environment", []),
    "keys in credentials": (*(PROFILE,) * 2, []),
    "role of a role": (*(f"STS role {ROLE.format('a')}, by {PROFILE}",) * 2, ["AssumeRole", "AssumeRole"]),
    "web identity of the environment": (
        *(f"web identity role {ROLE.format('pod')}, by the environment",) * 2,
        ["AssumeRoleWithWebIdentity"],
    ),
    "process": (*(PROFILE,) * 2, []),
    "role of a process": (*(f"STS role {ROLE.format('a')}, by {PROFILE}",) * 2, ["AssumeRole"]),
    "sso session, refreshed": (*(PROFILE,) * 2, ["CreateToken", "GetRoleCredentials"]),
    "container": (*("container credentials endpoint",) * 2, ["GetContainerKeys"]),
    "boto": ("boto config", "boto config", []),
    "nothing": ("EC2 metadata", "EC2 metadata, role m+a=c,h@ine", ["PutToken", "ListRoles", "GetRoleKeys"]),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_the_identity_is_named_and_its_calls_are_counted(
    name: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(ENVIRONMENTS[name], home, services, monkeypatch)
    (home / "token").write_text("ID.TOKEN\n")
    found = ours(home)
    assert (found.at_start, found.origin, [each.operation for each in found.attempts]) == ORIGINS[name]
    assert {each.outcome for each in found.attempts} <= {"ok"}
    assert [file.read_text() for file in home.glob("*.runs")] == ["x"] * ("process" in name)


SECTIONS = {
    "{access_key_id: AKIAK, secret_access_key: s}": "AKIAK",
    f"{{access_key_id: AKIAK, secret_access_key: s, role_arn: '{ROLE.format('a')}'}}": "STS.a.AKIAK",
    f"{{role_arn: '{ROLE.format('a')}', external_id: planted-external}}": "STS.a.AKIADEFAULT",
    f"{{role_arn: '{ROLE.format('a')}', profile: other}}": "STS.a.AKIAOTHER",
    "{profile: other}": "AKIAOTHER",
    f"{{web_identity: {{role_arn: '{ROLE.format('w')}', token_file: token}}}}": "STS.w.ID.TOKEN",
}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_form_of_the_section_works(
    section: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = f"[default]\n{KEYS.format('DEFAULT')}[other]\n{KEYS.format('OTHER')}"
    env = {"AWS_PROFILE": "none"} if "access_key_id" in section or "web_identity" in section else {}  # has no effect
    arrange(Env(credentials=profiles, env=env), home, services, monkeypatch)
    found = ours(home, section)
    assert found.key == SECTIONS[section], found
    assert [form["ExternalId"] for form in services.forms if "ExternalId" in form] == (
        [["planted-external"]] if "external" in section else []
    )
    assert "planted" not in found.origin


def test_profile_of_the_section_hides_the_environment(
    home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(Env(credentials="[p]\n" + KEYS.format("P"), env=ENV_KEYS), home, services, monkeypatch)
    assert ours(home, "{profile: p}").key == "AKIAP"
    missing = f"{PROFILE.replace('default', 'q')} cannot be used: there is no such profile"
    assert missing in ours(home, "{profile: q}").refusal


STS = {
    "denied": (403, DENIED, "AssumeRole: HTTP 403 AccessDenied", "sts:AssumeRole", "auth"),
    "empty": (200, "<AssumeRoleResponse></AssumeRoleResponse>", "AssumeRole: ", "used: KeyError", "bad_answer"),
    "no XML": (200, "<AssumeRoleResponse>", "AssumeRole: ", "used: ResponseParserError", "bad_answer"),
}


@pytest.mark.parametrize("name", STS)
def test_answer_of_sts_without_keys_is_named_and_counted(
    name: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text, begin, words, reason = STS[name]
    services.sts_answer = status, text
    arrange(Env(credentials="[default]\n" + KEYS.format("D")), home, services, monkeypatch)
    found = ours(home, f"{{role_arn: '{ROLE.format('a')}'}}")
    assert found.refusal.startswith(begin)
    assert words in found.refusal
    assert found.reason == reason
    assert [each.api for each in found.attempts] == ["sts"]


METADATA = {
    "the chain": Env(),
    "credential_source": Env("[default]\n" + MACHINE_ROLE),
    "credential_source of the container": ENVIRONMENTS["role of the container"],
    "container": ENVIRONMENTS["container"],
    "region of the defaults": Env("[default]\n" + MACHINE_ROLE, env={"AWS_DEFAULTS_MODE": "auto"}),
}


@pytest.mark.parametrize("name", METADATA)
def test_no_proxy_gets_a_call_to_metadata(
    name: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(METADATA[name], home, services, monkeypatch)
    with aws_services() as proxy:
        assert ours(home, f"null, http: {{proxy_url: '{proxy.url}'}}").key
    assert {"imds", "container"} & set(services.asked)
    assert not [path for path in proxy.paths if path.startswith(("/latest", f"{services.url}/latest"))]
    assert not [path for path in proxy.paths if path.endswith("/container")]


V1 = {"AWS_EC2_METADATA_V1_DISABLED": "true"}
CLOSED = "http://127.0.0.1:1"
HOPS = "the hop limit of the metadata service must be 2 or more"
AWAY = {
    "no connection": (Env(env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": CLOSED}), {"network"}, HOPS),
    "no connection, v1 disabled": (Env(env=V1 | {"AWS_EC2_METADATA_SERVICE_ENDPOINT": CLOSED}), {"network"}, HOPS),
    "no address": (Env(env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{CLOSED}/planted"}), set(), "EC2 metadata cannot"),
    "source": (Env("[default]\n" + MACHINE_ROLE, env={"AWS_EC2_METADATA_SERVICE_ENDPOINT": CLOSED}), {"network"}, HOPS),
    "container": (Env(env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{CLOSED}/planted"}), {"network"}, "container"),
    "container fails": (
        Env(env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": "{url}/500/planted"}),
        {"server"},
        "GetContainerKeys: HTTP 500 container credentials endpoint cannot be used",
    ),
    "container source": (
        Env(
            f"[default]\nrole_arn = {ROLE.format('r')}\ncredential_source = EcsContainer\n",
            env={"AWS_CONTAINER_CREDENTIALS_FULL_URI": CLOSED},
        ),
        {"network"},
        "credential_source",
    ),
    "no role": (Env(machine=False), {"ok", "not_found"}, "EC2 metadata cannot be used: this machine has no role"),
    "source without": (Env("[default]\n" + MACHINE_ROLE, machine=False), {"ok", "not_found"}, "machine has no role"),
    "sso": (
        Env(SSO_SESSION, files=_sso_token("s", ENDED, **REFRESH | {"refreshToken": REFUSED})),
        {"client"},
        f"CreateToken: HTTP 400 {PROFILE} (sso_session, sso_account_id, sso_role_name) cannot be used",
    ),
    "disabled": (Env(env={"AWS_EC2_METADATA_DISABLED": "true"}), set(), "EC2 metadata cannot be used: it is switched"),
}


@pytest.mark.parametrize("name", AWAY)
def test_service_without_keys_is_named_and_counted(
    name: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, outcomes, words = AWAY[name]
    arrange(given, home, services, monkeypatch)
    found = ours(home)
    assert {each.outcome for each in found.attempts} == outcomes, found
    assert words in found.refusal
    assert "planted" not in found.refusal


PROGRAMS = {
    "stderr": "import sys; sys.exit('planted-output')",
    "version": """print('{"Version": "planted-output"}')""",
    "no JSON": "print('planted-output')",
    "no keys": """print('{"Version": 1, "planted-output": 1}')""",
}


@pytest.mark.parametrize("profile", ["[default]\n", f"[default]\n{ROLE_OF.format('a', 'b')}[profile b]\n"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_error_never_quotes_output_of_a_program(
    program: str, profile: str, home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(Env(profile + PROCESS), home, services, monkeypatch)
    (home / "process.py").write_text(PROGRAMS[program])
    refusal = ours(home).refusal
    assert "planted" not in refusal
    assert PROFILE in refusal
    assert program == "no JSON" or "credentials from custom-process" in refusal


ENDLESS = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
subprocess.Popen(["sleep", "30"], start_new_session=True)  # keeps the output open
pathlib.Path(sys.argv[0]).with_name("pids").write_text(f"{os.getpid()} {child.pid}")
time.sleep(30)
"""


def test_endless_program_is_killed_with_its_children(
    home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(Env("[default]\n" + PROCESS), home, services, monkeypatch)
    (home / "process.py").write_text(ENDLESS)
    communicate, begun = subprocess.Popen.communicate, home / "pids"

    def once_begun(process: subprocess.Popen[bytes], **options: Any) -> tuple[bytes, bytes]:
        eventually(lambda: begun.exists() and begun.read_text(), what="the program to begin")
        return communicate(process, **options)

    monkeypatch.setattr("subprocess.Popen.communicate", once_begun)
    found = ours(home, "{profile: default}, http: {connect_timeout: 1s, request_timeout: 2s}")
    assert found.refusal == (
        f"{PROFILE} (credential_process) cannot be used: the program of credential_process "
        "did not end within 2 s (http.request_timeout) and was killed"
    )
    eventually(lambda: not any(map(is_running, begun.read_text().split())), what="the kernel to end them")


def is_running(pid: str) -> bool:
    """Return whether a process lives. One that its parent has not waited for does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@asynccontextmanager
async def searching() -> AsyncIterator[tuple[Any, KeyHttp]]:
    """The search of one exporter, which may be repeated."""
    context = BuildContext(settings=Global(), account=Account("test", CallLimits()), observe=print)
    config = AwsSageMakerConfig(name="p", platform="aws_sagemaker", region="us-east-1")
    transport = Transport(account=context.account, http=HttpSettings(), observe=print)
    http = KeyHttp(transport, context, config.endpoint, {})
    http.deadline = asyncio.get_running_loop().time() + 60
    try:
        yield partial(load, config=config), http
    finally:
        await http.aclose()
        await transport.aclose()


def test_hang_of_botocore_costs_two_threads(home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch) -> None:
    arrange(Env(credentials="[default]\n" + KEYS.format("D")), home, services, monkeypatch)
    release, read = threading.Event(), botocore.configloader.raw_config_parse

    def hang(*args: Any, **given: Any) -> Any:
        release.wait(60)
        return read(*args, **given)

    async def use() -> None:
        async with searching() as (find, http):
            monkeypatch.setattr("botocore.configloader.raw_config_parse", hang)  # after the check of the config
            http.deadline, others = 0.0, set(threading.enumerate())
            for words in ("the search for", "an earlier search for", "an earlier search for"):
                with pytest.raises(RequestTimedOut, match=f"{words} credentials .*hangs"):
                    await find(None, os.environ, http)
            begun = set(threading.enumerate()) - others
            assert len(begun) == 2
            release.set()
            await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in begun))
            http.deadline = asyncio.get_running_loop().time() + 20
            assert (await find(None, os.environ, http)).access_key_id == "AKIAD"

    asyncio.run(use())


def test_search_ends_with_its_fetch(home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch) -> None:
    arrange(ENVIRONMENTS["web identity of the environment"], home, services, monkeypatch)
    others = set(threading.enumerate())

    def is_over() -> bool:
        return THREAD_NAME not in [thread.name for thread in set(threading.enumerate()) - others]

    async def use() -> None:
        for begun in (0.01, 2.0):  # while the thread works, and while it waits for a response
            async with searching() as (find, http):
                call, http.call = http.call, lambda *given: asyncio.sleep(60)  # type: ignore[method-assign, assignment]
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(find(None, os.environ, http), begun)
                await asyncio.wait_for(asyncio.to_thread(eventually, is_over, what="the end of its thread"), 10)
                (home / "token").write_text(f"NEW.{begun}")
                http.call = call  # type: ignore[method-assign]
                assert (await find(None, os.environ, http)).access_key_id == f"STS.pod.NEW.{begun}"

    asyncio.run(use())


def test_global_sts_has_a_region(home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch) -> None:
    arrange(ENVIRONMENTS["role"], home, services, monkeypatch)
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "https://sts.amazonaws.com")

    async def refuse(http: KeyHttp, call: Any, into: Any, dialect: Any, url: str) -> None:
        raise CloudError(dialect.sign(call, url).headers["Authorization"].split("/")[2])

    monkeypatch.setattr(KeyHttp, "call", refuse)
    assert "us-east-1" in ours(home, region="eu-west-1").refusal


def test_private_names_may_change(home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch) -> None:
    arrange(ENVIRONMENTS["keys in credentials"], home, services, monkeypatch)
    monkeypatch.setattr("botocore.credentials.AssumeRoleProvider.__init__", lambda link, *_, **__: None)
    monkeypatch.setattr("botocore.credentials.AssumeRoleProvider.load", lambda link: None)
    assert ours(home).key == "AKIAD"


def test_keys_of_the_environment_have_their_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENV_KEYS, "AWS_CREDENTIAL_EXPIRATION": LATER}.items():
        monkeypatch.setenv(name, value)
    assert getattr(without_calls(load(None, os.environ, NoHttp())), "expires", None) is not None


def test_errors_of_botocore_bring_no_frames(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **given: Any) -> Any:
        raise ValueError("bad 'planted-secret' in /home/planted and (planted)")

    monkeypatch.setattr("botocore.credentials.EnvProvider.load", fail)
    with pytest.raises(CloudError) as caught:
        without_calls(load(None, os.environ, NoHttp()))
    assert "planted" not in str(caught.value)
    assert (caught.value.__context__, caught.value.__cause__) == (None, None)


def test_unreadable_file_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch, services: AwsServices) -> None:
    arrange(Env(credentials="[default]\n" + KEYS.format("D")), home, services, monkeypatch)
    read = files._read

    def refuse(path: Path, *args: Any) -> Any:  # as for a user who is not root
        if path.name == "credentials":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, *args)

    monkeypatch.setattr(files, "_read", refuse)
    assert "~/.aws/credentials cannot be used: Permission denied" in ours(home).refusal
    assert services.asked == []


@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "eusc-de-east-1"])
def test_addresses_are_those_of_botocore(region: str) -> None:
    session = Session()
    session.set_credentials("AKIA", "s")
    for fips in (False, True):
        for api, service in (("sagemaker", "sagemaker"), ("cloudwatch", "cloudwatch"), ("sts", "sts")):
            session.set_config_variable("use_fips_endpoint", fips)
            theirs = session.create_client(service, region_name=region).meta.endpoint_url
            assert public_endpoint(api, region, fips=fips) == theirs


def test_diagnose_names_the_profile_and_what_is_wrong(
    home: Path, services: AwsServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange(ENVIRONMENTS["process that fails"], home, services, monkeypatch)
    endpoints = f"{{sagemaker: '{services.url}', cloudwatch: '{services.url}'}}"
    provider = f"{{name: p, platform: aws_sagemaker, region: us-east-1, endpoints: {endpoints}}}"
    (home / "config.yaml").write_text(f"providers: [{provider}]")
    command = [sys.executable, "-m", "trainfleet_exporter", "diagnose", f"--config.file={home / 'config.yaml'}"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert found.returncode == 1
    assert 'credentials from: profile "default" of ~/.aws/config' in found.stdout
    assert "credential_process" in found.stdout
    assert services.asked == []


@pytest.mark.parametrize("region", ["cn-hangzhou", "cn-north-4", "us-east-1a"])
def test_regions_of_other_clouds_and_zones_are_refused(region: str, home: Path) -> None:
    assert region in ours(home, region=region).refusal
