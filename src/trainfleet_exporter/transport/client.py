"""Makes calls.

prepare the credential ──► wait for a turn ──► sign ──► send ──► judge ──► decode
                                ▲                 transient errors, twice at most │
                                └─────────────────────────────────────────────────┘
"""

from __future__ import annotations

import asyncio
import random as randomness
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

import httpx

from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    LeaseLost,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    Throttled,
)
from trainfleet_exporter.transport.aiohttp_transport import AiohttpTransport
from trainfleet_exporter.transport.answer_redaction import SentSecrets
from trainfleet_exporter.transport.calls import Attempt, Call, Dialect, HttpAnswer, HttpSettings, SignedRequest
from trainfleet_exporter.transport.exchange import Exchange
from trainfleet_exporter.transport.limiter import Account
from trainfleet_exporter.transport.payload import NotJson, decode
from trainfleet_exporter.transport.proxies import proxy_passwords
from trainfleet_exporter.transport.retry import CALLER, MAX_ATTEMPTS, Caller, backoff, wait_hint

T = TypeVar("T")
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}(:\d{1,5})?|\[[0-9a-f:.]{2,45}\](:\d{1,5})?", re.ASCII)

_LONGEST_WAIT = 5.0
"""Seconds that a call waits for its next attempt."""


class Transport:
    """The transport of one provider: one connection pool.

    `account` holds the limits, which its other providers may share. The transport calls `observe` once for every
    attempt, in the loop. `send` replaces the network (tests); `random` the jitter. Raises StartError for an unusable CA
    file.
    """

    def __init__(
        self,
        *,
        account: Account,
        http: HttpSettings,
        observe: Callable[[Attempt], None],
        send: httpx.AsyncBaseTransport | None = None,
        random: randomness.Random | None = None,
    ) -> None:
        self.http = http
        self.observe = observe
        self.send = AiohttpTransport(http, account.check) if send is None else send
        self.sent_secrets = SentSecrets(proxy_passwords(http))
        self.random = randomness.SystemRandom() if random is None else random
        self.account = account

    def client(self, base_url: str, dialect: Dialect) -> ApiClient:
        """Return a client for one API at `scheme://host[:port]`. Raise ValueError for another form of `base_url`."""
        try:
            url = httpx.URL(str(httpx.URL(base_url)))  # twice: one pass over HTTPS://h:443 leaves the port in
        except httpx.InvalidURL:
            raise ValueError("not an address") from None
        if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.raw_path != b"/":
            raise ValueError("not scheme, host and port alone")
        return ApiClient(self, url.scheme, url.netloc.decode("ascii"), dialect)

    async def aclose(self) -> None:
        """Close every connection. Calls in flight fail."""
        await self.send.aclose()


