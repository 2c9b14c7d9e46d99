"""Makes calls: checks breakers and limits, signs, sends, judges and counts, and retries if needed."""

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
    KeptConnectionClosed,
    NotFound,
    RequestRefused,
    RequestTimedOut,
    Throttled,
)
from trainfleet_exporter.transport.account import Account
from trainfleet_exporter.transport.aiohttp_transport import AiohttpTransport
from trainfleet_exporter.transport.answer_redaction import SentSecrets
from trainfleet_exporter.transport.calls import (
    CALLER,
    Attempt,
    Call,
    Dialect,
    HttpAnswer,
    HttpSettings,
    SignedRequest,
)
from trainfleet_exporter.transport.exchange import Exchange
from trainfleet_exporter.transport.guard import HostGuard, Turn
from trainfleet_exporter.transport.payload import NotAnObject, NotJson, TooManyValues, decode
from trainfleet_exporter.transport.proxies import proxy_passwords
from trainfleet_exporter.transport.retry import MAX_ATTEMPTS, backoff, wait_hint

T = TypeVar("T")
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}(:\d{1,5})?|\[[0-9a-f:.]{2,45}\](:\d{1,5})?", re.ASCII)


class Transport:
    """The transport of one provider: one connection pool, and one guard for each API at each host.

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
        breaker_max_open: float = 30.0,
        send: httpx.AsyncBaseTransport | None = None,
        random: randomness.Random | None = None,
    ) -> None:
        self.http = http
        self.observe = observe
        self.send = AiohttpTransport(http) if send is None else send
        self.sent_secrets = SentSecrets(proxy_passwords(http))
        self.random = randomness.SystemRandom() if random is None else random
        self._account = account
        self._breaker_max_open = breaker_max_open
        self._guards: dict[tuple[str, str], HostGuard] = {}

    def client(self, base_url: str, dialect: Dialect) -> ApiClient:
        """Return a client for one API at `scheme://host[:port]`. Raise ValueError for another form of `base_url`."""
        try:
            url = httpx.URL(str(httpx.URL(base_url)))  # twice: one pass over HTTPS://h:443 leaves the port in
        except httpx.InvalidURL:
            raise ValueError("not an address") from None
        if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.raw_path != b"/":
            raise ValueError("not scheme, host and port alone")
        host = url.netloc.decode("ascii")
        key = (host, dialect.api)
        if key not in self._guards:
            self._guards[key] = HostGuard(
                host,
                self._account.limiter(host, dialect.api),
                may_call=self._account.may_call,
                breaker_max_open=self._breaker_max_open,
            )
        return ApiClient(self, url.scheme, self._guards[key], dialect)

    async def aclose(self) -> None:
        """Close every connection. Calls in flight fail."""
        await self.send.aclose()


class ApiClient:
    """One API of one cloud at one host. Made by Transport.client."""

    def __init__(self, transport: Transport, scheme: str, guard: HostGuard, dialect: Dialect) -> None:
        self._transport = transport
        self._exchange = Exchange(f"{scheme}://{guard.host}", guard.host, transport.send, transport.http)
        self._host = guard.host
        self._guard = guard
        self._dialect = dialect

    @overload
    async def call(self, call: Call, *, deadline: float) -> Any: ...
    @overload
    async def call(self, call: Call, into: type[T], *, deadline: float) -> T: ...
    async def call(self, call: Call, into: type[Any] = dict, *, deadline: float) -> Any:
        """Return the JSON object of a good response as `into` (see transport.payload), by `deadline` (loop time).

        For an empty response, if `Call.may_be_empty` allows it, return `into()`. Raises only CloudError. Transient
        errors are tried again within the deadline, the retry budget and the breakers; then the last real error is
        raised. If the first attempt used a kept connection that was closed while idle, it is repeated at once, even
        without a retry budget: every call here can be repeated.
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
        failure: CloudError | None = None
        try:
            for number in range(1, MAX_ATTEMPTS + 1):
                try:
                    turn = await self._guard.enter(call.operation + call.breaker, call.priority, deadline)
                except CloudError as refusal:
                    raise failure or refusal from None
                with turn:
                    signed = self._dialect.sign(call, self._host)
                    try:
                        turn.charge()
                    except CloudError as refusal:
                        raise failure or refusal from None
                    if number == 1:
                        self._guard.retries.earn()
                    started = asyncio.get_running_loop().time()
                    try:
                        return await self._attempt(call, signed, turn, deadline, number, into=into)
                    except CloudError as error:
                        failure = error.with_traceback(None)  # which holds the answer
                    # Still inside the turn: set the pause before the next call in the queue gets this slot.
                    wait = self._wait(failure, number, started)
                resume = asyncio.get_running_loop().time() + wait
                if not self._may_retry(call, failure, number, resume, deadline):
                    break
                await asyncio.sleep(wait)
            assert failure is not None  # the loop ends by return, by an error or with a failure
            raise failure
        finally:
            failure = None  # its trace holds this frame, and this frame would hold it

    def _wait(self, error: CloudError, number: int, started: float) -> float:
        """Return the seconds until the next attempt, and pause the host if it asked for a pause."""
        if not error.transient or _is_lapse(error, number):
            return 0.0
        hint = wait_hint(error.retry_after)
        failures = number
        if isinstance(error, Throttled):
            failures = max(number, self._guard.throttled(started))
            self._guard.limiter.throttled(started, error.pace)
        wait = backoff(failures, self._transport.random) if hint is None else hint
        if hint is not None or isinstance(error, Throttled):
            self._guard.limiter.pause(wait)
        return wait

    def _may_retry(self, call: Call, error: CloudError, number: int, resume: float, deadline: float) -> bool:
        return (
            error.transient
            and number < MAX_ATTEMPTS
            and resume < deadline
            and not self._guard.will_refuse(call.operation + call.breaker, resume)
            and (_is_lapse(error, number) or self._guard.retries.spend())
        )

    async def _attempt(
        self, call: Call, signed: SignedRequest, turn: Turn, deadline: float, number: int, *, into: type[T]
    ) -> T:
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
                call, signed, turn, deadline, accept=lambda answer: self._accept(answer, call, into, signed)
            )
            turn.answered()
            self._guard.not_throttled()
        except asyncio.CancelledError:
            outcome = RequestTimedOut.outcome
            raise
        except CloudError as error:
            outcome = error.outcome
            if not _is_lapse(error, number):
                # No change if the exchange has settled it.
                turn.failed(self._transport.sent_secrets.redactor(signed).redact_error(error))
            raise
        else:
            return payload
        finally:
            seconds = loop.time() - started
            caller = CALLER.get()
            collector = "" if caller is None else caller.collector
            if caller is not None:
                caller.calls[self._dialect.api] += 1
            self._transport.observe(Attempt(self._dialect.api, call.operation, outcome, seconds, collector))

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
        except TooManyValues:
            said = f"the answer is over the limit of {call.limits.tolerated:,} values that can be read field by field"
            raise BadAnswer(f"{self._host}: {said}", status=answer.status) from None
        except NotAnObject:
            raise BadAnswer(f"{self._host}: the answer is JSON but not an object", status=answer.status) from None
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


def _is_lapse(error: CloudError, number: int) -> bool:
    """Return whether an attempt failed because of the age of its connection, which proves nothing about the host or
    operation.

    This applies to the first attempt of a call only: an operation that closes every connection must not count as
    working.
    """
    return number == 1 and isinstance(error, KeptConnectionClosed)


def _media_type(content_type: str) -> str:
    kind = content_type.partition(";")[0].strip()
    return kind if kind.isascii() and kind.isprintable() and 0 < len(kind) <= 60 else "no stated type"
