"""One poll and its parts. One that fails keeps its lines; the failure is counted, and logged once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from trainfleet_exporter.errors import CloudError, DeadlineExceeded, Throttled, TrainfleetError
from trainfleet_exporter.polling.parts import PartStore, Rebuild
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.telemetry import CollectorState, LastError, Telemetry
from trainfleet_exporter.transport.json_fields import UNUSABLE

log = logging.getLogger(__name__)

_LATEST = 50
_UNUSABLE = ("malformed", "out_of_range")


class Failures:
    """Failures and losses of one collector. The log has a line when they begin, change their kind, or end. `state` has
    the last error."""

    def __init__(self, state: CollectorState, telemetry: Telemetry) -> None:
        self.state = state
        self.who = {"provider": state.provider, "collector": state.collector}
        """For log lines."""
        self._telemetry = telemetry
        self._known: set[str] = set()
        self._noted: set[str] = set()
        """The reasons of this poll."""
        self.lost: Counter[str] = Counter()
        """By reason, the unusable readings of this poll."""
        self.unserved = set[str]()
        self._loses = False
        self.count = 0
        self._weight = 0
        """The weight that an error must exceed to be the last one of the state. That is the first of the most important
        errors of the latest poll that had errors: later ones mostly follow from it."""
        self.latest: list[Exception] = []
        """The first few errors of the latest poll, without tracebacks, which would keep the objects of their frames in
        memory."""

    def begin(self) -> None:
        """A new poll begins."""
        self._weight = 1 if self.count else 0
        self.count = 0
        self.latest = []
        self._noted, self.unserved = set(), set()
        self.lost.clear()

    def lose(self, reason: str, count: int) -> None:
        """Count dropped readings. The log says when invalid ones begin and end."""
        if count:
            self._telemetry.dropped(self.state, reason, count)
        if count and reason in _UNUSABLE:
            self.lost[reason] += count

    def add(self, part: str, error: Exception) -> None:
        """A part failed."""
        self.count += 1
        self.state.success = False
        self.note(part, error, failed=True)

    def note(self, part: str, error: Exception, *, failed: bool = False) -> None:
        """Count and log an error, whether or not a part failed by it."""
        reason = error.reason if isinstance(error, TrainfleetError) else "internal"
        weight = 1 + failed  # a failed part ranks above an optional call
        if weight > self._weight:
            self._weight = weight
            self.state.error = LastError(time.time(), part, _in_words(error))
        if len(self.latest) < _LATEST:
            self.latest.append(error)
        self._telemetry.failed(self.state, reason)
        self._noted.add(reason)
        if reason in self._known:
            return
        self._known.add(reason)
        if isinstance(error, TrainfleetError):
            log.warning("poll failed", extra=fields(**self.who, part=part, error=error))
        else:  # a bug of ours: fixing it needs the traceback
            facts = fields(**self.who, part=part, reason=reason)
            log.error("poll failed: internal error", exc_info=error, extra=facts)

    def end(self) -> None:
        """The poll ended. If nothing failed, earlier failures that it did not repeat are over."""
        for error in self.latest:
            _without_traces(error)
        # A failed poll read less, so it does not prove that all readings can be used again.
        if bool(self.lost) is not self._loses and (self.lost or self.count == 0):
            self._loses = not self._loses
            if self._loses:
                log.warning("dropped unusable readings", extra=fields(**self.who, **self.lost))
            else:
                log.info("no more unusable readings", extra=fields(**self.who))
        over = self._known - self._noted if self.count == 0 else set()
        if over:
            self._known -= over
            log.info("poll recovered", extra=fields(**self.who, reasons=",".join(sorted(over))))


def _in_words(error: Exception) -> str:
    if isinstance(error, TrainfleetError):
        return str(error)
    # Other exceptions may contain any text.
    return f"internal error ({type(error).__name__}); see the log"


def _without_traces(error: BaseException) -> None:
    """Release the frames of an error that is kept only for its text."""
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        inner, found.__context__ = found.__context__, None
        found = inner


class _Reporting:
    """What a poll and its parts have in common: they report failures and dropped readings of one collector."""

    def __init__(self, store: PartStore, failures: Failures, deadline: float) -> None:
        self.store = store
        self.deadline = deadline
        """Loop time."""
        self.lost: Mapping[str, int] = failures.lost
        """By reason, the unusable readings of the poll so far."""
        self.unserved = failures.unserved
        """The parts that the service failed in this poll, before its time was over."""
        self._failures = failures

    @property
    def interval(self) -> float:
        """The collector's effective interval in seconds."""
        return self._failures.state.interval

    def failed(self, key: str, error: Exception) -> None:
        """Record that a part could not be read, or something outside the part: it can still be published then."""
        self.store.fail(key)
        self._failures.add(key, error)

    def lacks(self, what: str, error: CloudError) -> None:
        """Count and log a call that failed and that the poll, or the part, does not need. Neither fails."""
        self._failures.note(what, error)

    def dropped(self, reason: str, count: int = 1) -> None:
        """Count dropped readings, by one of telemetry.DROP_REASONS."""
        self._failures.lose(reason, count)


