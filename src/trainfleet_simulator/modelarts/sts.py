"""The simulated issuers of temporary keys: STS, and the metadata service of a machine.

Neither requires a signature, because the caller has no key yet.
https://support.huaweicloud.com/intl/en-us/api-iam5/AssumeAgencyWithOIDC.html
https://support.huaweicloud.com/intl/en-us/usermanual-ecs/ecs_03_0166.html
"""

from __future__ import annotations

import re

from trainfleet_simulator.exchange import Answer, ApiError, utc_text
from trainfleet_simulator.modelarts.agency import AGENCY_URN, PROVIDER_URN
from trainfleet_simulator.modelarts.catalog import DOMAIN_ID
from trainfleet_simulator.modelarts.parameters import Call, precise_text

_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_LONGEST_SESSION = 21600  # of the metadata service, in seconds


def assume_agency_with_oidc(call: Call) -> Answer:
    """POST /v5/agencies/assume-with-oidc: keys for an ID token of a provider that the agency trusts."""
    given = call.body if isinstance(call.body, dict) else {}
    wanted = {name: given.get(name) for name in ("provider_urn", "agency_urn", "id_token", "agency_session_name")}
    for name, value in wanted.items():
        if not isinstance(value, str) or not value:
            raise _malformed(name)
    if not _SESSION_NAME.fullmatch(str(wanted["agency_session_name"])):
        raise _malformed("agency_session_name")
    duration = given.get("duration_seconds", 3600)
    if type(duration) is not int or not 900 <= duration <= 43200:
        raise _malformed("duration_seconds")
    if (wanted["provider_urn"], wanted["agency_urn"]) != (PROVIDER_URN, AGENCY_URN):
        raise _denied("the agency does not exist, or does not trust the provider")
    if call.agency.oidc_token is None or wanted["id_token"] != call.agency.oidc_token:
        raise _denied("the ID token is invalid or has expired")
    key = call.agency.issue(call.now, duration, "sts")
    session = wanted["agency_session_name"]
    urn = f"sts::{DOMAIN_ID}:assumed-agency:{AGENCY_URN.rpartition(':')[2]}/{session}"
    credentials = {
        "access_key_id": key.access_key_id,
        "secret_access_key": key.access_key_secret,
        "security_token": key.security_token,
        "expiration": utc_text(key.expires),
    }
    body = {"assumed_agency": {"urn": urn, "id": f"{DOMAIN_ID}:{session}"}, "credentials": credentials}
    return Answer(body, rows=[[key.access_key_id, key.expires]])


def get_metadata_token(call: Call) -> Answer:
    """PUT /meta-data/latest/api/token: a session, as plain text."""
    text = call.headers.get("x-metadata-token-ttl-seconds", "")
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= _LONGEST_SESSION:
        raise ApiError(400, "BadRequest", f"X-Metadata-Token-Ttl-Seconds is 1 to {_LONGEST_SESSION}")
    return Answer(None, text=call.agency.metadata_sessions.issue(call.now, int(text)))


def get_security_key(call: Call) -> Answer:
    """GET /openstack/latest/securitykey: the keys of the machine's agency; 404 if it has none."""
    agency, token = call.agency, call.headers.get("x-metadata-token", "")
    if not agency.metadata_sessions.is_valid(token, call.now):
        raise ApiError(401, "Unauthorized", "X-Metadata-Token is missing, unknown or has expired")
    if agency.name is None:
        raise ApiError(404, "NotFound", "This machine has no agency")
    key = agency.of_machine(call.now)
    credential = {
        "access": key.access_key_id,
        "secret": key.access_key_secret,
        "securitytoken": key.security_token,
        "expires_at": precise_text(key.expires),
    }
    return Answer({"credential": credential}, rows=[[key.access_key_id, key.expires]])


# These are the usual codes of this family of services. The codes of STS itself are not documented.
def _malformed(name: str) -> ApiError:
    return ApiError(400, "PAP5.0011", f"malformed request: {name}")


def _denied(why: str) -> ApiError:
    return ApiError(403, "PAP5.0001", f"access denied: {why}")
