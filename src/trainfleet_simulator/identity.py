"""The keys that a simulated cloud accepts, permanent and temporary, and the services that issue temporary ones."""

from __future__ import annotations

import json
import math
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trainfleet_simulator.exchange import Answer, ApiError, Call, utc_text

ROLE = "trainfleet-reader"
"""The role that can be assumed."""
_MACHINE_ROLE = "trainfleet-node"
_SESSION = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_LONGEST_SESSION = 21600
"""Seconds that a session of a metadata service lasts at most."""


@dataclass(slots=True)
class Key:
    """A key pair. A temporary one has a security token and the time of its expiration (Unix seconds)."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str = field(default="", repr=False)
    issued: float = 0.0
    expires: float = math.inf
    via: str = ""
    """Its issuer, such as `AssumeRole` or `metadata`."""

    def written(self, *names: str, text: Callable[[float], str] = utc_text) -> dict[str, str]:
        """Return a temporary key, with a service's names of its id, secret, token and expiration."""
        values = (self.access_key_id, self.access_key_secret, self.security_token, text(self.expires))
        return dict(zip(names, values, strict=True))


class Tokens:
    """Tokens of one kind that expire. After a new one, the older ones stay valid. `lifetime` is in seconds."""

    def __init__(self, prefix: str, size: int, lifetime: float = 86400.0) -> None:
        self.lifetime = lifetime
        self._prefix, self._size = prefix, size
        self._expiry: dict[str, float] = {}

    @property
    def issued(self) -> list[str]:
        """Return every token so far, oldest first."""
        return list(self._expiry)

    def issue(self, now: float, lifetime: float | None = None) -> str:
        """Issue a token that is valid for so many seconds."""
        token = self._prefix + secrets.token_urlsafe(self._size)
        self._expiry[token] = now + (self.lifetime if lifetime is None else lifetime)
        return token

    def is_valid(self, token: str, now: float) -> bool:
        """Return whether the token was issued here and has not expired."""
        return now < self._expiry.get(token, now)

    def revoke_all(self) -> None:
        """Revoke every token that was issued so far."""
        self._expiry = dict.fromkeys(self._expiry, 0.0)


class Issuer(ABC):
    """The keys of an account and its identity services, which tests can change at any time.

    `lifetime` (seconds) is that of every further key. If it is None, callers of STS choose it. AssumeRole requires
    `external_id`, if it is set.
    """

    roles = ""
    """The begin of the ARNs of roles."""
    prefixes: tuple[str, str]
    """The begin of temporary key ids, and of security tokens."""
    longest: int
    """Seconds that a key of STS lasts at most."""
    session_headers: tuple[str, str]
    """The headers of the metadata service with the lifetime and the token of a session."""
    machine_lifetime = 21600.0
    """Of a machine's key, in seconds."""

    def __init__(self, permanent: Key) -> None:
        self.permanent = permanent
        self.issued: list[Key] = []
        """Every temporary key so far, oldest first. After a new one, the older ones stay valid."""
        self.lifetime: float | None = None
        self.external_id: str | None = None
        self.metadata_sessions = Tokens("", 40)
        """Tokens of the sessions of the metadata service."""

    def find(self, key_id: str) -> Key | None:
        """Return the key with this id, expired or not; None if it is unknown."""
        return next((key for key in (self.permanent, *reversed(self.issued)) if key.access_key_id == key_id), None)

    @classmethod
    def role_arn(cls, name: str = ROLE) -> str:
        """Return a role's ARN in this account."""
        return cls.roles + name

    @abstractmethod
    def machine_key(self, key: Key, now: float) -> Mapping[str, object]:
        """Return the body with which the metadata service responds."""

    def issue(self, via: str, now: float, wanted: float) -> Key:
        """Issue a temporary key for `wanted` seconds, unless `lifetime` is set."""
        # The services write whole seconds, so a key ends at a whole second.
        expires = int(now + (wanted if self.lifetime is None else self.lifetime))
        key_id, token = self.prefixes[0] + secrets.token_hex(8).upper(), self.prefixes[1] + secrets.token_urlsafe(240)
        key = Key(key_id, secrets.token_urlsafe(30), token, issued=now, expires=expires, via=via)
        self.issued.append(key)
        return key

    def renewed(self, via: str, now: float) -> Key:
        """Return the current key of a service near the machine, or a new one in the second half of its life."""
        key = next((key for key in reversed(self.issued) if key.via == via), None)
        if key is None or now >= (key.issued + key.expires) / 2:
            key = self.issue(via, now, self.machine_lifetime)
        return key

    def assumed(self, call: Call) -> Key:
        """Issue keys of ROLE, as Alibaba and AWS do. Raises ApiError."""
        seconds = call.whole("DurationSeconds", 3600, 900, self.longest)
        if not _SESSION.fullmatch(call.text("RoleSessionName")):
            raise call.invalid("RoleSessionName", _SESSION.pattern)
        if call.text("RoleArn") != self.role_arn(ROLE):
            # A caller without rights gets the same error, so that no caller can search for names.
            raise call.refused("denied")
        if call.name == "AssumeRole" and self.external_id not in {None, call.text("ExternalId")}:
            raise call.refused("denied")
        return self.issue(call.name, call.now, seconds)

    def put_token(self, call: Call) -> Answer:
        """Begin a session of the metadata service, and respond with its token as plain text."""
        text = call.request.headers.get(self.session_headers[0], "")
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _LONGEST_SESSION):
            raise ApiError(400, "BadRequest", f"{self.session_headers[0]} is 1 to {_LONGEST_SESSION}.")
        return Answer(None, text=self.metadata_sessions.issue(call.now, int(text)))

    def list_roles(self, call: Call) -> Answer:
        """Respond with the name of the machine's role."""
        self._check_session(call)
        return Answer(None, text=_MACHINE_ROLE)

    def get_keys(self, call: Call) -> Answer:
        """Respond with the keys of the machine's role."""
        self._check_session(call)
        if call.ids and call.ids[0] != _MACHINE_ROLE:
            raise ApiError(404, "NotFound", "There is no such role.")
        return of_key(self.machine_key(self.renewed("metadata", call.now), call.now))

    def _check_session(self, call: Call) -> None:
        name = self.session_headers[1]
        if not self.metadata_sessions.is_valid(call.request.headers.get(name, ""), call.now):
            raise ApiError(401, "Unauthorized", f"{name} is missing, unknown or has expired.")


def of_key(body: Mapping[str, object]) -> Answer:
    """Return a response with a key, without the headers of an API."""
    return Answer(None, text=json.dumps(body), headers={"content-type": "application/json"})


def precise_text(at: float) -> str:
    """Format Unix seconds to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
