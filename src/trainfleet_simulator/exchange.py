"""A request and its response, and what the simulated clouds share: finding an operation, and parsing its parameters."""

from __future__ import annotations

import base64
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.responses import JSONResponse, PlainTextResponse, Response

from trainfleet_simulator.world.fleet import World

Row = tuple[str, str, tuple[int, str, str] | None]
"""A kind of rejection; names of APIs, operations or `token`, of which one must fit (empty: all); and the error, None if
there is none. The first row that fits counts. Messages may have {api}, {name} and {detail}: the date or the key of the
request."""
_WITHOUT_SESSION = "PutToken GetMetadataToken"
_METADATA: Sequence[Row] = (
    ("unknown", "", (404, "NotFound", "Not Found")),
    ("invalid", "", (400, "BadRequest", "Bad Request")),
    ("throttled", "", (429, "TooManyRequests", "Too Many Requests")),
    ("server_error", "", (500, "InternalServerError", "Internal Server Error")),
    ("denied", "", (403, "Forbidden", "Forbidden")),
    ("not_found", "", (404, "NotFound", "Not Found")),
    ("skewed_clock", "", None),
    ("expired_credentials", _WITHOUT_SESSION, None),
    ("expired_credentials", "", (401, "Unauthorized", "Unauthorized")),
    # The machine has lost its role.
    ("revoked_credentials", f"{_WITHOUT_SESSION} GetContainerKeys", None),
    ("revoked_credentials", "", (404, "NotFound", "Not Found")),
)
"""The errors of the metadata service of a machine."""
_KEY = re.compile(r"Access=([^,\s]+)")
_BY_STATUS = {400: "invalid", 401: "denied", 403: "denied", 404: "not_found", 429: "throttled"}
"""The usual kinds of rejections."""
ON_REQUEST = "The simulator fails on request."
_FORM = "application/x-www-form-urlencoded"
_TOKEN = re.compile(r"([0-9]{1,12}):([0-9]{1,9})")
_KEPT_LISTS = 64


def utc_text(at: float) -> str:
    """Format Unix seconds as the clouds write most times."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a request, with their types and bounds."""


Found = TypeVar("Found", bound=Body)


class ApiError(Exception):
    """A rejection, with the service's own code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One received request: path as on the wire, query decoded, header names in lower case."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: Mapping[str, str]
    body: bytes

    def form(self) -> dict[str, str]:
        """Return the fields of a form; empty for another body."""
        if not self.headers.get("content-type", "").lower().startswith(_FORM):
            return {}
        return dict(parse_qsl(self.body.decode("utf-8", "replace"), keep_blank_values=True))

    def json(self) -> Any:
        """Return the decoded body; None if it is not JSON."""
        try:
            return json.loads(self.body or b"{}")
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Answer:
    """A response without an error. `/truth` records the total and the rows of lists of jobs."""

    body: dict[str, Any] | None
    total: int | None = None
    rows: list[list[Any]] = field(default_factory=list)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    """Text that is sent instead of a body: XML if it begins with an element."""


@dataclass(frozen=True)
class Call:
    """One call. Without a route, the cloud does not have the operation: its name is `unknown`.

    `facts` are what `/truth` and `/faults` know of it. `ids` are the names in its path.
    """

    cloud: Cloud
    request: ApiRequest
    route: Route | None
    api: str
    name: str
    facts: Mapping[str, str]
    ids: tuple[str, ...]
    now: float
    request_id: str

    @property
    def world(self) -> World:
        """The cloud's world, up to now."""
        return self.cloud.world

    @property
    def paged_by(self) -> str:
        """The parameter of the pages of a list."""
        return self.route.paged_by if self.route else ""

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of its query or form."""
        return self.cloud.parameters(self.request)

    @cached_property
    def body(self) -> Any:
        """The decoded body; None if it is not JSON."""
        return self.request.json()

    def answer(self) -> Answer:
        """Check the identity, and respond. Raises ApiError."""
        if self.route is None:
            raise self.refused("unknown")
        if self.route.signed:
            self.cloud.verify(self)
        self.world.advance(self.now)
        return self.route.handle(self)

    def rejected(self, error: ApiError) -> Response:
        """Return a rejection in the cloud's form. That of a metadata service is a text."""
        if self.api == "metadata":
            return PlainTextResponse(error.message, error.status)
        return self.cloud.reject(error, self)

    def refusal(self, kind: str, detail: str = "") -> ApiError | None:
        """Return the cloud's error for a kind of rejection; None if the operation has no such rejection."""
        headers = self.request.headers
        key = _KEY.search(headers.get("authorization", ""))
        detail = detail or headers.get("x-amz-date", "") or (key[1] if key else "")
        facts = {self.api, self.name, *(["token"] if "x-auth-token" in headers else [])}
        for one, names, error in _METADATA if self.api == "metadata" else self.cloud.refusals:
            if one == kind.removesuffix("_hint") and (not names or not facts.isdisjoint(names.split())):
                if error is None:
                    return None
                return ApiError(*error[:2], error[2].format(api=self.api, name=self.name, detail=detail))
        return None

    def refused(self, kind: str, detail: str = "") -> ApiError:
        """Return the error for a kind of rejection that every operation has."""
        error = self.refusal(kind, detail)
        assert error is not None
        return error

    def usual(self, status: int) -> ApiError:
        """Return the error that the cloud usually sends with a status."""
        error = self.refused(_BY_STATUS.get(status, "server_error"), ON_REQUEST)
        return ApiError(status, error.code, error.message)

    def text(self, name: str, default: str = "") -> str:
        return self.parameters.get(name) or default

    def invalid(self, name: str, allowed: str) -> ApiError:
        """Return the error for a parameter."""
        return self.refused("invalid", f"The parameter {name} is invalid: {self.text(name)!r}; allowed: {allowed}.")

    def whole(self, name: str, default: int, lowest: int, highest: int) -> int:
        """Return a whole number within its bounds."""
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and lowest <= int(text) <= highest):
            raise self.invalid(name, f"{lowest} to {highest}")
        return int(text)

    def choice(self, name: str, allowed: Sequence[str], default: str = "") -> str:
        """Return one of the documented words, in their exact case."""
        text = self.text(name, default)
        if text and text not in allowed:
            raise self.invalid(name, ", ".join(allowed))
        return text

    def read(self, kind: type[Found]) -> Found:
        """Return the body. Raises ApiError if it has unknown fields or invalid values."""
        try:
            return msgspec.convert(self.body, kind)
        except msgspec.ValidationError as error:
            raise self.refused("invalid", str(error)) from None

    def page(
        self, token: str, size: int, find: Callable[[], Sequence[Any]], *about: object
    ) -> tuple[Sequence[Any], dict[str, str], int]:
        """Return the rows of a page, its NextToken if there are more, and the total number of rows.

        `find` creates the list at the request for its first page. The other pages are cut from the same list. A token
        can be used more than once, for the same operation and the same facts `about` the list. Raises ApiError.
        """
        number, start = place_of(token)
        question = (self.name, *about)
        lists = self.cloud.lists
        asked, found = lists.get(number, (None, ())) if token else (question, find())
        if asked != question:
            raise self.invalid("NextToken", "a token of this list")
        end, following = start + size, {}
        if end < len(found):
            if not token:
                number = next(self.cloud.numbers)
                lists[number] = question, found
                lists.pop(number - _KEPT_LISTS, None)
            following = {"NextToken": base64.b64encode(f"{number}:{end}".encode()).decode()}
        return found[start:end], following, len(found)


