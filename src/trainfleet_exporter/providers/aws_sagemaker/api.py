"""AWS as seen from outside: endpoints, signatures, the meaning of responses, and calls.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, defstruct, field

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.fleet.lists import pages_by_token
from trainfleet_exporter.providers.judging import ServerClock, SignedDialect, error_of, kind_of
from trainfleet_exporter.providers.keys import Credential, Keys
from trainfleet_exporter.transport import PAGE, ApiClient, Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import number, printable, text

# Endpoints and signatures.


@cache
def _partitions() -> Any:
    return json.loads(files("botocore").joinpath("data", "partitions.json").read_bytes())


def known_regions() -> list[str]:
    regions = [region for partition in _partitions()["partitions"] for region in partition["regions"]]
    return [region for region in regions if not region.endswith("-global")]


def public_endpoint(api: str, region: str, *, fips: bool) -> str:
    """The address of an API in a region, by AWS' own rules. Those of `aws` hold for regions of unknown partitions."""
    from botocore.endpoint_provider import EndpointProvider  # noqa: PLC0415 - 7 MiB, which given addresses do not need
    from botocore.loaders import Loader  # noqa: PLC0415

    rules = EndpointProvider(Loader().load_service_model(api, "endpoint-rule-set-1"), _partitions())
    return str(rules.resolve_endpoint(Region=region, UseFIPS=fips, UseDualStack=False).url)


ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICES = {"cloudwatch": "monitoring"}
"""Names in signatures, of APIs that have another one there."""
_JSON = {
    "sagemaker": ("application/x-amz-json-1.1", "SageMaker"),
    "cloudwatch": ("application/x-amz-json-1.0", "GraniteServiceVersion20100801"),
}
"""By API: the content type of its bodies, and the prefix of the operation in `x-amz-target`."""


def sign(
    keys: Keys, call: Call, headers: Mapping[str, str], *, region: str, service: str, now: float
) -> tuple[dict[str, str], tuple[str, str]]:
    """The headers of a request without a query, and the parts of them that no log may show. `now` in Unix seconds.

    `headers` have lower-case names, and values without spaces at their ends or several in a row.
    """
    date = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {**headers, "x-amz-date": date}
    if keys.security_token:
        signed["x-amz-security-token"] = keys.security_token
    signed = dict(sorted(signed.items()))
    names = ";".join(signed)
    lines = "".join([f"{name}:{value}\n" for name, value in signed.items()])
    request = "\n".join((call.method, call.path, "", lines, names, hashlib.sha256(call.body).hexdigest()))
    request_hash = hashlib.sha256(request.encode()).hexdigest()
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    key = f"AWS4{keys.access_key_secret}".encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"{ALGORITHM}\n{date}\n{scope}\n{request_hash}".encode(), "sha256").hex()
    authorization = f"{ALGORITHM} Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return signed | {"Authorization": authorization}, (signature, request_hash)


# The meaning of responses.

_CLOCK_CODES = ("RequestTimeTooSkewed", "RequestExpired", "InvalidSignature", "SignatureDoesNotMatch", "AuthFailure")
"""Codes of rejections that a wrong date can cause."""
_KEY_CODES = (
    *("ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId"),
    *("InvalidAccessKeyId", "InvalidSignature", "SignatureDoesNotMatch", "AuthFailure"),
)
"""Codes of rejections that are about the key or its token."""
_ACCESS_CODES = (
    *("AccessDenied", "NotAuthorized", "MissingAuthenticationToken", "IncompleteSignature", "OptInRequired"),
    *("InvalidIdentityToken", "IDPRejectedClaim", "RegionDisabled", *_CLOCK_CODES, *_KEY_CODES),
)
_KINDS: Mapping[type[CloudError], tuple[str, ...]] = {
    Throttled: ("Throttl", "TooManyRequests", "RequestLimitExceeded", "PriorRequestNotComplete"),
    AccessDenied: _ACCESS_CODES,
    NotFound: ("ResourceNotFound",),
    ServerTrouble: ("IDPCommunicationError",),
}
"""By error, how its codes begin. They say more than the status: SageMaker denies with 400."""
_NOT_FOUND = ("requested resource not found", "could not find", "does not exist")
"""Texts of a ValidationException by which SageMaker reports that an object does not exist."""
_XML = re.compile(r"<(Code|Message|RequestId)>([^<]{0,2000})</")


