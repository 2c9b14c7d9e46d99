"""Signed calls, where they are the same for every cloud: credentials, the cloud's clock, and the meaning of a status.

response ──judge──► error, and the cloud's time ──► ServerClock ──► signatures, and all topics of the provider
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Generic

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.keys import Credential, K
from trainfleet_exporter.transport import Call, HttpAnswer

log = logging.getLogger(__name__)

_SKEW = 60.0
"""If our clock differs by more than these seconds, it is wrong. The services accept minutes."""
_ACCEPTED = 900.0
"""Beyond these seconds, the date of an accepted request is not that of its service."""
_STATUSES: Mapping[int, type[CloudError]] = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 429: Throttled}
_USUAL_WORDS: Mapping[type[CloudError], str] = {
    AccessDenied: "access denied",
    NotFound: "not found",
    RequestRefused: "the request was refused",
    ServerTrouble: "the service failed",
    Throttled: "too many requests",
}


def kind_of(status: int) -> type[CloudError] | None:
    """What an HTTP status alone means. None for a good one, and for a redirect, which the transport reports."""
    if status < 400:
        return None
    return _STATUSES.get(status, RequestRefused if status < 500 else ServerTrouble)


def error_of(kind: type[CloudError], message: str, **facts: Any) -> CloudError:
    """The error, in usual words if the service gave none."""
    return kind(message or _USUAL_WORDS[kind], **facts)


def _ahead_of(date: str) -> float | None:
    """How far the header `date` of a response is ahead of the clock here; None without a date that can be used."""
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):  # no date, or one beyond the year 9999
        return None


@dataclass(slots=True)
class ServerClock:
    """The clock of the cloud (BuildContext.clock), which all APIs and topics of a provider share.

    Ask it, and not `time.time`, wherever a time meets one that the cloud wrote: in request windows, ages and phases.
    """

    ahead: float = 0.0
    """Seconds by which it is ahead of this machine's. Dates of responses correct it, so read it at each use."""
    started: float = field(default_factory=time.time)
    """When the provider was opened, by the clock of this machine."""

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return time.time() + self.ahead

    @property
    def began(self) -> float:
        """When the provider was opened, in Unix seconds by this clock."""
        return self.started + self.ahead


class SignedDialect(ABC, Generic[K]):
    """Base of the dialects (transport.Dialect) that sign with a credential, by the cloud's clock.

    The clock follows the dates of responses to accepted requests: a single API that is wrong must not change it. If a
    request is rejected because of its date, it is signed once more, by the date of the response.
    """

    clock_codes: ClassVar[tuple[str, ...]] = ("",)
    """How codes begin of rejections that a wrong date can cause."""
    key_codes: ClassVar[tuple[str, ...]]
    """The same for those that are about the key or its token."""

    def __init__(self, api: str, credential: Credential[K], clock: ServerClock) -> None:
        self.api = api
        self.credential = credential
        self._clock = clock
        self.is_dated = True
        """Whether the service checks the date of requests."""
        self._refused_ahead: float | None = None
        """By how many seconds the date of the latest refusal is ahead, until a request is accepted."""

    async def prepare(self, call: Call, deadline: float) -> object:
        """Make the keys valid. The returned mark has the clock that signs the call."""
        return self._ahead, await self.credential.keys(deadline)

    def refused(self, error: AccessDenied, mark: object) -> bool:
        """Return whether the clock was corrected after the mark, or other keys can be tried."""
        assert isinstance(mark, tuple)
        ahead, keys = mark
        if ahead != self._ahead and self._may_blame_clock(error):
            return True
        # An error without a status: the keys expired, or their file vanished, while the call waited for its turn.
        return (error.status is None or self.blames_credential(error)) and self.credential.refused(keys)

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """Return None for a good response (transport.Dialect)."""
        error, ahead = self.meaning(answer), _ahead_of(answer.headers.get("date", ""))
        if ahead is None:
            return error
        off = abs(ahead - self._ahead)
        if error is None:
            if min(off, abs(ahead - self._clock.ahead)) <= _ACCEPTED or not self.is_dated:
                self._correct(ahead)
        elif off >= _SKEW and isinstance(error, AccessDenied) and self._may_blame_clock(error):
            self._refused_ahead = ahead
        return error

    def now(self) -> float:
        """Return the time for a signature in Unix seconds."""
        return time.time() + self._ahead

    @abstractmethod
    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        """Return None for a good response, else its error."""

    def blames_credential(self, error: AccessDenied) -> bool:
        """Return whether other keys might be accepted: not if a permission is missing or a clock is wrong."""
        return error.code.startswith(self.key_codes)

    def _may_blame_clock(self, error: AccessDenied) -> bool:
        return self.is_dated and error.code.startswith(self.clock_codes)

    @property
    def _ahead(self) -> float:
        return self._clock.ahead if self._refused_ahead is None else self._refused_ahead

    def _correct(self, ahead: float) -> None:
        self._refused_ahead = None
        if abs(ahead - self._clock.ahead) >= _SKEW:
            self._clock.ahead = ahead
            facts = fields(api=self.api, seconds=round(-ahead))
            log.error("clock of this machine is off; the cloud's time is used", extra=facts)
