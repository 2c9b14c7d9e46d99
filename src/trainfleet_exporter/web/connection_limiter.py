"""Tracks open connections and chooses which one to close at the limit.

    new (no request yet) ──► answering ◄──► stalled (the client does not read)
                                 ▲  │          │
                                 │  ▼          ▼
                                 idle (answered, no new request yet)

Slow and greedy clients hold their connections as long as they can. Prometheus sends its request and reads the answer at
once. So at the limit a new connection replaces, in this order:

1. a connection that has been stalled for 10 seconds, the longest first, of a client that has more connections;
2. the longest-idle connection of the client that has most connections, if that has two more: first one that is new,
   idle or stalled, else one that is being answered;
3. an idle connection of its own client;
4. a new connection of a client that has more: many addresses with one connection each cannot displace known clients.

A client that has half of all connections replaces one of its own. A client is an IPv4 address, or an IPv6 network of 64
bits, which is the least that one customer is given.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import Callable, Collection
from enum import Enum

from trainfleet_exporter.process.logs import fields

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 512
"""The limit of Prometheus's own server."""
_STALLED_SECONDS = 10.0
"""Seconds without a byte read after which a stalled connection is the first to be replaced."""
_ANSWERING_SECONDS = 30.0
"""Seconds after which a new connection of the same client may replace one that is being answered."""
_LOG_AGAIN_SECONDS = 60.0
"""Seconds below the limit after which reaching it is logged again."""


class State(Enum):
    """The state of a connection."""

    NEW = "new"
    ANSWERING = "answering"
    STALLED = "stalled"
    IDLE = "idle"
    CLOSED = "closed"


_INACTIVE = frozenset({State.NEW, State.STALLED, State.IDLE})


class Slot:
    """The place of one connection in a ConnectionLimiter."""

    __slots__ = ("_limiter", "client", "close", "since", "state")

    def __init__(self, limiter: ConnectionLimiter, client: str) -> None:
        self._limiter = limiter
        self.client = client
        self.state = State.NEW
        self.since = asyncio.get_running_loop().time()
        """The loop's time at which its state began."""
        self.close: Callable[[], object] = lambda: None
        """Closes the connection at once; set by its owner."""

    def begin_answer(self) -> None:
        """A request has come, and its response is in progress."""
        self._change(State.ANSWERING, {State.NEW, State.IDLE})

    def stall(self) -> None:
        """The client reads its response more slowly than the exporter sends it. The rest of a completely written
        response does not count."""
        self._change(State.STALLED, {State.ANSWERING})

    def resume(self) -> None:
        """The client reads its answer again."""
        self._change(State.ANSWERING, {State.STALLED})

    def end_answer(self) -> None:
        """The answer was written whole, and no other request has come."""
        self._change(State.IDLE, {State.ANSWERING, State.STALLED})

    def release(self) -> None:
        """The connection is closed, or closes now. It may be called more than once."""
        self.close = lambda: None
        self._change(State.CLOSED, set(State) - {State.CLOSED})

    def _change(self, to: State, allowed: Collection[State]) -> None:
        if self.state in allowed:
            self.state = to
            self.since = asyncio.get_running_loop().time()
            self._limiter.changed(self)


class ConnectionLimiter:
    """All connections of one server: at most `limit`, and half as many of one client."""

    def __init__(self, limit: int = MAX_CONNECTIONS) -> None:
        self._limit = limit
        self._limit_of_one = max(1, limit // 2)
        self._slots: dict[Slot, None] = {}
        """The one whose state began longest ago is first."""
        self._counts: Counter[str] = Counter()
        """Connections by client."""
        self._short_at = float("-inf")

    def __len__(self) -> int:
        return len(self._slots)

    def admit(self, address: str) -> Slot | None:
        """Admit a new connection, and close another one for it at the limit. None if it must be closed itself."""
        client = client_of(address)
        is_at_own_limit = self._counts[client] >= self._limit_of_one
        if is_at_own_limit or len(self._slots) >= self._limit:
            replaced = self._of_same(client) if is_at_own_limit else self._of_any(client)
            self._log_limit(is_refused=replaced is None)
            if replaced is None:
                return None
            close = replaced.close
            replaced.release()  # which the connection itself may do later only
            close()
        slot = Slot(self, client)
        self._slots[slot] = None
        self._counts[client] += 1
        return slot

    def changed(self, slot: Slot) -> None:
        """Record a change of a connection's state."""
        del self._slots[slot]
        if slot.state is not State.CLOSED:
            self._slots[slot] = None
            return
        self._counts[slot.client] -= 1
        if not self._counts[slot.client]:
            del self._counts[slot.client]

    def _of_any(self, client: str) -> Slot | None:
        """Return the connection that a new one of this client replaces at the connection limit."""
        own = self._counts[client]
        larger = {other for other, count in self._counts.items() if count > own}
        most = max(self._counts, key=self._counts.__getitem__)
        of_most = {most} if self._counts[most] > own + 1 else set()
        return (
            self._longest(larger, {State.STALLED}, _STALLED_SECONDS)
            or self._longest(of_most, _INACTIVE)
            or self._longest(of_most, {State.ANSWERING})
            or self._of_same(client)
            or self._longest(larger, {State.NEW})
        )

    def _of_same(self, client: str) -> Slot | None:
        """Return the connection of the same client that a new one replaces."""
        return (
            self._longest({client}, {State.STALLED}, _STALLED_SECONDS)
            or self._longest({client}, _INACTIVE)
            or self._longest({client}, {State.ANSWERING}, _ANSWERING_SECONDS)
        )

    def _longest(self, clients: Collection[str], states: Collection[State], seconds: float = 0.0) -> Slot | None:
        """The connection of these clients that has been in one of these states for longest, and at least so long."""
        began = asyncio.get_running_loop().time() - seconds
        found = (slot for slot in self._slots if slot.state in states and slot.client in clients)
        longest = next(found, None)
        return longest if longest is not None and longest.since <= began else None

    def _log_limit(self, *, is_refused: bool) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._short_at >= _LOG_AGAIN_SECONDS:
            action = "reject new connections" if is_refused else "close inactive connections"
            facts = fields(limit=self._limit, limit_per_client=self._limit_of_one, action=action)
            log.warning("connection limit reached", extra=facts)
        self._short_at = now


def client_of(address: str) -> str:
    """The client at this address: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # of a kind that has no addresses
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)
