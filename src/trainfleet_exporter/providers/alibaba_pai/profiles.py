"""Profiles of the vendor's own files: `~/.aliyun/config.json` (its CLI) and `~/.alibabacloud/credentials` (its SDKs).

The first is JSON with `profiles: [{name, mode, ...}]` and the name of the `current` one; the second is INI with a
section a profile, whose `type` says what the CLI calls a mode. Errors never quote them: they hold secrets.

https://www.alibabacloud.com/help/en/cli/configure-credentials
https://www.alibabacloud.com/help/en/sdk/developer-reference/v2-manage-python-access-credentials
"""

from __future__ import annotations

import configparser
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfleet_exporter.config import Secret
from trainfleet_exporter.config.scalars import show
from trainfleet_exporter.config.secrets import unusable
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.providers.alibaba_pai.credentials import Keys
from trainfleet_exporter.providers.alibaba_pai.sources import (
    DURATION,
    LONGEST_DURATION,
    SESSION_NAME,
    SESSION_NAME_FORM,
    SHORTEST_DURATION,
    AssumedRole,
    MachineRole,
    OidcRole,
    ProfileKeys,
    Session,
    Source,
    arn_form,
)
from trainfleet_exporter.quantities import mappings, printable, text, whole

_MAX_BYTES = 1048576
_MODES = {
    "access_key": "AK",
    "sts": "StsToken",
    "ram_role_arn": "RamRoleArn",
    "ecs_ram_role": "EcsRamRole",
    "oidc_role_arn": "OIDC",
}
"""What the INI file calls the modes of the JSON file."""
_SERVED = ("AK", "StsToken", "RamRoleArn", "EcsRamRole", "OIDC", "ChainableRamRoleArn")
_INI_NAMES = {
    "role_arn": "ram_role_arn",
    "role_session_name": "ram_session_name",
    "duration_seconds": "expired_seconds",
    "security_token": "sts_token",
    "role_name": "ram_role_name",
    "oidc_token_file_path": "oidc_token_file",
}
"""What the INI file calls the fields of the JSON file, where that differs."""
_IN_INI = {ours: theirs for theirs, ours in _INI_NAMES.items()}


