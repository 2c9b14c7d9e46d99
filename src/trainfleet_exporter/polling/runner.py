"""Runs one collector of one provider, poll after poll, and records the results."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from trainfleet_exporter.errors import DeadlineExceeded
from trainfleet_exporter.exposition import Renderer
from trainfleet_exporter.pacing import Pace
from trainfleet_exporter.polling.collector import BulkCollector, Collector, PerObjectCollector
from trainfleet_exporter.polling.parts import LineStore, PartStore
from trainfleet_exporter.polling.poll import Failures, Poll
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.telemetry import CollectorState, Telemetry
from trainfleet_exporter.transport import CALLER, Caller

log = logging.getLogger(__name__)

_CALLS_IN_A_POLL = 20
"""How many calls of one object are expected to end within poll_timeout, besides those of others at the usual limits."""

WHOLE_COLLECTOR = ""
"""The part name under which a failure of a collector as a whole is noted."""


class Runner:
    """Runs one collector. `first_poll_done` is set when its first poll, or that of its first object, has ended. A
    `pace` may make intervals longer.
    """

    def __init__(
        self,
        provider: str,
        collector: Collector,
        *,
        telemetry: Telemetry,
        page_store: LineStore,
        renderer: Renderer,
        keep_polls: int,
        poll_timeout: float,
        pace: Pace | None = None,
    ) -> None:
        self.collector = collector
        self.state = CollectorState(provider, collector.name, collector.interval)
        self.first_poll_done = asyncio.Event()
        self._poll_timeout = poll_timeout
        self._pace = pace
        self._took = 0.0
        self._unserved = set[str]()
        self._store = PartStore(
            self.state,
            page_store=page_store,
            renderer=renderer,
            keep_polls=keep_polls,
            poll_timeout=poll_timeout,
            expired=collector.expired if isinstance(collector, BulkCollector) else lambda key: None,
        )
        self._failures = Failures(self.state, telemetry)
        self._task: asyncio.Task[None] | None = None
        self._running: Poll | None = None
        self._stopping = False
        telemetry.watch(self.state)
        if isinstance(collector, PerObjectCollector):
            collector.watch(self._prune)

    @property
    def errors(self) -> Sequence[Exception]:
        """The first few errors of the latest poll."""
        return self._failures.latest

    @property
    def interval(self) -> float:
        """Seconds from the start of a poll to the start of the next: as configured, or longer by the pace."""
        return self.collector.interval if self._pace is None else self._pace.interval

    async def tick(self) -> None:
        """One poll, or one cycle over all objects. Raises only when cancelled from outside."""
        if self._stopping:
            return
        self._task = asyncio.current_task()
        caller = Caller(self.collector.name)
        token = CALLER.set(caller)
        try:
            await self._poll()
            self._log(caller.calls.total())
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            # The scheduler would log a traceback. The stop has been logged already.
        finally:
            CALLER.reset(token)
            if self._pace is not None:
                self._pace.polled(caller.calls)
            self.state.interval = max(self.interval, self._took)
            self._task = None
            self.first_poll_done.set()

    async def stop(self) -> None:
        """End the running poll now and start no other."""
        self._stopping = True
        if self._task is not None and self._running is not None:
            self._running.closing = True
            self._task.cancel()
            await asyncio.wait([self._task])

    def vanish(self) -> None:
        """Remove all of its series from the page, permanently."""
        self._store.close()

    def expire(self) -> None:
        """Drop expired parts (called about every second). Publish a longer interval at once, but a shorter one only
        after a poll has kept it."""
        self.state.interval = max(self.state.interval, self.interval)
        self._store.expire()

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        started, collector = loop.time(), self.collector
        self._failures.begin()
        poll = self._running = Poll(self._store, self._failures, started + self._poll_timeout)
        try:
            # The transport enforces the deadline of each call. This timeout covers other code that could hang. It is a
            # second later, so that the more precise error of the transport comes first.
            async with asyncio.timeout_at(poll.deadline + 1.0):
                await (collector.poll(poll) if isinstance(collector, BulkCollector) else collector.begin(poll))
            self._store.forgive(WHOLE_COLLECTOR)
            if not isinstance(collector, BulkCollector):
                await self._cycle(collector, poll, collector.objects(), started)
        except TimeoutError:
            if self._failures.count == 0:  # else the interrupted parts have noted it themselves
                poll.failed(WHOLE_COLLECTOR, DeadlineExceeded("the poll did not end within poll_timeout"))
        except Exception as error:  # noqa: BLE001 - a collector's failure is its own; the daemon goes on
            poll.failed(WHOLE_COLLECTOR, error)
        self._failures.end()
        self._store.account()
        self.state.duration = loop.time() - started
        self.state.success = self._failures.count == 0
        if self.state.success:
            self.state.last_success = time.time()

    def _log(self, calls: int) -> None:
        state = self.state
        facts = fields(
            **self._failures.who,
            result="success" if state.success else "failure",
            duration=round(state.duration or 0.0, 3),
            calls=calls,
            parts=state.parts,
            parts_failed=state.parts_failed,
            series=state.series,
        )
        log.debug("poll ended", extra=facts)

    async def _cycle(self, collector: PerObjectCollector, poll: Poll, objects: Sequence[str], started: float) -> None:
        loop = asyncio.get_running_loop()
        self._store.keep_only(objects)
        # Objects that were never read come first, at once. Those with values are spread over the interval. What the
        # service failed comes last: after many failures in a row, nothing is asked for a while.
        unserved, self._unserved = self._unserved, poll.unserved
        fresh = [key for key in objects if key not in self._store and key not in unserved]
        known = [key for key in objects if key in self._store and collector.is_current(key)]
        known.sort(key=unserved.__contains__)
        failed = [key for key in objects if key not in self._store and key in unserved]
        slots = asyncio.Semaphore(collector.workers)
        async with asyncio.TaskGroup() as group:
            for place, key in enumerate((*fresh, *known, *failed), start=-len(fresh)):
                if 0 <= place < len(known):
                    await asyncio.sleep(max(0.0, started + place / len(known) * self.interval - loop.time()))
                await slots.acquire()
                # A cycle that is longer than all before publishes its length at once, not only at its end.
                self.state.interval = max(self.state.interval, loop.time() - started)
                group.create_task(self._read(collector, poll, key, slots))
        self._took = loop.time() - started

    async def _read(self, collector: PerObjectCollector, poll: Poll, key: str, slots: asyncio.Semaphore) -> None:
        try:
            if collector.is_current(key):
                shares = 1 + collector.calls(key) // _CALLS_IN_A_POLL
                deadline = asyncio.get_running_loop().time() + shares * self._poll_timeout
                async with (
                    asyncio.timeout_at(deadline + 1.0),
                    poll.part(key, deadline=deadline, wanted=lambda: collector.is_current(key)) as part,
                ):
                    await collector.poll(part)
        except TimeoutError:
            pass  # noted by the part itself
        finally:
            slots.release()
            self.first_poll_done.set()

    def _prune(self) -> None:
        if isinstance(self.collector, PerObjectCollector):
            self._store.keep_if(self.collector.is_current)