Headers: TypeAlias = Callable[[Call], Mapping[str, str]]


class AwsDialect(SignedDialect):
    """Signs the requests of an API in one region, and judges its responses (transport.Dialect).

    `headers` are those of a call (lower-case names), except the host; by default, those of the JSON protocols.
    """

    clock_codes, key_codes = _CLOCK_CODES, _KEY_CODES

    def __init__(
        self, api: str, region: str, credential: Credential, clock: ServerClock, headers: Headers | None = None
    ) -> None:
        super().__init__(api, credential, clock)
        self._region = region
        self._headers = self._json_headers if headers is None else headers

    def sign(self, call: Call, host: str) -> SignedRequest:
        keys = self.credential.current()
        headers = {"host": host, **self._headers(call)}
        service = _SERVICES.get(self.api, self.api)
        signed, proofs = sign(keys, call, headers, region=self._region, service=service, now=self.now())
        return SignedRequest(call.method, call.path, signed, call.body, keys.quotable(), proofs)

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        return judge(answer)

    def _json_headers(self, call: Call) -> Mapping[str, str]:
        kind, target = _JSON[self.api]
        return {"content-type": kind, "x-amz-target": f"{target}.{call.operation}"}


def judge(answer: HttpAnswer) -> CloudError | None:
    """Return None for a good response, else the error, by its code first and its HTTP status second."""
    by_status = kind_of(answer.status)
    if by_status is None:
        return None
    code, message, request_id = (printable(each, most) for each, most in zip(_said(answer), (80, 300, 64), strict=True))
    kind = next((each for each, codes in _KINDS.items() if code.startswith(codes)), by_status)
    if by_status is Throttled or "rate exceeded" in message.lower():
        kind = Throttled
    elif code.startswith("Validation") and any(words in message.lower() for words in _NOT_FOUND):
        kind = NotFound
    elif code.startswith(("SignatureDoesNotMatch", "InvalidSignature")):
        # The service's own message may quote the text that it signed.
        message = "the signature was refused: is the secret access key the right one?"
    elif code.startswith("UnknownOperation") or (kind is NotFound and not code.startswith("ResourceNotFound")):
        kind, message = RequestRefused, f"{message or 'unknown operation'} (is it served in this region?)"
    retry_after = number({"s": answer.headers.get("retry-after", "")}, "s")
    return error_of(kind, message, status=answer.status, code=code, request_id=request_id, retry_after=retry_after)


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


# Calls.

PAGE_SIZE = 100
"""The largest page of each list of SageMaker."""
T = TypeVar("T")


class Answer(Struct, rename="pascal", gc=False):
    """Base of answers and their parts, with the fields that the exporter reads, by AWS' names.

    Every field may be absent or null. Times are Unix seconds.
    """


class State(Answer):
    status: str | None = None


def page_of(rows: str, row: Any) -> Any:
    """Return the struct of a page of a list. `rows` is AWS' name of its list, and `row` the struct of a row."""
    list_of_rows = ("rows", list[row | None] | None, field(name=rows, default=None))
    return defstruct("Page", [list_of_rows, ("next_token", str | None, None)], bases=(Answer,))


class Calls:
    """The calls of one API. Each raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def call(
        self, operation: str, asked: Mapping[str, Any], into: type[T], *, deadline: float, **of_call: Any
    ) -> T:
        """Make one call. `of_call` are further fields of transport.Call."""
        body = json.dumps(asked, separators=(",", ":")).encode()
        call = Call(operation=operation, path="/", method="POST", body=body, limits=PAGE, **of_call)
        return await self._client.call(call, into, deadline=deadline)

    async def rows(
        self, operation: str, asked: Mapping[str, Any], into: Any, *, deadline: float, **of_call: Any
    ) -> AsyncIterator[Any]:
        """Yield the rows of all pages; None for those that are no objects."""

        async def read(token: str) -> tuple[Sequence[Any] | None, str | None]:
            body = {**asked, "NextToken": token} if token else asked
            page = await self.call(operation, body, into, deadline=deadline, **of_call)
            return page.rows, page.next_token

        async for rows in pages_by_token(read, operation):
            for row in rows:
                yield row