class UnfitProfileError(AccessDenied):
    """A profile is whole, but STS would refuse what it says."""


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """One of the two files; `shown` is its name for people."""

    path: Path
    shown: str
    is_json: bool

    def source(self, profile: str, *, allow_v1: bool) -> Source:
        """What a profile says; the current one if no name is given. `AccessDenied` says why it is of no use."""
        profiles, current = self._profiles()
        return self._source(profiles, profile or current, allow_v1, seen=())

    def holds(self, profile: str) -> bool:
        """Whether the file is there and has that profile, of use or not."""
        try:
            return profile in self._profiles()[0]
        except AccessDenied:
            return False

    def keys(self, profile: str, mode: str) -> Keys:
        """The keys that a profile holds now. `AccessDenied` if it is of another mode than that by now."""
        fields = self._find(self._profiles()[0], profile)
        if text(fields, "mode") != mode:
            raise self._denied(f"profile {show(profile)} is of another mode now; restart for it")
        return self._keys(fields, profile)

    def name_of(self, profile: str) -> str:
        """The name of a profile, for people."""
        return f"profile {printable(profile, 64)} of {self.shown}"

    def _source(
        self, profiles: Mapping[str, Mapping[str, Any]], profile: str, allow_v1: bool, seen: tuple[str, ...]
    ) -> Source:
        if profile in seen:
            raise self._denied(f"profile {show(profile)} is a source of itself")
        fields = self._find(profiles, profile)
        mode = text(fields, "mode")
        match mode:
            case "AK" | "StsToken":
                return self._profile_keys(fields, profile)
            case "RamRoleArn":
                return self._role(fields, profile, self._profile_keys(fields, profile))
            case "ChainableRamRoleArn":
                source = self._needed(fields, "source_profile", profile)
                return self._role(fields, profile, self._source(profiles, source, allow_v1, (*seen, profile)))
            case "EcsRamRole":
                return MachineRole(text(fields, "ram_role_name"), allow_v1)
            case "OIDC":
                return OidcRole(
                    provider_arn=self._arn(fields, "oidc_provider_arn", "oidc-provider", profile),
                    role_arn=self._arn(fields, "ram_role_arn", "role", profile),
                    token=self._token(self._needed(fields, "oidc_token_file", profile), show(profile)),
                    session=self._session(fields, profile),
                )
        served = ", ".join(_SERVED)
        raise self._denied(f"profile {show(profile)} is of mode {show(mode)}, which is not served; served are {served}")

    def _role(self, fields: Mapping[str, Any], profile: str, base: Source) -> AssumedRole:
        external_id = text(fields, "external_id")
        return AssumedRole(
            role_arn=self._arn(fields, "ram_role_arn", "role", profile),
            base=base,
            external_id=Secret(external_id, source=self.shown) if external_id else None,
            session=self._session(fields, profile),
        )

    def _profile_keys(self, fields: Mapping[str, Any], profile: str) -> ProfileKeys:
        self._keys(fields, profile)
        return ProfileKeys(self.path, self.shown, self.is_json, profile, text(fields, "mode"))

    def _keys(self, fields: Mapping[str, Any], profile: str) -> Keys:
        key_id, secret = (self._needed(fields, key, profile) for key in ("access_key_id", "access_key_secret"))
        # Keys for good may have the token of earlier ones beside them: it is not theirs.
        temporary = text(fields, "mode") == "StsToken"
        return Keys(key_id, secret, self._needed(fields, "sts_token", profile) if temporary else None)

    def _needed(self, fields: Mapping[str, Any], key: str, profile: str) -> str:
        value = text(fields, key)
        if reason := unusable(value):
            raise self._denied(f"{key} of profile {show(profile)} cannot be used: {reason}")
        return value

    def _arn(self, fields: Mapping[str, Any], key: str, kind: str, profile: str) -> str:
        value = self._needed(fields, key, profile)
        if not arn_form(kind).fullmatch(value):
            raise self._unfit(key, profile, f"an ARN such as acs:ram::1234567890123456:{kind}/name")
        return value

    def _session(self, fields: Mapping[str, Any], profile: str) -> Session:
        seconds = DURATION
        # The CLI writes 0 where nobody chose, and an empty text for a name.
        if fields.get("expired_seconds") not in (None, "", 0, "0"):
            seconds = whole(fields, "expired_seconds") or 0
        if not SHORTEST_DURATION <= seconds <= LONGEST_DURATION:
            allowed = f"a whole number of seconds from {SHORTEST_DURATION} to {LONGEST_DURATION}"
            raise self._unfit("expired_seconds", profile, allowed)
        given = [key for key in ("ram_session_name", "role_session_name") if fields.get(key) not in (None, "")]
        name = text(fields, given[0]) if given else SESSION_NAME
        if not SESSION_NAME_FORM.fullmatch(name):
            raise self._unfit(given[0], profile, "2 to 64 letters, digits and any of . @ _ -")
        return Session(name, seconds, text(fields, "policy"))

    def _unfit(self, key: str, profile: str, allowed: str) -> UnfitProfileError:
        # Without what was found: who puts a secret into the wrong field must not find it in a log.
        name, told = show(profile), key if self.is_json else _IN_INI.get(key, key)
        return UnfitProfileError(f"{self.shown}: STS would refuse {told} of profile {name}; allowed: {allowed}")

    def _token(self, path: str, name: str) -> Secret:
        try:
            return Secret.from_file(self.path.parent / path)
        except AccessDenied as error:
            # The path stays out of the message: who puts the token itself here must not find it in a log.
            reason = error.message.rpartition(": ")[2]
            raise self._denied(f"oidc_token_file of profile {name} cannot be used: {reason}") from None

    def _find(self, profiles: Mapping[str, Mapping[str, Any]], profile: str) -> Mapping[str, Any]:
        if not profile:
            raise self._denied("no profile is current")
        if profile not in profiles:
            raise self._denied(f"no profile {show(profile)}")
        return profiles[profile]

    def _profiles(self) -> tuple[Mapping[str, Mapping[str, Any]], str]:
        """Every profile by its name, with the field names of the JSON file; and the current one's."""
        try:
            with self.path.open("rb") as file:
                raw = file.read(_MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            raise self._denied(getattr(error, "strerror", None) or "it cannot be read") from None
        if len(raw) > _MAX_BYTES:
            raise self._denied(f"it is longer than {_MAX_BYTES} bytes")
        parse: Callable[[str], tuple[Mapping[str, Mapping[str, Any]], str]] = _json if self.is_json else _ini
        try:
            return parse(raw.decode("utf-8-sig"))
        except (ValueError, RecursionError, configparser.Error):
            # Their words would quote the file.
            reason = "it is no JSON of the CLI's" if self.is_json else "it is no INI file"
            raise self._denied(reason) from None

    def _denied(self, reason: str) -> AccessDenied:
        return AccessDenied(f"{self.shown}: {reason}")


def _json(raw: str) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    content = json.loads(raw)
    if not isinstance(content, dict):
        raise ValueError("no object")
    return {text(profile, "name"): profile for profile in mappings(content, "profiles")}, text(content, "current")


def _ini(raw: str) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    parser = configparser.ConfigParser(interpolation=None, default_section="\n", inline_comment_prefixes=("#",))
    parser.read_string(raw)
    profiles: dict[str, Mapping[str, Any]] = {}
    for name in parser.sections():
        fields = {_INI_NAMES.get(key, key): value for key, value in parser.items(name)}
        kind = fields.get("type", "")
        profiles[name] = fields | {"mode": _MODES.get(kind, kind)}
    return profiles, "default"
