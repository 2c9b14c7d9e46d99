"""Each source of credentials: the config's forms, profiles, the environment, and the services that issue keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from botocore.config import Config as ClientConfig
from botocore.session import Session as BotocoreSession

from tests.providers.aws_sagemaker.models import request_faults
from tests.providers.credentials.rig import MockClients, ask
from tests.support.clock import START, run_stepped
from trainfleet_exporter.config import Secret, load_config
from trainfleet_exporter.errors import AccessDenied, ConfigError
from trainfleet_exporter.providers.aws_sagemaker.auth import credential_table, default_chain, find_profile
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.aws_sagemaker.provider import PLATFORM
from trainfleet_exporter.providers.aws_sagemaker.signing import ServerClock
from trainfleet_exporter.providers.credentials import (
    AssumedRole,
    Environment,
    FirstOf,
    GivenKeys,
    Issued,
    Keys,
    KeySource,
    KeysUri,
    MachineRole,
    OidcRole,
    ProfileKeys,
    open_credential,
)
from trainfleet_exporter.transport.json_fields import iso_time

ROLE = "arn:aws:iam::123456789012:role/trainfleet"
GIVEN = GivenKeys(Secret("AKIDEXAMPLE"), Secret("planted-secret"))
ENVIRON = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "planted-secret"}


def _xml(operation: str) -> str:
    keys = {
        "AccessKeyId": "ASIA1",
        "SecretAccessKey": "s/1+=",
        "SessionToken": "t/1+=",
        "Expiration": iso_time(START + 3600),
    }
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in keys.items())
    result = f"<{operation}Result><Credentials>{inner}</Credentials></{operation}Result>"
    return f'<{operation}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{result}</{operation}Response>'


def _ask(source: KeySource, answer: Callable[[httpx.Request], httpx.Response]) -> Issued[Any] | str:
    return ask(source, credential_table("eu-west-1", ServerClock()), answer)


def _is_first(found: Issued[Any] | str) -> bool:
    return found == Issued(Keys("ASIA1", "s/1+=", "t/1+="), START + 3600)


def test_a_role_is_assumed_with_its_external_id() -> None:
    asked: list[dict[str, Any]] = []

    def sts(request: httpx.Request) -> httpx.Response:
        form = {name: value for name, (value,) in parse_qs(request.content.decode()).items()}
        assert (form.pop("Action"), form.pop("Version")) == ("AssumeRole", "2011-06-15")
        asked.append({**form, "DurationSeconds": int(form["DurationSeconds"])})
        assert "/eu-west-1/sts/aws4_request" in request.headers["authorization"]
        assert request.headers["accept"] == "*/*"
        return httpx.Response(200, text=_xml("AssumeRole"))

    assert _is_first(_ask(AssumedRole(ROLE, GIVEN, Secret("planted-id")), sts))
    assert request_faults("sts", "AssumeRole", asked[0]) == []
    assert (asked[0]["RoleArn"], asked[0]["ExternalId"]) == (ROLE, "planted-id")


def test_a_web_identity_is_exchanged_unsigned(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("planted.web.token\n")

    def sts(request: httpx.Request) -> httpx.Response:
        form = {name: value for name, (value,) in parse_qs(request.content.decode()).items()}
        assert (form.pop("Action"), form.pop("Version")) == ("AssumeRoleWithWebIdentity", "2011-06-15")
        asked = {**form, "DurationSeconds": int(form["DurationSeconds"])}
        assert request_faults("sts", "AssumeRoleWithWebIdentity", asked) == []
        assert form["WebIdentityToken"] == "planted.web.token"
        assert "authorization" not in request.headers
        return httpx.Response(200, text=_xml("AssumeRoleWithWebIdentity"))

    source = default_chain(Environment({"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": ROLE}))
    assert isinstance(source, OidcRole)
    assert _is_first(_ask(source, sts))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<AssumeRoleResponse></AssumeRoleResponse>", "the answer lacks keys"),
        ("{}", "the answer is not XML"),
        (_xml("AssumeRole").replace(iso_time(START + 3600), iso_time(START - 1)), "expired at"),
    ],
)
def test_an_answer_of_sts_without_keys_is_refused(body: str, said: str) -> None:
    found = _ask(AssumedRole(ROLE, GIVEN), lambda request: httpx.Response(200, text=body))
    assert isinstance(found, str)
    assert said in found
    assert "planted" not in found


def _keys(**fields: str) -> dict[str, str]:
    given = {"AccessKeyId": "ASIA1", "SecretAccessKey": "s/1+=", "Token": "t/1+=", "Expiration": iso_time(START + 3600)}
    return given | fields


def test_ec2_metadata_is_asked_with_a_session() -> None:
    paths: list[str] = []

    def imds(request: httpx.Request) -> httpx.Response:
        paths.append(f"{request.method} {request.url.raw_path.decode()}")
        if request.method == "PUT":
            assert request.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            return httpx.Response(200, text="planted-session")
        assert request.headers["x-aws-ec2-metadata-token"] == "planted-session"
        if request.url.path.endswith("/security-credentials/"):
            return httpx.Response(200, text="node+role=a,b@c_d.e-f")
        return httpx.Response(200, json=_keys(Code="Success", Type="AWS-HMAC"))

    assert _is_first(_ask(MachineRole(), imds))
    folder = "/latest/meta-data/iam/security-credentials/"
    role = "node%2Brole%3Da%2Cb%40c_d.e-f"
    assert paths == ["PUT /latest/api/token", f"GET {folder}", f"GET {folder}{role}"]


def test_ec2_metadata_without_a_role_says_so() -> None:
    def imds(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="x") if request.method == "PUT" else httpx.Response(404)

    assert "this machine has no IAM role" in str(_ask(MachineRole(), imds))


def test_ec2_metadata_with_another_code_has_no_keys() -> None:
    def imds(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT" or request.url.path.endswith("/security-credentials/"):
            return httpx.Response(200, text="x")
        return httpx.Response(200, json={"Code": "AssumeRoleUnauthorizedAccess"})

    assert "no keys, but AssumeRoleUnauthorizedAccess" in str(_ask(MachineRole(), imds))


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        (
            {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/planted"},
            "http://169.254.170.2/v2/credentials/planted",
        ),
        (
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials"},
            "http://169.254.170.23/v1/credentials",
        ),
        (
            {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://[fd00:ec2::23]/v1/credentials"},
            "http://[fd00:ec2::23]/v1/credentials",
        ),
    ],
)
def test_the_container_endpoint_is_asked_with_its_token(environ: dict[str, str], url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("planted-pod-token")
    environ = environ | {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"), "HOME": str(tmp_path)}

    def endpoint(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == url
        assert request.headers["authorization"] == "planted-pod-token"
        return httpx.Response(200, json=_keys())

    source = default_chain(Environment(environ))
    assert isinstance(source, FirstOf)
    assert isinstance(source.links[0], KeysUri)
    assert _is_first(_ask(source, endpoint))


def test_the_chain_in_its_order(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    (tmp_path / ".aws").mkdir()
    (tmp_path / "token").write_text("t")
    web = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": ROLE}
    container = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}
    assert isinstance(default_chain(Environment(home | container | web | ENVIRON)), GivenKeys)
    assert isinstance(default_chain(Environment(home | container | web)), OidcRole)
    (tmp_path / ".aws/credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    assert isinstance(default_chain(Environment(home | container)), ProfileKeys)
    (tmp_path / ".aws/credentials").unlink()
    chain = default_chain(Environment(home | container))
    assert isinstance(chain, FirstOf)
    assert isinstance(chain.links[0], KeysUri)
    chain = default_chain(Environment(home | {"AWS_EC2_METADATA_V1_DISABLED": "true"}))
    assert isinstance(chain, FirstOf)
    assert chain.links == (MachineRole(needs_session=True),)


PROFILES = """
[profile keys]
aws_access_key_id = AKIDCONFIG
aws_secret_access_key = planted-config