class ApiClient:
    """One API of one cloud at one host. Made by Transport.client."""

    def __init__(self, transport: Transport, scheme: str, host: str, dialect: Dialect) -> None:
        self._transport, self._host, self._dialect = transport, host, dialect
        self._exchange = Exchange(f"{scheme}://{host}", host, transport.send, transport.http)
        self._account = transport.account
        self._limiter = transport.account.limiter(host, dialect.api)

    @overload
    async def call(self, call: Call, *, deadline: float) -> Any: ...
    @overload
    async def call(self, call: Call, into: type[T], *, deadline: float) -> T: ...
    async def call(self, call: Call, into: type[Any] = dict, *, deadline: float) -> Any:
        """Return the JSON object of a good response as `into` (see transport.payload), by `deadline` (loop time).

        For an empty response, if `Call.may_be_empty` allows it, return `into()`. Raises only CloudError, the last real
        one. Transient ones except timeouts are tried again twice, unless the poll has given the operation up (Caller).
        """
        try:
            mark = await self._prepare(call, deadline)
            try:
                return await self._call(call, into, deadline)
            except AccessDenied as error:
                if not self._dialect.refused(error, mark):
                    raise
            await self._prepare(call, deadline)
            return await self._call(call, into, deadline)
        except CloudError as error:
            error.operation = error.operation or call.operation
            raise

    async def _prepare(self, call: Call, deadline: float) -> object:
        try:
            return await self._dialect.prepare(call, deadline)
        except (NotFound, RequestRefused) as error:
            # A role that does not exist must not count as a job that does not exist.
            raise AccessDenied.of(error) from None

    async def _call(self, call: Call, into: type[T], deadline: float) -> T:
        caller = CALLER.get() or Caller("")
        operation = (self._host, self._dialect.api, call.operation, call.kind)

        def check() -> None:
            self._account.check()
            caller.check(operation, self._host)

        failure: CloudError | None = None
        try:
            for number in range(1, MAX_ATTEMPTS + 1):
                try:
                    await self._limiter.acquire(deadline, check)
                except CloudError as refusal:
                    raise failure or refusal from None
                started, signed = asyncio.get_running_loop().time(), None
                try:
                    signed = self._dialect.sign(call, self._host)
                    payload = await self._attempt(call, into, signed, deadline, caller)
                except CloudError as error:
                    caller.failed(operation, error, deadline)
                    wait = self._wait(error, number, started)  # before another call gets this turn
                    is_late = isinstance(error, RequestTimedOut | LeaseLost)  # the first failure says more
                    failure = failure if failure and is_late else error.with_traceback(None)  # which holds the answer
                else:
                    caller.succeeded(operation)
                    return payload
                finally:
                    self._limiter.release(used=signed is not None)
                resume = asyncio.get_running_loop().time() + wait
                # A call that hangs has held its turn long enough, and a long pause is left to the next poll.
                is_final = is_late or wait > _LONGEST_WAIT or not failure.transient
                if is_final or number == MAX_ATTEMPTS or resume >= deadline:
                    break
                await asyncio.sleep(wait)
            assert failure is not None  # the loop ends by return, by an error or with a failure
            raise failure
        finally:
            failure = None  # its trace holds this frame, and this frame would hold it

    def _wait(self, error: CloudError, number: int, started: float) -> float:
        """Return the seconds until the next attempt, and pause the host if it asked for a pause."""
        hint = wait_hint(error.retry_after) if error.transient else None
        wait = backoff(number, self._transport.random) if hint is None else hint
        if isinstance(error, Throttled):
            self._limiter.throttled(started)
        if hint is not None or isinstance(error, Throttled):
            self._limiter.pause(wait)
        return wait

    async def _attempt(self, call: Call, into: type[T], signed: SignedRequest, deadline: float, caller: Caller) -> T:
        """Make one attempt, and report it once with any result.

        A cancelled attempt (the daemon stops, a poll is over) counts as `timeout`: the cloud bills it, and no complete
        response came in time.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcome = BadAnswer.outcome
        self._transport.sent_secrets.note((*signed.secrets, *call.secrets))
        try:
            payload, outcome = await self._exchange.send(
                call, signed, deadline, accept=lambda answer: self._accept(answer, call, into, signed)
            )
        except asyncio.CancelledError:
            outcome = RequestTimedOut.outcome
            raise
        except CloudError as error:
            outcome = error.outcome
            self._transport.sent_secrets.redactor(signed).redact_error(error)
            raise
        else:
            return payload
        finally:
            if outcome != LeaseLost.outcome:  # then nothing was sent
                caller.calls[self._dialect.api] += 1
                seconds = loop.time() - started
                self._transport.observe(Attempt(self._dialect.api, call.operation, outcome, seconds, caller.collector))

    def _accept(self, answer: HttpAnswer, call: Call, into: type[T], signed: SignedRequest) -> tuple[T, str]:
        """Return the payload of a response that the dialect accepts, and the outcome to count.

        Every API here returns objects (or texts, if the call expects them). Other responses are from another server.
        """
        if (error := self._dialect.judge(answer)) is not None:
            # Judge again without quotes of requests: a dialect truncates long texts, and half a token would stay.
            redacted = self._dialect.judge(self._transport.sent_secrets.redactor(signed).redact_answer(answer))
            # In a long response, the second verdict may lack what the first one was about.
            raise redacted if type(redacted) is type(error) else error
        if 300 <= answer.status < 400:
            raise RequestRefused(
                f"{self._host}: redirected to {self._redirect(answer)}; redirects are not followed",
                status=answer.status,
            )
        payload, is_empty = self._payload(answer, call, into)
        if call.receive_headers is not None:
            call.receive_headers(answer.headers)
        is_empty = is_empty or (call.no_data is not None and call.no_data(payload))
        return payload, "no_data" if is_empty else "ok"

    def _payload(self, answer: HttpAnswer, call: Call, into: type[T]) -> tuple[T, bool]:
        """Return the payload of a good response, and whether an optional body was missing."""
        if call.text is not None:
            text = answer.body.decode("utf-8", errors="replace").strip()
            if not call.text.form.fullmatch(text):
                raise BadAnswer(f"{self._host}: the answer is not {call.text.name}", status=answer.status)
            return cast("T", text), False
        try:
            return decode(answer.body, into, tolerated=call.limits.tolerated), False
        except BadAnswer as error:
            raise BadAnswer(f"{self._host}: {error.message}", status=answer.status) from None
        except NotJson:
            if call.may_be_empty and not answer.body.strip():
                return into(), True
            # The start of a body could be a secret. Its size and type are enough to recognize a login page or a proxy.
            kind = answer.headers.get("content-type", "")
            facts = f"{len(answer.body)} bytes of {_media_type(kind)}" if answer.body else "an empty body"
            raise BadAnswer(f"{self._host}: the answer is not JSON but {facts}", status=answer.status) from None

    def _redirect(self, answer: HttpAnswer) -> str:
        try:
            host = httpx.URL(answer.headers.get("location", "")).netloc.decode("ascii") or self._host
        except httpx.InvalidURL:
            host = ""
        return host if _HOST.fullmatch(host) else "no valid address"


def _media_type(content_type: str) -> str:
    kind = content_type.partition(";")[0].strip()
    return kind if kind.isascii() and kind.isprintable() and 0 < len(kind) <= 60 else "no stated type"