class Part(_Reporting):
    """One part while it is being read."""

    def __init__(
        self, key: str, store: PartStore, failures: Failures, deadline: float, wanted: Callable[[], bool]
    ) -> None:
        super().__init__(store, failures, deadline)
        self.key = key
        self._wanted = wanted

    async def publish(
        self, objects: Sequence[object], *, stale_at: float | None = None, rebuild: Rebuild | None = None
    ) -> None:
        """Publish a complete response in place of the last one. At `stale_at` (Unix time), and after a failure, it is
        replaced by what `rebuild` makes of it then."""
        if self._wanted():
            self.dropped("too_long", self.store.publish(self.key, objects, stale_at=stale_at, rebuild=rebuild))

    async def not_found(self, error: CloudError) -> None:
        """Remove the part's series: its object was deleted after it was listed. Only once: if it is listed again and
        again not found, it was not deleted, and the error is raised as a failure.
        """
        if self.key in self.store.missed:
            raise error
        await self.publish([])
        self.store.missed.add(self.key)


class Poll(_Reporting):
    """One poll of a bulk collector, or one cycle of a per-object collector."""

    closing = False
    """Set when the daemon stops or a reload removes the provider: an interrupted part has not failed then."""

    @asynccontextmanager
    async def part(
        self, key: str, *, deadline: float | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[Part]:
        """Read one part. An error inside the block is recorded as a failure of this part, and does not leave the block.

        `wanted` is called before a response is shown or a failure is recorded, because the part may have become
        obsolete.
        """
        unusable: Counter[str] = Counter()
        token, deadline = UNUSABLE.set(unusable), self.deadline if deadline is None else deadline
        try:
            yield Part(key, self.store, self._failures, deadline, wanted)
        except asyncio.CancelledError:
            if not self.closing:
                self.failed(key, DeadlineExceeded("not read before the poll's deadline"))
            raise
        except Exception as error:  # noqa: BLE001 - one part's trouble, ours included, must not reach its neighbours
            is_answer = isinstance(error, CloudError) and error.attempted and not isinstance(error, Throttled)
            if is_answer and asyncio.get_running_loop().time() < deadline - 1:
                self.unserved.add(key)
            if wanted():
                self.failed(key, error)
        finally:
            UNUSABLE.reset(token)
            for reason, count in unusable.items():
                self.dropped(reason, count)

    async def read_each(
        self, keys: Iterable[str], read: Callable[[Part], Awaitable[None]], *, at_once: int
    ) -> set[str]:
        """Read the parts in this order, `at_once` of them at a time. Returns the parts that succeeded. If all were read
        at the same time, all would be unfinished at the deadline, and all would fail.
        """
        slots = asyncio.Semaphore(at_once)
        succeeded: set[str] = set()

        async def read_one(key: str) -> None:
            async with self.part(key) as part, slots:
                await read(part)
                succeeded.add(key)

        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(read_one(key))
        return succeeded

    def warn(self, message: str, **facts: object) -> None:
        """Log a fixed message and facts that the owner of the config should know, and that are not a failure."""
        log.warning(message, extra=fields(**self._failures.who, **facts))

    def keep_only(self, keys: Collection[str]) -> None:
        """Drop all parts except these."""
        self.store.keep_only(keys)
