"""Signed calls, where they are the same for every cloud: credentials, the cloud's clock, and the meaning of a status.

response ──judge──► error, and the cloud's time ──► ServerClock ──► signatures, and all topics of the provider
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from trainfleet_exporter.errors import AccessDenied, CloudError, NotFound, RequestRefused, ServerTrouble, Throttled
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.keys import Credential
from trainfleet_exporter.transport import Call, HttpAnswer

log = logging.getLogger(__name__)

_SKEW = 60.0
"""If our clock differs by more than these seconds, it is wrong. The services accept minutes."""
_ACCEPTED = 900.0
"""Beyond these seconds, the date of an accepted request is not that of its service."""
_STATUSES: Mapping[int, type[CloudError]] = {401: AccessDenied, 403: AccessDenied, 404: NotFound, 429: Throttled}


def kind_of(status: int) -> type[CloudError] | None:
    """What an HTTP status alone means. None for a good one, and for a redirect, which the transport reports."""
    if status < 400:
        return None
    return _STATUSES.get(status, RequestRefused if status < 500 else ServerTrouble)


def error_of(kind: type[CloudError], message: str, **facts: Any) -> CloudError:
    """The error of a response that may have no message."""
    return kind(message or "the service gave no reason", **facts)


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


class SignedDialect(ABC):
    """Base of the dialects (transport.Dialect) that sign with a credential, by the cloud's clock.

    The clock follows the dates of responses to accepted requests: a single API that is wrong must not change it. If a
    request is rejected because of its date, it alone is signed once more, by the date of the response.
    """

    clock_codes: ClassVar[tuple[str, ...]] = ("",)
    """How codes begin of rejections that a wrong date can cause."""
    key_codes: ClassVar[tuple[str, ...]]
    """The same for those that are about the key or its token."""

    def __init__(self, api: str, credential: Credential, clock: ServerClock) -> None:
        self.api = api
        self.credential = credential
        self._clock = clock
        self._refused: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        """By task: how far the date of a refusal was ahead. Its calls are signed by it until one is accepted."""
        self.is_dated = True
        """Whether the service checks the date of requests."""

    async def prepare(self, call: Call, deadline: float) -> object:
        """Make the keys valid. The mark is what the call is going to be signed with."""
        return await self.credential.keys(deadline), self._ahead

    def refused(self, error: AccessDenied, mark: Any) -> bool:
        """Return whether other keys than those of the mark can be tried, or another date."""
        keys, ahead = mark
        # An error without a status: the keys expired, or their file vanished, while the call waited for its turn.
        is_blamed = error.status is None or self.blames_credential(error)
        return (is_blamed and self.credential.refused(keys)) or self._ahead != ahead

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """Return None for a good response (transport.Dialect)."""
        error, ahead = self.meaning(answer), _ahead_of(answer.headers.get("date", ""))
        if ahead is None:
            return error
        off = abs(ahead - self._ahead)
        if error is None:
            if abs(ahead - self._clock.ahead) >= _SKEW and (off <= _ACCEPTED or not self.is_dated):
                self._clock.ahead = ahead
                facts = fields(api=self.api, seconds=round(-ahead))
                log.error("clock of this machine is off; the cloud's time is used", extra=facts)
            self._refused.pop(asyncio.current_task(), None)
        elif isinstance(error, AccessDenied) and self.is_dated and error.code.startswith(self.clock_codes):
            if off >= _SKEW:
                self._refused[asyncio.current_task()] = ahead
            elif asyncio.current_task() in self._refused:  # signed by the service's own date
                error.message += f" (the clock of this machine is off by {round(abs(ahead) / 60)} minutes)"
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

    @property
    def _ahead(self) -> float:
        return self._refused.get(asyncio.current_task(), self._clock.ahead)
