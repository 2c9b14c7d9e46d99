"""Environments in which keys of Huawei Cloud are found, in the vendor's documented order, and broken profiles."""

from __future__ import annotations

import httpx

from tests.providers.key_rig import Answer, Chain, Env
from trainfleet_exporter.config import Secret
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


ENVIRONMENTS = {
    "OIDC": Env(AGENCY, ASKED, OIDC),
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
    "OIDC with a token": Env(
        env={"HUAWEICLOUD_OIDC_ID_TOKEN": "planted"}, refusal=("sets HUAWEICLOUD_OIDC_ID_TOKEN, which is not",)
    ),
    "OIDC without its file": Env(
        env=OIDC | {"HUAWEICLOUD_OIDC_TOKEN_FILE": "/planted"}, refusal=("the file of HUAWEICLOUD_OIDC_TOKEN_FILE",)
    ),
    "pod identity": Env(
        env={"HC_CONTAINER_CREDENTIALS_FULL_URI": "http://planted.test"}, refusal=("HC_CONTAINER_CREDENTIALS_FULL_URI",)
    ),
    "federated": Env(env={"HUAWEICLOUD_SDK_IDP_ID": "x"}, refusal=("HUAWEICLOUD_SDK_IDP_ID",)),
    "wrong project": Env(env={"HUAWEICLOUD_SDK_PROJECT_ID": "a b"}, refusal=("HUAWEICLOUD_SDK_PROJECT_ID",)),
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


NO_TOKEN = {"access": "a", "secret": "planted", "expires_at": "2099-01-01T00:00:00.000000Z"}
BAD_ANSWERS: dict[str, tuple[Answer, str]] = {
    "no agency": (lambda request: httpx.Response(404), "this machine has no role or agency"),
    "incomplete": (lambda request: httpx.Response(200, json={"credential": NO_TOKEN}), "the answer lacks keys"),
    "broken": (lambda request: httpx.Response(500), "HTTP 500"),
}


CHAIN = Chain(
    load,
    answer,
    ENVIRONMENTS,
    BROKEN,
    BASIC,
    SECTIONS,
    Credentials(ecs_agency=True),
    BAD_ANSWERS,
    more={"scope": {"name": "cn-north-4"}},
)