def place_of(token: str) -> tuple[int, int]:
    """Return the number of a list, and the number of rows before a page; zeros for an unknown token."""
    try:
        found = _TOKEN.fullmatch(base64.b64decode(token, validate=True).decode())
    except ValueError:
        found = None
    return (int(found[1]), int(found[2])) if found else (0, 0)


Handler = Callable[[Call], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """An operation: its names, the pattern of its method and path, and the function that responds."""

    api: str
    name: str
    place: re.Pattern[str]
    handle: Handler
    signed: bool
    paged_by: str


def route(api: str, name: str, place: str, handle: Handler, *, signed: bool = True) -> Route:
    """Build a route. `place` has the method, the path with names in braces, and the parameter of a list's pages."""
    method, path, *paged_by = place.split()
    pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", f"{method} {path}"))
    return Route(api, name, pattern, handle, signed, "".join(paged_by))


class Cloud(ABC):
    """One simulated cloud with its world."""

    routes: Sequence[Route]
    refusals: Sequence[Row]
    """Its errors: those of faults and signatures, `unknown` (an operation) and `invalid` (a parameter)."""
    secret: Set[str] = frozenset()
    """Parameters that `/truth` does not show."""
    id_header: str
    """The header with the id of a request."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists: dict[int, tuple[object, Sequence[Any]]] = {}
        """The last lists that did not fit on one page, by number, each with the question that it responds to."""
        self.numbers = itertools.count(1)

    @abstractmethod
    def takes(self, request: ApiRequest) -> bool:
        """Return whether a request is for this cloud."""

    @abstractmethod
    def named(self, request: ApiRequest) -> tuple[str, str]:
        """Return the API and the operation that a request names; an empty name if only its path has it."""

    def parameters(self, request: ApiRequest) -> Mapping[str, str]:
        """Return the parameters of a request."""
        return dict(request.query) | request.form()

    def facts(self, request: ApiRequest, name: str) -> Mapping[str, str]:
        """Return the parameters of an operation for `/truth` and `/faults`, without secrets."""
        return {key: value for key, value in self.parameters(request).items() if key not in self.secret}

    def call(self, request: ApiRequest, now: float, request_id: str) -> Call:
        """Return the call of a request."""
        api, name = self.named(request)
        for one in self.routes:
            found = one.place.fullmatch(f"{request.method} {request.path}")
            if found and (not api or one.api == api) and (not name or one.name == name):
                ids = {key: unquote(part) for key, part in found.groupdict().items() if part is not None}
                facts = {**self.facts(request, one.name), **ids}
                return Call(self, request, one, one.api, one.name, facts, tuple(ids.values()), now, request_id)
        # Any client can send names: the table must not grow without end.
        return Call(self, request, None, api or "unknown", "unknown", {}, (), now, request_id)

    @abstractmethod
    def verify(self, call: Call) -> None:
        """Check the identity of a caller. Raises ApiError."""

    def respond(self, answer: Answer, call: Call) -> Response:
        """Return a response in this cloud's form."""
        headers = {self.id_header: call.request_id, **answer.headers}
        if answer.text is not None:
            kind = XmlResponse if answer.text.startswith("<") else PlainTextResponse
            return kind(answer.text.replace("{request_id}", call.request_id), answer.status, headers)
        if answer.body is None:
            return Response(status_code=answer.status, headers=headers)
        return JSONResponse(answer.body, answer.status, headers)

    @abstractmethod
    def reject(self, error: ApiError, call: Call) -> Response:
        """Return a rejection of an API."""

    def hint(self, seconds: int) -> Mapping[str, str]:
        """Return the headers, besides Retry-After, with the seconds to wait."""
        return {}


class XmlResponse(PlainTextResponse):
    """A response in XML, which faults do not change."""

    media_type = "text/xml"
