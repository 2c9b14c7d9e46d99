"""Signatures of requests to AWS, and the meaning of responses.

Signature Version 4: `sign` is a pure function, and its caller passes the time. SageMaker and CloudWatch accept JSON,
STS accepts forms. Errors have an HTTP status and a code, which is in `__type` of JSON and in `Code` of XML.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.credentials import Credential, Keys, SignedDialect
from trainfleet_exporter.providers.credentials.canonical import (
    Query,
    Signed,
    canonical_query,
    canonical_request,
    sha256,
)
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import number, printable, text

log = logging.getLogger(__name__)

ALGORITHM = "AWS4-HMAC-SHA256"


def sign(
    *,
    method: str,
    path: str,
    query: Query,
    headers: Mapping[str, str],
    access_key_id: str,
    secret_access_key: str,
    region: str,
    service: str,
    now: datetime | float,
    session_token: str | None = None,
    body: bytes = b"",
) -> Signed:
    """Sign a request with exactly these `headers`, including `host`, and with the headers of date and token.

    `path` is already percent-encoded; `now` is an aware datetime or Unix seconds.
    """
    moment = now.astimezone(UTC) if isinstance(now, datetime) else datetime.fromtimestamp(now, UTC)
    date = moment.strftime("%Y%m%dT%H%M%SZ")
    signed = {**headers, "x-amz-date": date} | ({"x-amz-security-token": session_token} if session_token else {})
    # Several spaces within a value count as one.
    spaced = {name: " ".join(value.split()) for name, value in signed.items()}
    # Sorted by their encoded form.
    pairs = sorted(canonical_query(query).split("&"), key=lambda pair: pair.partition("="))
    request = canonical_request(
        method=method, path=path, query="&".join(pairs), headers=spaced, body_sha256=sha256(body)
    )
    request_hash = sha256(request)
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    key = f"AWS4{secret_access_key}".encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    to_sign = f"{ALGORITHM}\n{date}\n{scope}\n{request_hash}"
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    names = ";".join(sorted(name.lower() for name in signed))
    authorization = f"{ALGORITHM} Credential={access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return Signed(signed | {"Authorization": authorization}, (signature, request_hash))


SERVICES = {"sagemaker": "sagemaker", "cloudwatch": "monitoring", "sts": "sts"}
"""Service names in signatures, by API."""
_JSON = {
    "sagemaker": ("application/x-amz-json-1.1", "SageMaker"),
    "cloudwatch": ("application/x-amz-json-1.0", "GraniteServiceVersion20100801"),
}
"""By API: the content type of its bodies, and the prefix of the operation in `x-amz-target`."""
FORM = "application/x-www-form-urlencoded"
_SKEW = 60.0
"""If our clock differs by more than these seconds, the date is the cause of a rejection. The services allow minutes."""
_CLOCK_CODES = ("RequestTimeTooSkewed", "RequestExpired", "InvalidSignature", "SignatureDoesNotMatch", "AuthFailure")
"""Codes of rejections that a wrong date can cause."""
_KEY_CODES = (
    *("ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId"),
    *("InvalidAccessKeyId", "InvalidSignature", "SignatureDoesNotMatch", "AuthFailure"),
)
"""Codes of rejections that are about the key or its token."""
_ACCESS_CODES = (
    *("RequestTimeTooSkewed", "RequestExpired", "AccessDenied", "NotAuthorized", "MissingAuthenticationToken"),
    *("IncompleteSignature", "OptInRequired", "InvalidIdentityToken", "IDPRejectedClaim", "RegionDisabled"),
    *_KEY_CODES,
)
_THROTTLED_CODES = ("Throttl", "TooManyRequests", "RequestLimitExceeded", "PriorRequestNotComplete")
_NOT_FOUND = ("requested resource not found", "could not find", "does not exist")
"""Texts of a ValidationException by which SageMaker reports that an object does not exist."""
_XML = re.compile(r"<(Code|Message|RequestId)>([^<]{0,2000})</")


@dataclass(slots=True)
class ServerClock:
    """The clock of the cloud, by the dates of its errors. All APIs of a provider share it. `ahead` is in seconds."""

    ahead: float = 0.0

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return time.time() + self.ahead


class AwsDialect(SignedDialect[Keys]):
    """Signs the requests of an API in one region, and judges its responses (transport.Dialect).

    If a request is rejected because of its date, it is signed once more, by the date of the response.
    """

    def __init__(self, api: str, region: str, credential: Credential[Keys], clock: ServerClock) -> None:
        super().__init__(api, credential)
        self._region = region
        self._clock = clock

    async def prepare(self, call: Call, deadline: float) -> object:
        """Make the credential valid. The returned mark has the clock that signs the call."""
        return self._clock.ahead, await self.credential.prepare(deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Return whether the clock was corrected after the mark, or another credential is left to try."""
        assert isinstance(mark, tuple)
        ahead, edition = mark
        if error.code.startswith(_CLOCK_CODES) and ahead != self._clock.ahead:
            return True
        return super().refused(error, edition)

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt."""
        keys = self.credential.current()
        keys.remember()
        if self.api in _JSON:
            kind, target = _JSON[self.api]
            headers = {"host": host, "content-type": kind, "x-amz-target": f"{target}.{call.operation}"}
        else:
            headers = {"host": host, "content-type": FORM}
        signed = sign(
            method=call.method,
            path=call.path,
            query={},  # all parameters are in the body
            headers=headers,
            access_key_id=keys.access_key_id,
            secret_access_key=keys.access_key_secret,
            session_token=keys.security_token,
            region=self._region,
            service=SERVICES[self.api],
            now=self._clock.now(),
            body=call.body,
        )
        # STS sends XML to a caller that does not accept JSON. Accept is not signed, because proxies may change it.
        sent = signed.headers if self.api in _JSON else signed.headers | {"accept": "*/*"}
        return SignedRequest(call.method, call.path, sent, call.body, keys.quotable(), signed.proofs)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """Return None for a good response (transport.Dialect)."""
        error = judge(answer)
        if isinstance(error, AccessDenied) and error.code.startswith(_CLOCK_CODES):
            self._compare_clocks(answer.headers.get("date", ""), error)
        return error

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether the rejection is about the key or its token."""
        return error.code.startswith(_KEY_CODES)

    def _compare_clocks(self, date: str, error: AccessDenied) -> None:
        try:
            there = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):  # no date, or one beyond the year 9999
            return
        off = there - self._clock.now()
        if abs(off) < _SKEW:
            return
        self._clock.ahead += off
        facts = fields(api=self.api, seconds=round(-self._clock.ahead), error=error)
        log.warning("clock of this machine is off; requests carry the cloud's time", extra=facts)


