"""The simulated STS: temporary keys for a role.

https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections.abc import Mapping
from xml.sax.saxutils import escape

from trainfleet_simulator.exchange import Answer, ApiError, utc_text
from trainfleet_simulator.keys import Issuer, Key, Keys, Tokens
from trainfleet_simulator.sagemaker.catalog import ACCOUNT_ID

ROLE, MACHINE_ROLE = "trainfleet-reader", "trainfleet-node"
WEB_IDENTITY_TOKEN = "eyJhbGciOiJSUzI1NiJ9.c2ltdWxhdGVkLWF3cw.c2ltdWxhdGVk"  # noqa: S105 - opens this only
CONTAINER_TOKEN = "9c41e7d05b6f4a83a2f1c8e0d7b3956f"  # noqa: S105 - likewise
XMLNS = "https://sts.amazonaws.com/doc/2011-06-15/"
_ROLE_ARN = re.compile(rf"arn:aws:iam::{ACCOUNT_ID}:role/([\w+=,.@-]+)", re.ASCII)
_SESSION = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)

Query = Mapping[str, str]


class AwsSts(Issuer):
    """The account's identity services, which tests can change at any time.

    ROLE can be assumed. AssumeRole requires `external_id`, if it is set. AssumeRoleWithWebIdentity requires
    WEB_IDENTITY_TOKEN.

    `lifetime` (seconds) is that of every further key. If it is None, callers of STS choose it (an hour by default), and
    machines and containers have six hours. The machine has the role MACHINE_ROLE. A container proves its identity with
    CONTAINER_TOKEN.
    """

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys)
        self.external_id: str | None = None
        self.metadata_sessions = Tokens(lambda number, now: secrets.token_urlsafe(40))
        """Tokens of the sessions of the metadata service."""

    @staticmethod
    def role_arn(name: str) -> str:
        """Return a role's ARN in this account."""
        return f"arn:aws:iam::{ACCOUNT_ID}:role/{name}"

    def make(self) -> tuple[str, str, str]:
        key_id, token = secrets.token_hex(8).upper(), secrets.token_urlsafe(240)
        return f"ASIA{key_id}", secrets.token_urlsafe(30), f"IQoJb3JpZ2luX2Vj{token}"

    def assume_role(self, query: Query, now: float) -> Answer:
        """AssumeRole, for a signed request."""
        role, duration = self._asked(query)
        if self.external_id is not None and query.get("ExternalId") != self.external_id:
            raise _denied(query, "sts:AssumeRole")
        return self._answer("AssumeRole", query, role, duration, now)

    def assume_role_with_web_identity(self, query: Query, now: float) -> Answer:
        """AssumeRoleWithWebIdentity, for any caller with a token that the role trusts, without a signature."""
        token = _required(query, "WebIdentityToken")
        role, duration = self._asked(query)
        if token != WEB_IDENTITY_TOKEN:
            raise ApiError(400, "InvalidIdentityToken", "No OpenIDConnect provider found in your account for the token")
        return self._answer("AssumeRoleWithWebIdentity", query, role, duration, now)

    def _asked(self, query: Query) -> tuple[str, int]:
        """Return the role's name and the duration in seconds."""
        arn, session = _required(query, "RoleArn"), _required(query, "RoleSessionName")
        if not _SESSION.fullmatch(session):
            raise _invalid("roleSessionName")
        duration = query.get("DurationSeconds", "3600")
        if not (duration.isascii() and duration.isdigit() and 900 <= int(duration) <= 43200):
            raise _invalid("durationSeconds")
        found = _ROLE_ARN.fullmatch(arn)
        if found is None or found[1] != ROLE:
            # The error of a role that does not exist is the same, so that no caller can search for names.
            raise _denied(query, f"sts:{query.get('Action', '')}")
        return found[1], int(duration)

    def _answer(self, action: str, query: Query, role: str, duration: int, now: float) -> Answer:
        key = self.issue(role, action, now, duration)
        session = query["RoleSessionName"]
        user = {
            "Arn": f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/{role}/{session}",
            "AssumedRoleId": f"AROA{zlib.crc32(role.encode()):012d}:{session}",
        }
        parts = {"Credentials": credentials(key, "SessionToken"), "AssumedRoleUser": user}
        inner = "".join(f"<{name}>{_elements(values)}</{name}>" for name, values in parts.items())
        if action == "AssumeRoleWithWebIdentity":
            inner += "<SubjectFromWebIdentityToken>system:serviceaccount:sim:exporter</SubjectFromWebIdentityToken>"
            inner += "<Audience>sts.amazonaws.com</Audience><Provider>https://sim.example</Provider>"
        return Answer(
            None,
            text=f'<{action}Response xmlns="{XMLNS}"><{action}Result>{inner}</{action}Result>'
            f"<ResponseMetadata><RequestId>{{request_id}}</RequestId></ResponseMetadata></{action}Response>",
            rows=[[role, key.access_key_id, key.expires]],
        )


def credentials(key: Key, token: str) -> dict[str, str]:
    """Return a temporary key as the services write it. STS has another name for its token than the metadata
    services."""
    return {
        "AccessKeyId": key.access_key_id,
        "SecretAccessKey": key.access_key_secret,
        token: key.security_token,
        "Expiration": utc_text(key.expires),
    }


def _elements(values: Mapping[str, str]) -> str:
    return "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items())


def _required(query: Query, name: str) -> str:
    if not query.get(name):
        raise _invalid(f"{name[0].lower()}{name[1:]}")
    return query[name]


def _invalid(name: str) -> ApiError:
    message = f"1 validation error detected: Value at '{name}' failed to satisfy constraint"
    return ApiError(400, "ValidationError", message)


def _denied(query: Query, action: str) -> ApiError:
    who = f"arn:aws:iam::{ACCOUNT_ID}:user/exporter"
    message = f"User: {who} is not authorized to perform: {action} on resource: {query.get('RoleArn', '')}"
    return ApiError(403, "AccessDeniedException", message)