[profile role]
role_arn = arn:aws:iam::123456789012:role/trainfleet
source_profile = keys
external_id = planted-id

[profile web]
role_arn = arn:aws:iam::123456789012:role/trainfleet
web_identity_token_file = {home}/token

[profile me]
role_arn = arn:aws:iam::123456789012:role/trainfleet
source_profile = me
aws_access_key_id = AKIDME
aws_secret_access_key = planted-me

[profile circle]
role_arn = arn:aws:iam::123456789012:role/trainfleet
source_profile = circle

[profile person]
sso_session = corp
sso_account_id = 123456789012

[profile program]
credential_process = /bin/planted

[profile odd]
role_arn = planted
source_profile = keys

[profile half]
aws_access_key_id = AKIDHALF
"""


@pytest.fixture
def profiles(tmp_path: Path) -> Environment:
    (tmp_path / ".aws").mkdir()
    (tmp_path / "token").write_text("planted.token")
    (tmp_path / ".aws/config").write_text(PROFILES.format(home=tmp_path))
    (tmp_path / ".aws/credentials").write_text(
        "[both]\naws_access_key_id = AKIDBOTH\naws_secret_access_key = planted-both\naws_session_token = planted-t\n"
    )
    return Environment({"HOME": str(tmp_path)})


def test_profiles_of_both_files(profiles: Environment, tmp_path: Path) -> None:
    keys = find_profile("keys", profiles)
    assert isinstance(keys, ProfileKeys)
    assert keys.file.shown == "~/.aws/config"
    assert find_profile("role", profiles) == AssumedRole(ROLE, keys, Secret("planted-id", source="~/.aws/config"))
    assert isinstance(find_profile("web", profiles), OidcRole)
    mine = find_profile("me", profiles)
    assert isinstance(mine, AssumedRole)
    assert isinstance(mine.base, ProfileKeys)
    both = find_profile("both", profiles)
    assert isinstance(both, ProfileKeys)

    async def main() -> None:
        table = credential_table("us-east-1", ServerClock())
        credential = open_credential(both, table, MockClients(lambda request: httpx.Response(500)))
        deadline = asyncio.get_running_loop().time() + 5
        await credential.prepare(deadline)
        assert credential.current() == Keys("AKIDBOTH", "planted-both", "planted-t")
        file = tmp_path / ".aws/credentials"
        file.write_text(file.read_text().replace("BOTH", "NEXT"))
        await credential.prepare(deadline)
        await asyncio.sleep(3)
        await credential.prepare(deadline)
        assert credential.current().access_key_id == "AKIDNEXT"

    run_stepped(main)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("person", "uses sso, which is not supported; allowed: keys, role_arn"),
        ("program", "uses credential_process, which is not supported"),
        ("circle", "has no keys"),
        ("odd", "is not the ARN of a role"),
        ("half", "aws_secret_access_key"),
        ("nobody", "no profile"),
    ],
)
def test_profiles_that_cannot_be_used(profiles: Environment, name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AccessDenied) as refused:
        find_profile(name, profiles)
    assert said in str(refused.value)
    assert "planted" not in str(refused.value)


CONFIG = """
providers:
  - name: p
    platform: aws_sagemaker
    region: {region}
    {more}
