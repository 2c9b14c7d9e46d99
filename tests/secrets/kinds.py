"""Every kind of credentials of both clouds, with planted secrets, ready to be polled with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.accounts import ACCOUNTS, config_text, provider
from tests.support.configs import exporter_of, written
from tests.support.planted import Planted
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_simulator import Simulator
from trainfleet_simulator.identity import Key
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.agency import AGENCY_URN, PROVIDER_URN
from trainfleet_simulator.pai.sts import OIDC_PROVIDER, Sts

PLANTED = Planted()
# What goes into a header is simple, as real ones are; what only signs or goes into a body is as hard as can be.
KEY_ID = PLANTED.plant("access key id", special=False)
KEY_SECRET = PLANTED.plant("access key secret")
EXTERNAL_ID = PLANTED.plant("external id")
ID_TOKEN = PLANTED.plant("ID token")
PASSWORD = catalog.PASSWORD  # the simulated IAM knows one user
PLANTED.secrets["password"] = PASSWORD
PROXY_PASSWORD = PLANTED.plant("proxy password", special=False)
ROLE_ARN = Sts.role_arn()
KIND_SECRETS = (KEY_ID, KEY_SECRET, EXTERNAL_ID, ID_TOKEN, PASSWORD)


@dataclass(frozen=True)
class Kind:
    """One way to say who asks: `given` in the config (YAML, one line), the environment, files; {home} and {url}."""

    cloud: str
    given: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    project: bool = True
    """Whether the config names the project (ModelArts); else it is asked for."""


def _yaml(**values: object) -> str:
    return json.dumps(values, ensure_ascii=False)


_PAI_KEYS = {"access_key_id": KEY_ID, "access_key_secret": KEY_SECRET}
_PAI_ENVIRON = {"ALIBABA_CLOUD_ACCESS_KEY_ID": KEY_ID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": KEY_SECRET}
_PAI_OIDC = {"provider_arn": OIDC_PROVIDER, "role_arn": ROLE_ARN}
_HUAWEI_KEYS = {"access_key": KEY_ID, "secret_key": KEY_SECRET}
_HUAWEI_ENVIRON = {"HUAWEICLOUD_SDK_AK": KEY_ID, "HUAWEICLOUD_SDK_SK": KEY_SECRET}
_USER = {"username": catalog.USER_NAME, "domain_name": catalog.DOMAIN_NAME}
_HUAWEI_OIDC = {"provider_urn": PROVIDER_URN, "agency_urn": AGENCY_URN}
_FILES = {"id": f"{KEY_ID}\n", "secret": f"{KEY_SECRET}\n", "token": f"{ID_TOKEN}\n", "password": f"{PASSWORD}\n"}
_HUAWEI_INI = {".huaweicloud/credentials": f"[basic]\nak = {KEY_ID}\nsk = {KEY_SECRET}\n"}


def _cli(**fields: str) -> dict[str, str]:
    profile = {"name": "prod", "mode": "AK", **_PAI_KEYS, **fields}
    return {".aliyun/config.json": json.dumps({"current": "prod", "profiles": [profile]})}


KINDS = {
    "pai: keys": Kind("pai", _yaml(**_PAI_KEYS)),
    "pai: keys of files": Kind("pai", _yaml(access_key_id_file="id", access_key_secret_file="secret"), files=_FILES),
    "pai: keys of variables": Kind("pai", environ=_PAI_ENVIRON),
    "pai: keys by reference": Kind(
        "pai", _yaml(access_key_id="${ID}", access_key_secret="${SECRET}"), {"ID": KEY_ID, "SECRET": KEY_SECRET}
    ),
    "pai: role": Kind("pai", _yaml(**_PAI_KEYS, role_arn=ROLE_ARN, external_id=EXTERNAL_ID)),
    "pai: oidc": Kind("pai", _yaml(oidc={**_PAI_OIDC, "token": ID_TOKEN})),
    "pai: oidc of a file": Kind("pai", _yaml(oidc={**_PAI_OIDC, "token_file": "token"}), files=_FILES),
    "pai: machine": Kind("pai", _yaml(ecs_ram_role=True)),
    "pai: profile": Kind("pai", _yaml(profile="prod"), {"HOME": "{home}"}, _cli()),
    "pai: role of a profile": Kind(
        "pai",
        environ={"HOME": "{home}"},
        files=_cli(mode="RamRoleArn", ram_role_arn=ROLE_ARN, external_id=EXTERNAL_ID),
    ),
    "modelarts: keys": Kind("modelarts", _yaml(**_HUAWEI_KEYS)),
    "modelarts: keys without a project": Kind("modelarts", _yaml(**_HUAWEI_KEYS), project=False),
    "modelarts: keys of files": Kind("modelarts", _yaml(access_key_file="id", secret_key_file="secret"), files=_FILES),
    "modelarts: keys of variables": Kind("modelarts", environ=_HUAWEI_ENVIRON),
    "modelarts: password": Kind("modelarts", _yaml(**_USER, password=PASSWORD)),
    "modelarts: password of a file": Kind("modelarts", _yaml(**_USER, password_file="password"), files=_FILES),
    "modelarts: oidc": Kind("modelarts", _yaml(oidc={**_HUAWEI_OIDC, "token_file": "token"}), files=_FILES),
    "modelarts: machine": Kind("modelarts", _yaml(ecs_agency=True)),
    "modelarts: profile": Kind("modelarts", _yaml(profile="basic"), {"HOME": "{home}"}, _HUAWEI_INI),
}


def simulated() -> Simulator:
    """Both clouds, which are opened by the planted secrets."""
    simulator = Simulator(3, clouds=("pai", "modelarts"), population=3)
    simulator.sts.permanent = simulator.agency.permanent = Key(KEY_ID, KEY_SECRET)
    simulator.sts.external_id = EXTERNAL_ID
    simulator.sts.oidc_token = ID_TOKEN
    simulator.agency.oidc_token = ID_TOKEN
    return simulator


def write(
    folder: Path, kind: Kind, url: str, *, http: Mapping[str, object] | None = None
) -> tuple[Path, dict[str, str]]:
    """The config file, all of whose endpoints are at `url`, and the environment that goes with it."""
    for file, content in kind.files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(content, encoding="utf-8")
    limits = {"requests_per_second": 1000, "monthly_calls": {ACCOUNTS[kind.cloud].apis[0]: 100000}}
    given: dict[str, Any] = {"name": "p", "credentials": json.loads(kind.given or "null"), "http": http}
    given |= {} if kind.project else {"project_id": None}
    path = written(folder, config_text([provider(kind.cloud, url, limits=limits, **given)]))
    environ = {key: value.replace("{home}", str(folder)) for key, value in kind.environ.items()}
    return path, {key: value.replace("{url}", url) for key, value in environ.items()}


def build(folder: Path, kind: Kind, url: str, *, http: Mapping[str, object] | None = None) -> Exporter:
    """The exporter of one provider with these credentials."""
    path, environ = write(folder, kind, url, http=http)
    return exporter_of(path, environ)


def with_issued(simulator: Simulator) -> Planted:
    """The planted secrets, and whatever keys and tokens the clouds have issued for them."""
    every = Planted()
    every.secrets |= PLANTED.secrets
    for number, key in enumerate(simulator.sts.issued):
        every.secrets[f"issued id {number}"] = key.access_key_id
        every.secrets[f"issued secret {number}"] = key.access_key_secret
        every.secrets[f"issued token {number}"] = key.security_token or "none at all"
    for number, theirs in enumerate(simulator.agency.issued):
        every.secrets[f"issued key {number}"] = theirs.access_key_id
        every.secrets[f"issued secret key {number}"] = theirs.access_key_secret
        every.secrets[f"issued security token {number}"] = theirs.security_token
    return every
