"""The simulated STS, the metadata service of a machine (IMDSv2), and the credentials endpoint of a container.

https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

import re
import secrets
import zlib
from collections.abc import Mapping
from xml.sax.saxutils import escape

from trainfleet_simulator.exchange import Answer, ApiError, Call, Route, route, utc_text
from trainfleet_simulator.identity import Issuer, Key, Keys, Metadata, of_key
from trainfleet_simulator.sagemaker.catalog import ACCOUNT_ID

ROLE, MACHINE_ROLE = "trainfleet-reader", "trainfleet-node"
WEB_IDENTITY_TOKEN = "eyJhbGciOiJSUzI1NiJ9.c2ltdWxhdGVkLWF3cw.c2ltdWxhdGVk"  # noqa: S105 - opens this only
CONTAINER_TOKEN = "9c41e7d05b6f4a83a2f1c8e0d7b3956f"  # noqa: S105 - likewise
CONTAINER_PATH = "/v1/credentials"
XMLNS = "https://sts.amazonaws.com/doc/2011-06-15/"
TTL_HEADER = "x-aws-ec2-metadata-token-ttl-seconds"
_ROLE_ARN = re.compile(rf"arn:aws:iam::{ACCOUNT_ID}:role/([\w+=,.@-]+)", re.ASCII)
_ROLES = "/latest/meta-data/iam/security-credentials"
_EARLY = 900.0  # seconds


class AwsSts(Issuer):
    """The identity services. ROLE can be assumed. AssumeRoleWithWebIdentity requires WEB_IDENTITY_TOKEN.

    The machine has the role MACHINE_ROLE. A container proves its identity with CONTAINER_TOKEN.
    """

    session_name = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
    longest = 43200

    def __init__(self, keys: Keys) -> None:
        super().__init__(keys, lambda number, now: secrets.token_urlsafe(40))

    def routes(self) -> list[Route]:
        """Return the operations."""
        machine = Metadata(self, TTL_HEADER, "x-aws-ec2-metadata-token", MACHINE_ROLE, _EARLY, _machine_key)
        return [
            route("sts", "AssumeRole", "POST /", self.assume_role),
            route("sts", "AssumeRoleWithWebIdentity", "POST /", self.assume_role_with_web_identity, signed=False),
            route("metadata", "PutToken", "PUT /latest/api/token", machine.put_token, signed=False),
            route("metadata", "ListRoles", f"GET {_ROLES}/?", machine.list_roles, signed=False),
            route("metadata", "GetRoleKeys", f"GET {_ROLES}/{{Role}}", machine.get_keys, signed=False),
            route("metadata", "GetContainerKeys", f"GET {CONTAINER_PATH}", self.get_container_keys, signed=False),
        ]

    @staticmethod
    def role_arn(name: str) -> str:
        """Return a role's ARN in this account."""
        return f"arn:aws:iam::{ACCOUNT_ID}:role/{name}"

    def make(self, now: float) -> tuple[str, str, str]:
        key_id, token = secrets.token_hex(8).upper(), secrets.token_urlsafe(240)
        return f"ASIA{key_id}", secrets.token_urlsafe(30), f"IQoJb3JpZ2luX2Vj{token}"

    def assume_role(self, call: Call) -> Answer:
        """AssumeRole, for a signed request."""
        duration = self._asked(call)
        if self.external_id is not None and call.text("ExternalId") != self.external_id:
            raise _denied(call)
        return self._answer(call, duration)

    def assume_role_with_web_identity(self, call: Call) -> Answer:
        """AssumeRoleWithWebIdentity, for any caller with a token that the role trusts, without a signature."""
        token, duration = _required(call, "WebIdentityToken"), self._asked(call)
        if token != WEB_IDENTITY_TOKEN:
            raise ApiError(400, "InvalidIdentityToken", "No OpenIDConnect provider found in your account for the token")
        more = "<SubjectFromWebIdentityToken>system:serviceaccount:sim:exporter</SubjectFromWebIdentityToken>"
        more += "<Audience>sts.amazonaws.com</Audience><Provider>https://sim.example</Provider>"
        return self._answer(call, duration, more)

    def get_container_keys(self, call: Call) -> Answer:
        """Respond with the keys of the container's role."""
        if call.request.headers.get("authorization") != CONTAINER_TOKEN:
            raise ApiError(401, "Unauthorized", "The authorization token is missing or wrong")
        key = self.renewed("trainfleet-task", "container", call.now, early=_EARLY)
        return of_key({"AccountId": ACCOUNT_ID, "RoleArn": self.role_arn(key.role), **_credentials(key, "Token")})

    def _asked(self, call: Call) -> int:
        """Check a request for a role; return the duration in seconds."""
        found = _ROLE_ARN.fullmatch(_required(call, "RoleArn"))
        if not self.is_session_name(_required(call, "RoleSessionName")):
            raise _invalid("RoleSessionName")
        duration = call.text("DurationSeconds", "3600")
        if not self.is_duration(duration):
            raise _invalid("DurationSeconds")
        if found is None or found[1] != ROLE:
            # The error of a role that does not exist is the same, so that no caller can search for names.
            raise _denied(call)
        return int(duration)

    def _answer(self, call: Call, duration: int, more: str = "") -> Answer:
        action, session = call.operation.name, call.text("RoleSessionName")
        key = self.issue(ROLE, action, call.now, duration)
        user = {
            "Arn": f"arn:aws:sts::{ACCOUNT_ID}:assumed-role/{ROLE}/{session}",
            "AssumedRoleId": f"AROA{zlib.crc32(ROLE.encode()):012d}:{session}",
        }
        parts = {"Credentials": _credentials(key, "SessionToken"), "AssumedRoleUser": user}
        inner = "".join(f"<{name}>{_elements(values)}</{name}>" for name, values in parts.items())
        return Answer(
            None,
            text=f'<{action}Response xmlns="{XMLNS}"><{action}Result>{inner}{more}</{action}Result>'
            f"<ResponseMetadata><RequestId>{{request_id}}</RequestId></ResponseMetadata></{action}Response>",
        )


def _credentials(key: Key, token: str) -> dict[str, str]:
    """Return a temporary key. STS has another name for its token than the metadata services."""
    return {
        "AccessKeyId": key.access_key_id,
        "SecretAccessKey": key.access_key_secret,
        token: key.security_token,
        "Expiration": utc_text(key.expires),
    }


def _machine_key(key: Key, now: float) -> dict[str, str]:
    return {"Code": "Success", "LastUpdated": utc_text(now), "Type": "AWS-HMAC", **_credentials(key, "Token")}


def _elements(values: Mapping[str, str]) -> str:
    return "".join(f"<{name}>{escape(value)}</{name}>" for name, value in values.items())


def _required(call: Call, name: str) -> str:
    if not call.text(name):
        raise _invalid(name)
    return call.text(name)


def _invalid(name: str) -> ApiError:
    member = f"{name[0].lower()}{name[1:]}"
    message = f"1 validation error detected: Value at '{member}' failed to satisfy constraint"
    return ApiError(400, "ValidationError", message)


def _denied(call: Call) -> ApiError:
    who, action = f"arn:aws:iam::{ACCOUNT_ID}:user/exporter", f"sts:{call.operation.name}"
    message = f"User: {who} is not authorized to perform: {action} on resource: {call.text('RoleArn')}"
    return ApiError(403, "AccessDeniedException", message)