"""


def _config(
    folder: Path, more: str, region: str = "us-east-1", environ: dict[str, str] | None = None
) -> AwsSageMakerConfig:
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(region=region, more=more))
    loaded = load_config(
        path, environ=ENVIRON if environ is None else environ, platforms={PLATFORM.name: PLATFORM.config}
    )
    (found,) = loaded.providers
    assert isinstance(found, AwsSageMakerConfig)
    return found


KEYS = "access_key_id: AKIDEXAMPLE, secret_access_key: planted-secret"


def test_forms_of_the_config(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    assert isinstance(_config(tmp_path, "").credentials.source, GivenKeys)
    role = _config(tmp_path, f"credentials: {{{KEYS}, role_arn: '{ROLE}', external_id: x}}").credentials.source
    assert isinstance(role, AssumedRole)
    assert isinstance(role.base, GivenKeys)
    assert role.external_id is not None
    chained = _config(tmp_path, f"credentials: {{role_arn: '{ROLE}'}}").credentials.source
    assert isinstance(chained, AssumedRole)
    web = _config(tmp_path, f"credentials: {{web_identity: {{role_arn: '{ROLE}', token_file: token}}}}").credentials
    assert isinstance(web.source, OidcRole)
    assert _config(tmp_path, "").model_dump()["credentials"] is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("credentials: {access_key_id: planted}", "without secret_access_key"),
        (f"credentials: {{{KEYS}, profile: x}}", "together"),
        ("credentials: {role_arn: planted}", "an IAM role's ARN"),
        (f"credentials: {{{KEYS}, external_id: planted}}", "external_id without role_arn"),
        (f"credentials: {{{KEYS}, security_token: planted}}", 'did you mean "session_token"?'),
        ("credentials: {profile: nobody}", "cannot be used"),
        ("workspaces: [team]", "AWS has no workspaces"),
        ("project_id: x", "only Huawei Cloud has projects"),
    ],
)
def test_configs_that_are_refused(tmp_path: Path, more: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _config(tmp_path, more)
    assert said in str(refused.value)
    assert "planted-secret" not in str(refused.value)


@pytest.mark.parametrize("region", ["cn-hangzhou", "cn-north-4", "us-east-1a"])
def test_regions_of_other_clouds_and_zones_are_refused(tmp_path: Path, region: str) -> None:
    with pytest.raises(ConfigError):
        _config(tmp_path, "", region=region)


def test_an_environment_that_is_half_set_is_refused(tmp_path: Path) -> None:
    for environ in (
        {"AWS_ACCESS_KEY_ID": "planted"},
        {"AWS_PROFILE": "nobody", "HOME": str(tmp_path)},
        {"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/x"},
    ):
        with pytest.raises(ConfigError):
            _config(tmp_path, "", environ=environ)


_NAMES = {"sagemaker": "sagemaker", "cloudwatch": "cloudwatch", "sts": "sts"}


@pytest.mark.parametrize("fips", [False, True])
@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "cn-north-1", "cn-northwest-1", "us-gov-west-1"])
def test_addresses_are_those_of_botocore(tmp_path: Path, region: str, fips: bool) -> None:
    if fips and region.startswith("cn-"):
        pytest.skip("there is no FIPS in China")
    config = _config(tmp_path, f"fips: {str(fips).lower()}", region=region)
    session = BotocoreSession()
    session.set_credentials("x", "x")
    settings = ClientConfig(use_fips_endpoint=fips)
    for api, name in _NAMES.items():
        client = session.create_client(name, region_name=region, config=settings)
        assert config.endpoint(api) == client.meta.endpoint_url


def test_regions_are_those_of_the_vendor() -> None:
    session = BotocoreSession()
    known = {
        region
        for partition in ("aws", "aws-cn", "aws-us-gov")
        for region in session.get_available_regions("sagemaker", partition_name=partition)
    }
    assert known <= set(AwsSageMakerConfig.known_regions)
