"""The building blocks of the transport: calls, signed requests, responses, and the protocols that a platform
implements."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol

from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.process.redaction import HoldsSecrets


class _NotJson(Enum):
    NOT_JSON = "NOT_JSON"


NOT_JSON: Final = _NotJson.NOT_JSON
"""The payload of a response whose body is not JSON; JSON's own null is None."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """The pattern of a text, and its name in errors (`a token`)."""

    name: str
    form: re.Pattern[str]


_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """The limits for reading and decoding one response.

    A value takes up to 130 bytes and 0.1 µs to decode, so the default is 32 MiB and 25 ms of the event loop. The
    largest answer about one job is that of GetJob: 5,000 pods, each replaced twice, have 200,000 values in 6 MB.
    """

    wire: int = 8 * _MIB
    """Bytes as they come."""
    decoded: int = 8 * _MIB
    """Bytes when inflated."""
    values: int = 250_000
    """Commas and opening brackets: a list or an object has at most that many values. Those within texts count too."""
    tolerated: int = 1_000_000
    """The same for a response that does not fit its struct and is read field by field (transport.payload)."""


USUAL: Final = BodyLimits()
PAGE: Final = BodyLimits(wire=32 * _MIB, decoded=32 * _MIB)
"""For pages of a list, and for lists without pages. A row has 50 to 300 values: 100 jobs with commands of 300 kB fit,
and 500 nodes with their labels."""
BULK: Final = BodyLimits(wire=32 * _MIB, decoded=32 * _MIB, values=1_000_000)
"""For whole histories. A month of 20 metrics each minute is 864,000 values."""
HISTORY: Final = BodyLimits(wire=32 * _MIB, decoded=32 * _MIB, values=5_000_000, tolerated=5_000_000)
"""For backfill, which reads whole days in a separate process: 32 MiB of points reach the limit of bytes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(HoldsSecrets):
    """One API call, before it is signed. Queries and bodies can hold secrets, so they stay out of the repr."""

    operation: str
    """The API's own name for it, such as `ListJobs`; the label `operation`."""
    path: str
    """Percent-encoded, such as `/api/v1/jobs`."""
    method: str = "GET"
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Decoded values."""
    body: bytes = field(default=b"", repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Parts of the query or body to redact if a response quotes them, such as a password."""
    may_be_empty: bool = False
    """Whether a good response may have no body (204, or an empty 200): counted as no_data, returned as an empty one."""
    text: TextForm | None = field(default=None, repr=False)
    """The pattern of a good response that is text instead of JSON; returned without spaces around it."""
    receive_headers: Callable[[Mapping[str, str]], None] | None = field(default=None, repr=False)
    """Receives the headers of a good response, if they matter (one has a token)."""
    no_data: Callable[[Any], bool] | None = field(default=None, repr=False)
    """Returns whether a well-formed response has no data: it counts as `no_data`, and is still returned."""
    limits: BodyLimits = USUAL
    kind: str = ""
    """Names calls of the operation that may fail without its others: a poll gives up one kind alone."""


@dataclass(frozen=True, slots=True)
class SignedRequest(HoldsSecrets):
    """One attempt as sent. The repr has only the method, because the query or a header may hold a signature."""

    method: str
    target: str = field(repr=False)
    """`path?query`, byte for byte as signed."""
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials that a response may quote: ids of keys, tokens."""
    proofs: tuple[str, ...] = field(default=(), repr=False)
    """The same, of this attempt alone: a signature, the hash that was signed. Those in an `Authorization` header, or
    in a parameter whose name ends in `signature`, need not be named."""


@dataclass(frozen=True, slots=True)
class HttpAnswer(HoldsSecrets):
    """A complete HTTP answer, by which a dialect judges. `headers` are looked up in any case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    payload: Any = field(repr=False)
    """The decoded JSON value, or NOT_JSON. Of an answer with a 2xx status, only the fields that are short: its rows are
    decoded later, and typed (transport.payload)."""


class Dialect(Protocol):
    """Signs requests of one API of one cloud, and judges its responses."""

    @property
    def api(self) -> str:
        """The label `api`, such as `dlc`."""
        ...

    async def prepare(self, call: Call, deadline: float) -> object:
        """Prepare what signing needs, and refresh temporary credentials if they are due. May raise CloudError. Awaited
        once before the first attempt. The result names the credential and is passed to `refused`.
        """
        ...

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """The call was denied. Return whether to prepare and try it again (a token ended before its time)."""
        ...

    def sign(self, call: Call, host: str) -> SignedRequest:
        """Sign one attempt; `host` holds `:port` where it is not the scheme's default.

        Called for each attempt, because nonces and dates must differ. May raise CloudError (no credentials):
        then nothing is sent and nothing counted.
        """
        ...

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """Return the error of a response by its status, code and headers, or None for a good response.

        It gets every complete response, also those that are not JSON.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The limits of calls to one API host."""

    requests_per_second: float = 5
    concurrency: int = 4

    def __post_init__(self) -> None:
        if not (math.isfinite(self.requests_per_second) and self.requests_per_second > 0) or self.concurrency < 1:
            raise ValueError("limits must let some request through")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(HoldsSecrets):
    """How to reach hosts. Timeouts are in seconds; `proxy_url` can hold a password."""

    proxy_url: str | None = field(default=None, repr=False)
    """For every host; without it, and with `trust_env`, HTTP(S)_PROXY, ALL_PROXY and NO_PROXY apply."""
    ca_file: Path | None = None
    """Trusted instead of the system's authorities."""
    connect_timeout: float = 5
    """DNS, TCP and TLS together."""
    request_timeout: float = 20
    """One attempt from its first to its last byte."""
    trust_env: bool = True


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt, as the cloud bills it. `outcome` is a word of `trainfleet_exporter_api_requests_total`."""

    api: str
    operation: str
    outcome: str
    seconds: float
    caller: str = ""
    """The collector that polled; empty if none did."""