def judge(answer: HttpAnswer) -> CloudError | None:
    """Return None for a good response, else the error, by its code first and its HTTP status second."""
    status = answer.status
    if 200 <= status < 400:
        return None  # a redirect: the transport reports it
    code, message, request_id = _said(answer)
    facts: dict[str, Any] = {
        "status": status,
        "code": printable(code, 80),
        "request_id": printable(request_id, 64),
        "retry_after": number({"s": answer.headers.get("retry-after", "")}, "s"),
    }
    message = printable(message, 300)
    if code.startswith(_THROTTLED_CODES) or status == 429 or "rate exceeded" in message.lower():
        return Throttled(message or "too many requests", **facts)
    if code.startswith(("SignatureDoesNotMatch", "InvalidSignature")):
        # The service's own message may quote the text that it signed.
        return AccessDenied("the signature was refused: is the secret access key the right one?", **facts)
    if code.startswith(_ACCESS_CODES) or status in (401, 403):
        return AccessDenied(message or "access denied", **facts)
    if code.startswith("ResourceNotFound") or (
        code.startswith("Validation") and any(words in message.lower() for words in _NOT_FOUND)
    ):
        return NotFound(message or "not found", **facts)
    if code.startswith("UnknownOperation") or status == 404:
        return RequestRefused(f"{message or 'unknown operation'} (is it served in this region?)", **facts)
    if status >= 500:
        return ServerTrouble(message or "the service failed", **facts)
    return RequestRefused(message or "the request was refused", **facts)


def _said(answer: HttpAnswer) -> tuple[str, str, str]:
    """Return the code, the message and the id of the request from JSON, or from the XML of STS."""
    if isinstance(answer.payload, dict):
        payload = answer.payload
        code = answer.headers.get("x-amzn-errortype", "") or text(payload, "__type") or text(payload, "code")
        message = text(payload, "message") or text(payload, "Message")
        request_id = answer.headers.get("x-amzn-requestid", "")
        # `com.amazonaws.sagemaker#ThrottlingException`; in a header, `ThrottlingException:http://...`.
        return code.rpartition("#")[2].partition(":")[0].strip(), message, request_id
    found = dict(_XML.findall(answer.body[:65536].decode("utf-8", errors="replace")))
    request_id = answer.headers.get("x-amzn-requestid", "") or found.get("RequestId", "")
    return found.get("Code", ""), found.get("Message", ""), request_id
