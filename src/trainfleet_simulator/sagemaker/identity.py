"""The simulated STS, the metadata service of a machine (IMDSv2), and the credentials endpoint of a container.

https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from trainfleet_simulator.exchange import Answer, ApiError, Call, Route, route, utc_text
from trainfleet_simulator.identity import Issuer, Key, of_key
from trainfleet_simulator.sagemaker.catalog import ACCOUNT_ID

WEB_IDENTITY_TOKEN = "eyJhbGciOiJSUzI1NiJ9.c2ltdWxhdGVkLWF3cw.c2ltdWxhdGVk"  # noqa: S105 - opens this only
CONTAINER_TOKEN = "9c41e7d05b6f4a83a2f1c8e0d7b3956f"  # noqa: S105 - likewise
CONTAINER_PATH = "/v1/credentials"
XMLNS = "https://sts.amazonaws.com/doc/2011-06-15/"
TTL_HEADER = "x-aws-ec2-metadata-token-ttl-seconds"
_ROLES = "/latest/meta-data/iam/security-credentials"
_NAMES = ("AccessKeyId", "SecretAccessKey", "Token", "Expiration")


class AwsSts(Issuer):
    """The identity services. ROLE can be assumed. AssumeRoleWithWebIdentity requires WEB_IDENTITY_TOKEN.

    A container proves its identity with CONTAINER_TOKEN.
    """

    roles = f"arn:aws:iam::{ACCOUNT_ID}:role/"
    prefixes = "ASIA", "IQoJb3JpZ2luX2Vj"
    longest = 43200
    session_headers = (TTL_HEADER, "x-aws-ec2-metadata-token")

    def routes(self) -> list[Route]:
        return [
            route("sts", "AssumeRole", "POST /", self.assume_role),
            route("sts", "AssumeRoleWithWebIdentity", "POST /", self.assume_role_with_web_identity, signed=False),
            route("metadata", "PutToken", "PUT /latest/api/token", self.put_token, signed=False),
            route("metadata", "ListRoles", f"GET {_ROLES}/?", self.list_roles, signed=False),
            route("metadata", "GetRoleKeys", f"GET {_ROLES}/{{Role}}", self.get_keys, signed=False),
            route("metadata", "GetContainerKeys", f"GET {CONTAINER_PATH}", self.get_container_keys, signed=False),
        ]

    def machine_key(self, key: Key, now: float) -> dict[str, str]:
        return {"Code": "Success", "LastUpdated": utc_text(now), "Type": "AWS-HMAC", **key.written(*_NAMES)}

    def assume_role(self, call: Call) -> Answer:
        """AssumeRole, for a signed request."""
        key, action = self.assumed(call), call.name
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in key.written(*names).items())
        result = f"<{action}Result><Credentials>{inner}</Credentials></{action}Result>"
        about = "<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        return Answer(None, text=f'<{action}Response xmlns="{XMLNS}">{result}{about}</{action}Response>')

    def assume_role_with_web_identity(self, call: Call) -> Answer:
        """AssumeRoleWithWebIdentity, for any caller with a token that the role trusts, without a signature."""
        if call.text("WebIdentityToken") != WEB_IDENTITY_TOKEN:
            raise ApiError(400, "InvalidIdentityToken", "No OpenIDConnect provider found in your account for the token")
        return self.assume_role(call)

    def get_container_keys(self, call: Call) -> Answer:
        """Respond with the keys of the container's role."""
        if call.request.headers.get("authorization") != CONTAINER_TOKEN:
            raise ApiError(401, "Unauthorized", "The authorization token is missing or wrong")
        return of_key(self.renewed("container", call.now).written(*_NAMES))
