"""The keys that a simulated cloud accepts, permanent and temporary, and the services that issue temporary ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trainfleet_simulator.exchange import Answer, ApiError, Call

_NEAR_LIFETIME = 21600.0
"""Lifetime in seconds of keys that a service near the machine issues."""
_LONGEST_SESSION = 21600
"""Seconds that a session of a metadata service lasts at most."""


@dataclass(slots=True)
class Key:
    """A key pair. A temporary one has a security token and the time of its expiration (Unix seconds).

    `role` is its role or agency. `via` is its issuer, such as `AssumeRole` or `metadata`.
    """

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str = field(default="", repr=False)
    issued: float = 0.0
    expires: float = math.inf
    role: str = ""
    via: str = ""


class Keys:
    """Every key by id. `issued` are the temporary ones, oldest first. After a new one, the older ones stay valid."""

    def __init__(self, permanent: Key) -> None:
        self.issued: list[Key] = []
        self.permanent = permanent

    def find(self, key_id: str) -> Key | None:
        """Return the key with this id, expired or not; None if it is unknown."""
        return next((key for key in (self.permanent, *reversed(self.issued)) if key.access_key_id == key_id), None)


class Tokens:
    """Tokens of one kind that expire. After a new one, the older ones stay valid.

    `make` builds a token from the number of earlier tokens and the Unix time. `lifetime` is in seconds.
    """

    def __init__(self, make: Callable[[int, float], str], lifetime: float = 86400.0) -> None:
        self.lifetime = lifetime
        self._make = make
        self._expiry: dict[str, float] = {}

    @property
    def issued(self) -> list[str]:
        """Return every token so far, oldest first."""
        return list(self._expiry)

    def issue(self, now: float, lifetime: float | None = None) -> str:
        """Issue a token that is valid for so many seconds."""
        token = self._make(len(self._expiry), now)
        self._expiry[token] = now + (self.lifetime if lifetime is None else lifetime)
        return token

    def is_valid(self, token: str, now: float) -> bool:
        """Return whether the token was issued here and has not expired."""
        return now < self._expiry.get(token, now)

    def revoke_all(self) -> None:
        """Revoke every token that was issued so far."""
        self._expiry = dict.fromkeys(self._expiry, 0.0)


class Issuer:
    """The identity services of an account, which tests can change at any time.

    `lifetime` (seconds) is that of every further key. If it is None, callers of STS choose it, and keys of a machine
    have six hours. AssumeRole requires `external_id`, if it is set.
    """

    session_name: re.Pattern[str]
    """The form of the name of a session."""
    longest: int
    """Seconds that a key of STS lasts at most."""

    def __init__(self, keys: Keys, metadata_token: Callable[[int, float], str]) -> None:
        self.lifetime: float | None = None
        self.external_id: str | None = None
        self.metadata_sessions = Tokens(metadata_token)
        """Tokens of the sessions of the metadata service."""
        self._keys = keys

    @property
    def issued(self) -> list[Key]:
        """Return every temporary key so far, oldest first."""
        return self._keys.issued

    def make(self, now: float) -> tuple[str, str, str]:
        """Return a new key id, secret and security token in the form of the cloud."""
        raise NotImplementedError

    def issue(self, role: str, via: str, now: float, wanted: float) -> Key:
        """Issue a temporary key for `wanted` seconds, unless `lifetime` is set."""
        # The services write whole seconds, so a key ends at a whole second.
        expires = int(now + (wanted if self.lifetime is None else self.lifetime))
        key = Key(*self.make(now), issued=now, expires=expires, role=role, via=via)
        self.issued.append(key)
        return key

    def renewed(self, role: str, via: str, now: float, *, early: float, lifetime: float = _NEAR_LIFETIME) -> Key:
        """Return the current key of a service near the machine. A new one exists `early` seconds before it expires, or
        after half its life if that is later."""
        key = next((key for key in reversed(self.issued) if key.via == via), None)
        if key is None or now >= key.expires - min(early, (key.expires - key.issued) / 2):
            key = self.issue(role, via, now, lifetime)
        return key

    def is_session_name(self, name: str) -> bool:
        """Return whether a name has the form of a session's."""
        return self.session_name.fullmatch(name) is not None

    def is_duration(self, seconds: str) -> bool:
        """Return whether keys may last so long."""
        return seconds.isascii() and seconds.isdigit() and 900 <= int(seconds) <= self.longest


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata service of a machine, which issues tokens of sessions, and the keys of the machine's role.

    `keys` returns the body of a response with a key.
    """

    issuer: Issuer
    lifetime_header: str
    token_header: str
    role: str
    early: float
    """Seconds before the end of a key at which the next one exists."""
    keys: Callable[[Key, float], Mapping[str, object]]
    lifetime: float = _NEAR_LIFETIME

    def put_token(self, call: Call) -> Answer:
        """Begin a session, and respond with its token as plain text."""
        text = call.request.headers.get(self.lifetime_header, "")
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _LONGEST_SESSION):
            raise ApiError(400, "BadRequest", f"{self.lifetime_header} is 1 to {_LONGEST_SESSION}.")
        return Answer(None, text=self.issuer.metadata_sessions.issue(call.now, int(text)))

    def list_roles(self, call: Call) -> Answer:
        """Respond with the name of the machine's role."""
        self._check_token(call)
        return Answer(None, text=self.role)

    def get_keys(self, call: Call) -> Answer:
        """Respond with the keys of the machine's role."""
        self._check_token(call)
        if call.ids and call.ids[0] != self.role:
            raise ApiError(404, "NotFound", "There is no such role.")
        key = self.issuer.renewed(self.role, "metadata", call.now, early=self.early, lifetime=self.lifetime)
        return of_key(self.keys(key, call.now))

    def _check_token(self, call: Call) -> None:
        token = call.request.headers.get(self.token_header, "")
        if not self.issuer.metadata_sessions.is_valid(token, call.now):
            raise ApiError(401, "Unauthorized", f"{self.token_header} is missing, unknown or has expired.")


def of_key(body: Mapping[str, object]) -> Answer:
    """Return a response with a key, without the headers of an API."""
    return Answer(None, text=json.dumps(body), headers={"content-type": "application/json"})


def precise_text(at: float) -> str:
    """Format Unix seconds to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
