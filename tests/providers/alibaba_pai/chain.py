"""Environments in which keys of Alibaba Cloud are found, in the vendor's documented order, and broken profiles."""

from __future__ import annotations

import json

import httpx

from tests.providers.key_rig import Answer, Chain, Env
from trainfleet_exporter.config import Secret
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials, Oidc, load

ROLE, PROVIDER = "acs:ram::1234567890123456:role/r", "acs:ram::1234567890123456:oidc-provider/p"
ENV = {"ALIBABA_CLOUD_ACCESS_KEY_ID": "env-id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "planted-env"}
OIDC = {
    "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": PROVIDER,
    "ALIBABA_CLOUD_ROLE_ARN": ROLE,
    "ALIBABA_CLOUD_OIDC_TOKEN_FILE": "{home}/token",
}
NO_MACHINE = {"ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true"}
KEYS = {"access_key_id": "id", "access_key_secret": "planted-secret"}
CLI, SDK = ".aliyun/config.json", ".alibabacloud/credentials"
MACHINE = ["PutToken", "ListRamRoles", "GetRamRoleCredentials"]


def cli(*profiles: dict[str, object], current: str = "default") -> dict[str, str]:
    """The CLI's file."""
    return {CLI: json.dumps({"current": current, "profiles": profiles})}


def profile(mode: str, name: str = "default", **keys: object) -> dict[str, object]:
    """A profile of the CLI."""
    return {"name": name, "mode": mode, **keys}


SHOWN = 'profile "default" of ~/.aliyun/config.json'
BASE = profile("AK", "base", **KEYS)
AK = cli(profile("AK", **KEYS))
ENVIRONMENTS = {
    "environment": Env("environment", [], ENV),
    "environment with a token": Env("environment", [], ENV | {"ALIBABA_CLOUD_SECURITY_TOKEN": "planted"}),
    "environment before OIDC": Env("environment", [], ENV | OIDC),
    "environment before profiles": Env("environment", [], ENV, AK),
    "OIDC": Env(f"OIDC role {ROLE}", ["AssumeRoleWithOIDC"], OIDC),
    "OIDC before profiles": Env(f"OIDC role {ROLE}", ["AssumeRoleWithOIDC"], OIDC, AK),
    "a role alone says nothing": Env("ECS metadata, role m", MACHINE, {"ALIBABA_CLOUD_ROLE_ARN": ROLE}),
    "CLI, AK": Env(SHOWN, [], {}, AK),
    "CLI, StsToken": Env(SHOWN, [], {}, cli(profile("StsToken", **KEYS, sts_token="planted"))),
    "CLI, RamRoleArn": Env(
        f"STS role {ROLE}, with keys of {SHOWN}",
        ["AssumeRole"],
        {},
        cli(profile("RamRoleArn", **KEYS, ram_role_arn=ROLE, policy='{\n  "Version": "1"\n}')),
    ),
    "CLI, chained role": Env(
        f"STS role {ROLE}",
        ["AssumeRole"],
        {},
        cli(profile("ChainableRamRoleArn", source_profile="base", ram_role_arn=ROLE), BASE),
    ),
    "CLI, EcsRamRole": Env(
        "ECS metadata, role n", [MACHINE[0], MACHINE[2]], {}, cli(profile("EcsRamRole", ram_role_name="n"))
    ),
    "CLI, OIDC": Env(
        f"OIDC role {ROLE}",
        ["AssumeRoleWithOIDC"],
        {},
        cli(profile("OIDC", oidc_provider_arn=PROVIDER, ram_role_arn=ROLE, oidc_token_file="{home}/token")),
    ),
    "CLI with a byte order mark": Env(SHOWN, [], {}, {CLI: "\ufeff" + AK[CLI]}),
    "CLI, two of one name": Env(SHOWN, [], {}, cli(profile("AK", **KEYS), profile("EcsRamRole", ram_role_name="n"))),
    "current profile": Env('profile "b"', [], {}, cli(profile("AK", "b", **KEYS), current="b")),
    "CLI before the file of the SDK": Env(SHOWN, [], {}, AK | {SDK: "[default]"}),
    "CLI disabled": Env("ECS metadata, role m", MACHINE, {"ALIBABA_CLOUD_CLI_PROFILE_DISABLED": "true"}, AK),
    "CLI, a chosen profile": Env(
        'profile "base"', [], {"ALIBABA_CLOUD_PROFILE": "base"}, cli(profile("CloudSSO"), BASE)
    ),
    "nothing": Env("ECS metadata, role m", MACHINE),
    "named role": Env("ECS metadata, role n", [MACHINE[0], MACHINE[2]], {"ALIBABA_CLOUD_ECS_METADATA": "n"}),
    "nothing at all": Env(env=NO_MACHINE, refusal=("no credentials found", "ECS metadata: it is disabled")),
    "half a key": Env(env={"ALIBABA_CLOUD_ACCESS_KEY_ID": "x"}, refusal=("ALIBABA_CLOUD_ACCESS_KEY_SECRET",)),
    "secret alone": Env(env={"ALIBABA_CLOUD_ACCESS_KEY_SECRET": "planted"}, refusal=("ALIBABA_CLOUD_ACCESS_KEY_ID",)),
    "token alone": Env(env={"ALIBABA_CLOUD_SECURITY_TOKEN": "planted"}, refusal=("ALIBABA_CLOUD_SECURITY_TOKEN",)),
    "half of OIDC": Env(env={"ALIBABA_CLOUD_OIDC_TOKEN_FILE": "/planted"}, refusal=("without ALIBABA_CLOUD_OIDC_PRO",)),
    "OIDC without its file": Env(
        env=OIDC | {"ALIBABA_CLOUD_OIDC_TOKEN_FILE": "/planted"}, refusal=("the file of ALIBABA_CLOUD_OIDC_TOKEN_FILE",)
    ),
    "file of the SDK": Env(files={SDK: "[planted]"}, refusal=("~/.alibabacloud/credentials is not supported",)),
    "file of the SDK in Python": Env(files={SDK + ".ini": "[planted]"}, refusal=("credentials.ini is not supported",)),
    "file elsewhere": Env(
        env={"ALIBABA_CLOUD_CREDENTIALS_FILE": "/planted"}, refusal=("CREDENTIALS_FILE, which is not",)
    ),
    "URI": Env(
        env={"ALIBABA_CLOUD_CREDENTIALS_URI": "http://planted.test"}, refusal=("CREDENTIALS_URI, which is not",)
    ),
    "CLI is no JSON": Env(files={CLI: "{planted"}, refusal=("~/.aliyun/config.json cannot be used: it is not a JSON",)),
}
BROKEN = {
    "half a key": Env(files=cli(profile("AK", access_key_id="id")), refusal=(f"access_key_secret of {SHOWN}",)),
    "secret alone": Env(files=cli(profile("AK", access_key_secret="planted")), refusal=(f"access_key_id of {SHOWN}",)),
    "role without a key": Env(
        files=cli(profile("RamRoleArn", ram_role_arn=ROLE)), refusal=(f"access_key_id of {SHOWN}",)
    ),
    "role without an ARN": Env(files=cli(profile("RamRoleArn", **KEYS)), refusal=(f"ram_role_arn of {SHOWN}",)),
    "token without a token": Env(files=cli(profile("StsToken", **KEYS)), refusal=(f"sts_token of {SHOWN}",)),
    "External": Env(files=cli(profile("External")), refusal=(SHOWN, 'mode "External" is not supported')),
    "CloudSSO": Env(files=cli(profile("CloudSSO")), refusal=(SHOWN, 'mode "CloudSSO" is not supported')),
    "no mode": Env(files=cli(profile("")), refusal=(SHOWN, "mode")),
    "current profile is missing": Env(files=cli(BASE), refusal=("~/.aliyun/config.json", 'no profile "default"')),
    "chosen profile is misspelt": Env(
        env={"ALIBABA_CLOUD_PROFILE": "bse"}, files=cli(BASE), refusal=('no profile "bse"',)
    ),
    "no profile is current": Env(
        files=cli(BASE, current=""), refusal=("~/.aliyun/config.json", "no profile is current")
    ),
    "source is misspelt": Env(
        files=cli(profile("ChainableRamRoleArn", source_profile="bse", ram_role_arn=ROLE)),
        refusal=('no profile "bse"',),
    ),
    "source in a circle": Env(
        files=cli(profile("ChainableRamRoleArn", source_profile="default", ram_role_arn=ROLE)),
        refusal=("source_profile",),
    ),
}


def answer(request: httpx.Request) -> httpx.Response:
    """STS, and the metadata service of a machine with the role `m`."""
    path = request.url.path
    keys = {"AccessKeyId": "issued", "AccessKeySecret": "planted-i", "SecurityToken": "planted-t"}
    keys |= {"Expiration": "2099-01-01T00:00:00Z"}
    if request.url.host == "sts.test":
        return httpx.Response(200, json={"Credentials": keys})
    if path == "/latest/api/token":
        return httpx.Response(200, text="session")
    if path.endswith("/security-credentials/"):
        return httpx.Response(200, text="m")
    return httpx.Response(200, json={"Code": "Success", **keys})


S = Secret
SECTIONS: dict[str, tuple[Credentials, str, list[str]]] = {
    "keys": (Credentials(access_key_id=S("a"), access_key_secret=S("planted")), "config file", []),
    "role": (
        Credentials(access_key_id=S("a"), access_key_secret=S("planted"), role_arn=ROLE, external_id=S("planted-x")),
        f"STS role {ROLE}, with keys of the config file",
        ["AssumeRole"],
    ),
    "role of the chain": (Credentials(role_arn=ROLE), f"STS role {ROLE}, with keys of {SHOWN}", ["AssumeRole"]),
    "oidc": (
        Credentials(oidc=Oidc(provider_arn=PROVIDER, role_arn=ROLE, token=S("planted-token"))),
        f"OIDC role {ROLE}, with the token of the config file",
        ["AssumeRoleWithOIDC"],
    ),
    "machine": (Credentials(ecs_ram_role=True), "ECS metadata, role m", MACHINE),
    "profile": (Credentials(profile="default"), SHOWN, []),
}


BAD_ANSWERS: dict[str, tuple[Answer, str]] = {
    "no role": (lambda request: httpx.Response(404), "this machine has no role or agency"),
    "refused": (lambda request: httpx.Response(401), "HTTP 401 the service gave no reason"),
    "a code": (lambda request: httpx.Response(200, json={"Code": "Planted key here"}), "the answer lacks keys"),
    "incomplete": (lambda request: httpx.Response(200, json={"Code": "Success"}), "the answer lacks keys"),
    "broken": (lambda request: httpx.Response(500), "HTTP 500"),
}


CHAIN = Chain(load, answer, ENVIRONMENTS, BROKEN, AK, SECTIONS, Credentials(ecs_ram_role="n"), BAD_ANSWERS)
