"""PAI's APIs: clients, lists page by page, signatures, the meaning of responses, and the permission of each operation.

DLC (version 2020-12-03), PaiStudio (2022-01-12) and AIWorkSpace (2021-02-04) are ROA APIs: GET, with all parameters in
the query. CloudMonitor is an RPC API: a POST of nothing to `/`. All have signatures of version 3 (ACS3-HMAC-SHA256).

https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-overview
https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from msgspec import Struct, defstruct, field

from trainfleet_exporter.config import ProviderConfig
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, RequestRefused, Throttled
from trainfleet_exporter.fleet.lists import Listing, Page, read_whole_list
from trainfleet_exporter.providers import values
from trainfleet_exporter.providers.canonical import canonical_query, canonical_request, hmac_sha256, sha256
from trainfleet_exporter.providers.judging import ServerClock, SignedDialect, error_of, kind_of
from trainfleet_exporter.providers.key_search import KeyHttp
from trainfleet_exporter.providers.keys import Credential, Keys
from trainfleet_exporter.providers.registry import BuildContext, open_transport
from trainfleet_exporter.transport import Call, HttpAnswer, SignedRequest
from trainfleet_exporter.transport.json_fields import flag, iso_time, printable, text, whole

T = TypeVar("T")
AGAIN, MAY_TAKE = 600.0, 10.0
"""Seconds until a list that rarely changes is read again after trouble, and for which it may delay a poll."""
VERSIONS = {
    "dlc": "2020-12-03",
    "paistudio": "2022-01-12",
    "aiworkspace": "2021-02-04",
    "cloudmonitor": "2019-01-01",
}
"""Of each API, by its label."""
NONE: Final[Mapping[str, Any]] = MappingProxyType({})
PAGE_SIZE = 100
"""The largest page that is known to work on every list here; the documentation names no maximum."""
# If there are two, the vendor's own pages disagree on which one counts: grant both.
PERMISSIONS = {
    "ListWorkspaces": "paiworkspace:ListWorkspaces",
    "ListJobs": "paidlc:ListJobs and pai:ListJobs",
    "ListEcsSpecs": "paidlc:ListEcsSpecs and pai:ListEcsSpecs",
    "GetJob": "paidlc:GetJob and pai:GetJob",
    "GetJobMetrics": "paidlc:GetJobMetrics and pai:GetJobMetrics",
    "ListQuotas": "pai:ListQuotas",
    "ListQuotaWorkloads": "pai:ListQuotaWorkloads",
    "ListQuotaActiveUserUsages": "pai:ListQuotaActiveUserUsages",
    "ListNodes": "pai:ListNodes",
    "DescribeMetricList": "cms:DescribeMetricList and cms:QueryMetricList",
    "DescribeMetricLast": "cms:DescribeMetricLast and cms:QueryMetricLast",
    "AssumeRole": "sts:AssumeRole",
    "DescribeMetricMetaList": "cms:DescribeMetricMetaList and cms:QueryMetricMeta",
}


class Row(Struct, rename="pascal", gc=False):
    """Base of all answers."""


class Total(Row):
    """Any list, only its length."""

    total_count: float | None = None


class ListOf(Generic[T]):
    """A list of an API: the struct of its rows, the field of a page that has them, and the field with a row's id.

    `rows` is a struct with `total_count` and `rows` if a page has its rows in another way.
    """

    def __init__(self, api: str, operation: str, row: type[T], rows: str | type[Any], row_id: str) -> None:
        self.api, self.operation, self.id_of = api, operation, attrgetter(row_id)
        if isinstance(rows, str):
            listed = ("rows", list[row | None] | None, field(name=rows, default=None))  # type: ignore[valid-type]
            rows = defstruct(f"{rows}Page", [listed], bases=(Total,), rename="pascal", gc=False)
        self.pages: type[Any] = rows


class Api:
    """The clients of one account and region. Every call raises CloudError, and ends by its deadline (loop time)."""

    def __init__(
        self, config: ProviderConfig, context: BuildContext, login: Callable[[KeyHttp], Credential], *, usage: bool
    ) -> None:
        """`usage`: whether CloudMonitor is called."""
        self._transport, self.region = open_transport(config, context), config.region
        asked = {api: config.endpoint(api) for api in VERSIONS if usage or api != "cloudmonitor"}
        self.endpoints: Mapping[str, str] = asked
        self._key_http = KeyHttp(self._transport, context, config.endpoint, asked)
        self.identity = login(self._key_http)
        self._clients = {
            api: self._transport.client(url, PaiDialect(api, VERSIONS[api], self.identity, context.clock))
            for api, url in asked.items()
        }

    async def get(self, api: str, operation: str, path: str, into: type[T], *, deadline: float, **options: Any) -> T:
        """Make one call. `options` are those of Call, such as its `query`."""
        call = Call(operation=operation, path=path, method="POST" if api == "cloudmonitor" else "GET", **options)
        return await self._clients[api].call(call, into, deadline=deadline)

    async def list_all(
        self, of: ListOf[T], path: str, query: Mapping[str, str] = NONE, *, deadline: float, **options: Any
    ) -> Listing[T]:
        async def read_page(number: int) -> Page[T]:
            asked = {**query, "PageNumber": str(number + 1), "PageSize": str(PAGE_SIZE)}
            page = await self.get(of.api, of.operation, path, of.pages, query=asked, deadline=deadline, **options)
            return Page(values.whole(page.total_count), page.rows)

        return await read_whole_list(read_page, id_of=of.id_of, operation=of.operation)

    async def count(self, of: ListOf[Any], path: str, query: Mapping[str, str], *, deadline: float) -> int:
        """The TotalCount of a list: one call however long it is."""
        asked = {**query, "PageNumber": "1", "PageSize": "1"}
        page = await self.get(of.api, of.operation, path, Total, query=asked, deadline=deadline)
        if (total := values.whole(page.total_count)) is None:
            raise BadAnswer("the answer has no TotalCount", operation=of.operation)
        return total

    async def aclose(self) -> None:
        await self._key_http.aclose()
        await self._transport.aclose()


def segment(any_id: str) -> str:
    """An id as a part of a path. Ids are opaque and come from the cloud: none may reach the path as it is."""
    return quote(any_id, safe="", errors="replace")


# Signatures.

ALGORITHM = "ACS3-HMAC-SHA256"


def sign(keys: Keys, call: Call, host: str, *, version: str, now: float, nonce: str) -> SignedRequest:
    """Sign one attempt. `host` is as in the Host header, `now` in Unix seconds. The service rejects an old nonce."""
    # Send the canonical query itself, so that the request has the signed query.
    query, body_sha256 = canonical_query(call.query), sha256(call.body)
    headers = {
        "host": host,
        "x-acs-action": call.operation,
        "x-acs-content-sha256": body_sha256,
        "x-acs-date": iso_time(now),
        "x-acs-signature-nonce": nonce,
        "x-acs-version": version,
    }
    if keys.security_token:
        headers["x-acs-security-token"] = keys.security_token
    request_hash = sha256(
        canonical_request(method=call.method, path=call.path, query=query, headers=headers, body_sha256=body_sha256)
    )
    signature = hmac_sha256(keys.access_key_secret, f"{ALGORITHM}\n{request_hash}")
    names = ";".join(sorted(headers))
    headers["Authorization"] = (
        f"{ALGORITHM} Credential={keys.access_key_id},SignedHeaders={names},Signature={signature}"
    )
    target = f"{call.path}?{query}" if query else call.path
    return SignedRequest(call.method, target, headers, call.body, keys.quotable(), (signature, request_hash))


# The meaning of responses.

_CLOCK_CODES = ("InvalidTimeStamp", "InvalidTimestamp", "IllegalTimestamp")
_KEY_CODES = ("InvalidSecurityToken", "InvalidAccessKeyId", "SignatureDoesNotMatch")
_ACCESS_CODES = (
    *("IncompleteSignature", "Forbidden", "NoPermission", "OperationForbidden", "RAMForbidden"),
    *("AuthenticationFail", "EntityNotExist"),
)
_ADDRESS_CODES = ("InvalidAction", "InvalidApi", "InvalidProduct", "InvalidVersion")
_CODES: Sequence[tuple[tuple[str, ...], type[CloudError]]] = (
    (("Throttling",), Throttled),
    ((*_CLOCK_CODES, *_KEY_CODES, *_ACCESS_CODES), AccessDenied),
    (_ADDRESS_CODES, RequestRefused),
)
"""What codes mean that begin so. Other codes mean what their HTTP status means."""
_GOOD_CODES = frozenset({"", "200", "OK", "Success"})
"""Codes of good responses of CloudMonitor, next to HTTP 200."""
_SERVICE_CODES = ("Internal", "ServiceUnavailable")


class PaiDialect(SignedDialect):
    """Signs the requests of an API of one version, and judges its responses (transport.Dialect)."""

    clock_codes, key_codes = _CLOCK_CODES, _KEY_CODES

    def __init__(self, api: str, version: str, credential: Credential, clock: ServerClock) -> None:
        super().__init__(api, credential, clock)
        self.version = version

    def sign(self, call: Call, host: str) -> SignedRequest:
        keys = self.credential.current()
        return sign(keys, call, host, version=self.version, now=self.now(), nonce=uuid.uuid4().hex)

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        return judge(answer)


def judge(answer: HttpAnswer) -> CloudError | None:
    """None for a good answer; else what went wrong, by its code first and its HTTP status second."""
    payload = answer.payload if isinstance(answer.payload, dict) else {}
    code = text(payload, "Code") or text(payload, "code")
    status = answer.status
    if 200 <= status < 300:
        if flag(payload, "Success") is not False and code in _GOOD_CODES:
            return None
        # The HTTP status that an answer ought to have had which says by its Code alone that it is an error.
        status = int(code) if re.fullmatch("[45][0-9]{2}", code) else 500 if code.startswith(_SERVICE_CODES) else 400
    message = printable(text(payload, "Message") or text(payload, "message"), 300)
    facts: dict[str, Any] = {
        "status": answer.status,
        "code": printable(code, 80),
        "request_id": printable(text(payload, "RequestId") or text(payload, "requestId"), 64),
        "retry_after": retry_after(answer.headers),
    }
    by_code = (kind for codes, kind in _CODES if code.startswith(codes))
    kind = Throttled if status == 429 else next(by_code, None) or kind_of(status)
    if kind is None:
        return None
    if code.startswith("SignatureDoesNotMatch"):
        # The service's own message quotes the string that it signed; the reason is nearly always this one.
        message = "the signature was refused: is the access key secret the right one?"
    elif code.startswith(_ADDRESS_CODES):
        message = f"{message or 'unknown operation'} (is the endpoint right?)"
    return error_of(kind, message, **facts)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The service's wait hint in seconds.

    `x-acs-retry-after` is whole MILLISECONDS; the older `x-ratelimit-user-api` and `x-ratelimit-user` hold
    `...,TimeLeft:2000,...`, milliseconds as well. Anything not positive or not readable is no hint.
    """
    older = f"{headers.get('x-ratelimit-user-api')},{headers.get('x-ratelimit-user')}"
    hints = [headers.get("x-acs-retry-after", ""), *re.findall(r"\bTimeLeft:([^,]*)", older)]
    found = (whole({"hint": hint.strip()}, "hint") for hint in hints)
    return next((milliseconds / 1000 for milliseconds in found if milliseconds), None)
