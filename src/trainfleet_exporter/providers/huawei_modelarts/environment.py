"""Credentials where the config names none: the vendor's own order, as far as it can be known without a network.

    OIDC variables ──none──► access key variables ──none──► profile file ──none──► ECS metadata, asked when first needed

A link of which only a half is set is a fault: whoever set it did not mean the next one.

https://github.com/huaweicloud/huaweicloud-sdk-python-v3
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from trainfleet_exporter.config.plain import is_plain
from trainfleet_exporter.config.scalars import refuse
from trainfleet_exporter.config.secrets import Secret, unusable
from trainfleet_exporter.config.wording import Rule
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.huawei_modelarts.profiles import PROJECT_ID, ProfileFile
from trainfleet_exporter.providers.huawei_modelarts.sts import Session

_PROVIDER, _AGENCY = "HUAWEICLOUD_OIDC_PROVIDER_URN", "HUAWEICLOUD_OIDC_AGENCY_URN"
_ID_TOKEN, _ID_TOKEN_FILE = "HUAWEICLOUD_OIDC_ID_TOKEN", "HUAWEICLOUD_OIDC_TOKEN_FILE"
_SESSION, _DURATION = "HUAWEICLOUD_OIDC_SESSION_NAME", "HUAWEICLOUD_OIDC_DURATION_SECONDS"
_POLICY, _POLICY_IDS = "HUAWEICLOUD_OIDC_POLICY", "HUAWEICLOUD_OIDC_POLICY_IDS"
_FEDERATED = "HUAWEICLOUD_SDK_IDP_ID"
_AK, _SK = "HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK"
_SECURITY_TOKEN = "HUAWEICLOUD_SDK_SECURITY_TOKEN"  # noqa: S105 - a name
_PROJECT = "HUAWEICLOUD_SDK_PROJECT_ID"
_PROFILES = "HUAWEICLOUD_SDK_CREDENTIALS_FILE"
_DEFAULT_PROFILE = "basic"


@dataclass(frozen=True, slots=True)
class Found:
    """The first link that has something: what the config would have to say for it (`given`), and its project.

    `tried` says why each link before it has nothing; `session` is what else is to be asked of STS.
    """

    given: Mapping[str, Any] = field(repr=False)
    tried: tuple[str, ...] = ()
    session: Session = field(default_factory=Session)
    project_id: str = ""


def found_in(environ: Mapping[str, str]) -> Found:
    """The link that stands in for credentials; refuses an environment that says half of one."""
    return _oidc(environ) or _keys(environ) or _profile(environ)


def profile_file(name: str, environ: Mapping[str, str]) -> ProfileFile:
    """The file of a profile, whether or not it is there. `AccessDenied` where nothing says where it would be."""
    if path := environ.get(_PROFILES):
        return ProfileFile(Path(path), name, shown=path if is_plain(path) else f"of {_PROFILES}")
    if home := environ.get("HOME"):
        return ProfileFile(Path(home, ".huaweicloud", "credentials"), name, shown="~/.huaweicloud/credentials")
    raise AccessDenied(f"neither {_PROFILES} nor HOME says where the file of profiles is")


def _oidc(environ: Mapping[str, str]) -> Found | None:
    token = _ID_TOKEN if environ.get(_ID_TOKEN) else _ID_TOKEN_FILE
    if not _all_or_none(environ, _PROVIDER, _AGENCY, token):
        return None
    oidc = {
        "provider_urn": environ[_PROVIDER],
        "agency_urn": environ[_AGENCY],
        "token": _secret(environ, token) if token == _ID_TOKEN else _secret_file(environ[token]),
    }
    return Found({"oidc": oidc}, session=_session(environ), project_id=_project(environ))


def _session(environ: Mapping[str, str]) -> Session:
    usual = Session()
    duration = environ.get(_DURATION) or str(usual.seconds)
    if not re.fullmatch("[0-9]{1,6}", duration):
        _refuse(f"{_DURATION} is not a whole number of seconds")
    return Session(
        name=environ.get(_SESSION) or usual.name,
        seconds=int(duration),
        policy=environ.get(_POLICY, ""),
        policy_ids=tuple(part.strip() for part in environ.get(_POLICY_IDS, "").split(",") if part.strip()),
    )


def _keys(environ: Mapping[str, str]) -> Found | None:
    if environ.get(_FEDERATED):
        # The vendor's clients would go this way and no other, and who set it means to be somebody else.
        _refuse(f"it sets {_FEDERATED}, whose way to credentials is not served here")
    if not _all_or_none(environ, _AK, _SK):
        return None
    names = {"access_key": _AK, "secret_key": _SK, "security_token": _SECURITY_TOKEN}
    given = {key: _secret(environ, name) for key, name in names.items() if environ.get(name)}
    return Found(given, project_id=_project(environ))


def _profile(environ: Mapping[str, str]) -> Found:
    tried = (f"the environment sets no {_PROVIDER}", f"the environment sets no {_AK}")
    try:
        profile_file(_DEFAULT_PROFILE, environ).read()
    except AccessDenied as error:
        # A file that is of no use here may still be of use to others: not a fault.
        return Found({"ecs_agency": True}, (*tried, error.message))
    return Found({"profile": _DEFAULT_PROFILE}, tried)


def _all_or_none(environ: Mapping[str, str], *names: str) -> bool:
    missing = [name for name in names if not environ.get(name)]
    if missing and len(missing) < len(names):
        there = " and ".join(name for name in names if name not in missing)
        _refuse(f"it sets {there} without {' and '.join(missing)}")
    return not missing


def _secret(environ: Mapping[str, str], name: str) -> Secret:
    if reason := unusable(environ[name]):
        _refuse(f"{name} cannot be used: {reason}")
    return Secret(environ[name], source="environment")


def _secret_file(path: str) -> Secret:
    try:
        return Secret.from_file(Path(path))
    except AccessDenied as error:
        _refuse(f"the file of {_ID_TOKEN_FILE} cannot be used: {error.message.rpartition(': ')[2]}")
    except ValueError:
        _refuse(f"the file of {_ID_TOKEN_FILE} cannot be used: it is no path")


def _project(environ: Mapping[str, str]) -> str:
    project_id = environ.get(_PROJECT, "")
    if project_id and not PROJECT_ID.fullmatch(project_id):
        _refuse(f"{_PROJECT} is not 1 to 64 letters, digits and hyphens")
    return project_id


def _refuse(reason: str) -> NoReturn:
    refuse(Rule.CREDENTIALS_CHAIN, reason=reason)
