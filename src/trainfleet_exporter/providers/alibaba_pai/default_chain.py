"""Credentials where the config names none: the vendor's default chain, as far as it can be known without a network.

    environment ──none──► OIDC variables ──not all──► CLI profile ──none──► SDK profile ──none──► ┐
                                   ┌──────────────────────────────────────────────────────────────┘
                                   └► asked when first needed: ECS metadata (unless disabled), then the credentials URI

The first place that has something is the one, also where a service refuses it later: nobody wants to become somebody
else because STS was busy. Half of an access key in the environment is a fault: whoever set it did not mean the next.

https://www.alibabacloud.com/help/en/sdk/developer-reference/v2-manage-python-access-credentials
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.plain import is_plain
from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.config.urls import is_loopback, parse_endpoint
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.alibaba_pai.profiles import ProfileFile, UnfitProfileError
from trainfleet_exporter.providers.alibaba_pai.sources import (
    SESSION_NAME,
    SESSION_NAME_FORM,
    FirstOf,
    GivenKeys,
    KeysUri,
    MachineRole,
    OidcRole,
    Session,
    Source,
)

_PREFIX = "ALIBABA_CLOUD_"
_KEYS = tuple(_PREFIX + name for name in ("ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN"))
_OIDC = tuple(_PREFIX + name for name in ("OIDC_PROVIDER_ARN", "ROLE_ARN", "OIDC_TOKEN_FILE"))
_URI = _PREFIX + "CREDENTIALS_URI"
_TARGET = re.compile(r"/[!-~]*", re.ASCII)


class UnusableEnvironmentError(Exception):
    """The environment says half of something, or what cannot be used. The text says what; it holds no secret."""


class NoCredentialsError(Exception):
    """No place has credentials. The text names every place, and why it had nothing."""


def default_chain(environ: Mapping[str, str]) -> Source:
    """The place that has credentials, or those left to be asked. Raises one of the two errors above."""
    passed: list[str] = []
    found = _keys(environ, passed) or _oidc(environ, passed) or _profile(environ, passed)
    if found is not None:
        return found
    links = _to_be_asked(environ, passed)
    if not links:
        raise NoCredentialsError("; ".join(passed))
    return FirstOf(links, tuple(passed))


def profile_files(environ: Mapping[str, str]) -> list[ProfileFile]:
    """The files that profiles are looked for in, in their order, whether or not they are there."""
    home, named = environ.get("HOME", ""), environ.get(_PREFIX + "CREDENTIALS_FILE", "")
    files: list[ProfileFile] = []
    if home:
        files.append(ProfileFile(Path(home, ".aliyun", "config.json"), "~/.aliyun/config.json", is_json=True))
    if named:
        shown = named if is_plain(named) else f"the file of {_PREFIX}CREDENTIALS_FILE"
        files.append(ProfileFile(Path(named), shown, is_json=False))
    elif home:
        folder = Path(home, ".alibabacloud")
        # The vendor's documentation and its Python client differ in the name.
        ini = [folder / "credentials", folder / "credentials.ini"]
        path = next((path for path in ini if path.is_file()), ini[0])
        files.append(ProfileFile(path, f"~/.alibabacloud/{path.name}", is_json=False))
    return files


def find_profile(profile: str, environ: Mapping[str, str]) -> Source:
    """What a profile says, in the first file that has it. `AccessDenied` says why it is of no use."""
    reasons: list[str] = []
    for file in profile_files(environ):
        try:
            return file.source(profile, allow_v1=allow_v1(environ))
        except AccessDenied as error:
            if file.holds(profile):
                raise
            reasons.append(error.message)
    raise AccessDenied("; ".join(reasons) or "HOME is not set")


def allow_v1(environ: Mapping[str, str]) -> bool:
    """Whether a metadata service that gives no tokens may be asked without one."""
    return not _is_true(environ, "IMDSV1_DISABLED")


def _keys(environ: Mapping[str, str], passed: list[str]) -> Source | None:
    needed = _KEYS[:2]
    missing = [name for name in needed if not environ.get(name)]
    if len(missing) == len(needed):
        passed.append(f"the environment sets no {needed[0]}")
        return None
    if missing:
        there = next(name for name in needed if name not in missing)
        raise UnusableEnvironmentError(f"it sets {there} without {missing[0]}")
    secrets: list[Secret] = []
    for name in _KEYS:
        if not environ.get(name):
            continue  # the token, which keys for good do without
        if reason := unusable(environ[name]):
            raise UnusableEnvironmentError(f"{name} cannot be used: {reason}")
        secrets.append(Secret(environ[name], source="environment"))
    return GivenKeys(*secrets)


def _oidc(environ: Mapping[str, str], passed: list[str]) -> Source | None:
    missing = [name for name in _OIDC if not environ.get(name)]
    if missing:
        passed.append(f"the environment sets no {' and no '.join(missing)}")
        return None
    provider, role, path = (environ[name] for name in _OIDC)
    try:
        token = Secret.from_file(Path(path))
    except (AccessDenied, ValueError) as error:
        # Whoever sets all three means this identity, and no other.
        # The path stays out of the message: who puts the token itself here must not find it in a log.
        reason = error.message.rpartition(": ")[2] if isinstance(error, AccessDenied) else "it is no path"
        raise UnusableEnvironmentError(f"the file of {_OIDC[2]} cannot be used: {reason}") from None
    name = environ.get(_PREFIX + "ROLE_SESSION_NAME", "")
    session = Session(name if SESSION_NAME_FORM.fullmatch(name) else SESSION_NAME)
    return OidcRole(provider_arn=provider, role_arn=role, token=token, session=session)


def _profile(environ: Mapping[str, str], passed: list[str]) -> Source | None:
    files = profile_files(environ)
    if not files:
        passed.append("no profiles, since HOME is not set")
    for file in files:
        if file.is_json and _is_true(environ, "CLI_PROFILE_DISABLED"):
            passed.append(f"{file.shown} is disabled")
            continue
        try:
            return file.source(environ.get(_PREFIX + "PROFILE", ""), allow_v1=allow_v1(environ))
        except UnfitProfileError as error:
            # Whoever wrote it means this identity, and no other.
            raise UnusableEnvironmentError(error.message) from None
        except AccessDenied as error:
            passed.append(error.message)
    return None


def _to_be_asked(environ: Mapping[str, str], passed: list[str]) -> tuple[MachineRole | KeysUri, ...]:
    links: list[MachineRole | KeysUri] = []
    if _is_true(environ, "ECS_METADATA_DISABLED"):
        passed.append("ECS metadata is disabled")
    else:
        links.append(MachineRole(environ.get(_PREFIX + "ECS_METADATA", ""), allow_v1(environ)))
    if environ.get(_URI):
        links.append(_uri(environ[_URI]))
    else:
        passed.append(f"the environment sets no {_URI}")
    return tuple(links)


def _uri(uri: str) -> KeysUri:
    try:
        parts = urlsplit(uri)
        base_url = parse_endpoint(f"{parts.scheme}://{parts.netloc}")
    except ValueError:
        raise UnusableEnvironmentError(f"{_URI} is no http or https address") from None
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    if not _TARGET.fullmatch(target):
        raise UnusableEnvironmentError(f"{_URI} is no http or https address")
    if parts.scheme == "http" and not is_loopback(base_url):
        raise UnusableEnvironmentError(f"{_URI} leads over plain http beyond this machine")
    return KeysUri(base_url, target)


def _is_true(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(_PREFIX + name, "").strip().lower() == "true"
