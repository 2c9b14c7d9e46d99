"""Tracks open connections, and chooses which one to close at the limit.

    accepted ──► waiting: for TLS, for a request, or for the rest of one ◄──► served: an answer is being sent
                    ▲                                                           │  ▲
                    └────────────────────────────────────────────────── stalled: the client does not take it

Slow and greedy clients hold their connections as long as they can. Prometheus asks at once, and reads at once. So at
the limit a new connection replaces an idle one:

1. a connection whose client has taken nothing of its answer for 10 seconds, the longest first;
2. the waiting or stalled connection on which nothing has happened for longest, of the same client where that has all
   that it may have, else of the client that has most. No client loses a connection to one that has more.

A client is an IPv4 address, or an IPv6 network of 64 bits, which is the least that one customer is given. Where each
has one, a connection that was never answered yet is replaced: strangers of many addresses neither keep out a new
client nor take the place of a known one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)

LIMIT = 512
"""Connections at a time, as many as Prometheus's own server takes."""
_STALLED = 10.0
"""Seconds without a byte taken after which a connection is the first to be replaced."""
_PATIENCE = 30.0
"""Seconds after which an answer that is not stalled may be replaced by a new connection of the same client."""
_CALM = 60.0
"""Seconds without a shortage after which the next one is told again."""


class Guest:
    """One connection. Belongs to a Guests."""

    __slots__ = ("_client", "_guests", "_since", "end", "is_known")

    def __init__(self, guests: Guests, client: _Client) -> None:
        self.end: Callable[[], object] = _nothing
        """What breaks the connection off at once: set by who has it."""
        self._guests = guests
        self._client = client
        self._since = asyncio.get_running_loop().time()
        self.is_known = False
        """Whether it has made a request before."""

    @property
    def since(self) -> float:
        """The loop's time at which it came, was last asked or answered, stalled, or went on after that."""
        return self._since

    @property
    def age(self) -> float:
        """Seconds since then."""
        return asyncio.get_running_loop().time() - self._since

    def wait(self) -> None:
        """A request, or the rest of one, is to come."""
        if self not in self._client.waiting:
            self._move(self._client.waiting)

    def serve(self) -> None:
        """A request has come, and its answer is under way."""
        if self in self._client.waiting:
            self.is_known = True
            self._move(self._client.served)

    def stall(self) -> None:
        """The client does not take its answer as fast as it is sent. What is left of an answer that was written whole
        does not count: the connection waits."""
        if self in self._client.served:
            self._move(self._client.stalled)

    def flow(self) -> None:
        """The client takes its answer again."""
        if self in self._client.stalled:
            self._move(self._client.served)

    def _move(self, to: dict[Guest, None]) -> None:
        held = self._client.holder(self)
        if held is not None:
            del held[self]
            to[self] = None
            self._since = asyncio.get_running_loop().time()

    def leave(self) -> None:
        """The connection is no more, or about to be."""
        self.end = _nothing
        self._guests.forget(self, self._client)


class _Client:
    """The connections of one address, or network."""

    def __init__(self, key: str) -> None:
        self.key = key
        # In each, the one that came into it first is first.
        self.waiting: dict[Guest, None] = {}
        self.served: dict[Guest, None] = {}
        self.stalled: dict[Guest, None] = {}

    def __len__(self) -> int:
        return len(self.waiting) + len(self.served) + len(self.stalled)

    def holder(self, guest: Guest) -> dict[Guest, None] | None:
        """Which of the three has the connection; None where it has left."""
        return next((held for held in (self.waiting, self.served, self.stalled) if guest in held), None)

    def idle_longest(self) -> Guest | None:
        """The waiting or stalled connection on which nothing has happened for longest."""
        idle = (_first(held) for held in (self.waiting, self.stalled))
        return min(filter(None, idle), key=lambda guest: guest.since, default=None)


class Guests:
    """All connections of one server. `limit` is how many there may be, and half as many of one client."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._limit_of_one = max(1, limit // 2)
        self._clients: dict[str, _Client] = {}
        self._count = 0
        self._short_at = float("-inf")

    def __len__(self) -> int:
        return self._count

    def admit(self, address: str) -> Guest | None:
        """One more, waiting; None if it must go at once. Another may be broken off for it."""
        key = key_of(address)
        client = self._clients.get(key) or _Client(key)
        if len(client) >= self._limit_of_one:
            leaves = self._of_same(client)
        elif self._count >= self._limit:
            larger = [other for other in self._clients.values() if len(other) > len(client)]
            leaves = (
                self._long_stalled(larger)
                or self._of_others(client)
                or self._of_same(client)
                or self._of_strangers(client)
            )
        else:
            return self._enter(client)
        self._tell(leaves is None)
        if leaves is None:
            return None
        end = leaves.end
        leaves.leave()  # which the connection itself may tell later only
        end()
        return self._enter(client)

    def forget(self, guest: Guest, client: _Client) -> None:
        """It does not count any more."""
        held = client.holder(guest)
        if held is not None:
            del held[guest]
            self._count -= 1
        if not client and self._clients.get(client.key) is client:  # else another of the name has come since
            del self._clients[client.key]

    def _enter(self, client: _Client) -> Guest:
        guest = Guest(self, client)
        client.waiting[guest] = None
        self._clients[client.key] = client
        self._count += 1
        return guest

    @staticmethod
    def _long_stalled(clients: Iterable[_Client]) -> Guest | None:
        """The connection whose client has taken nothing of its answer for longest, if that is long."""
        stalled = (_first(client.stalled) for client in clients)
        longest = min(filter(None, stalled), key=lambda guest: guest.since, default=None)
        return longest if longest is not None and longest.age >= _STALLED else None

    def _of_same(self, client: _Client) -> Guest | None:
        """The connection that is replaced by another one of the same client."""
        found = self._long_stalled([client]) or client.idle_longest()
        if found is None:
            longest = _first(client.served)
            if longest is not None and longest.age >= _PATIENCE:
                return longest
        return found

    def _of_others(self, client: _Client) -> Guest | None:
        """The connection that is replaced, of a client that still has as many connections as this one then."""
        larger = [other for other in self._clients.values() if len(other) > len(client) + 1]
        if not larger:
            return None
        most = max(larger, key=len)
        return most.idle_longest() or _first(most.served)

    def _of_strangers(self, client: _Client) -> Guest | None:
        """The connection that is replaced where no client has two more than this one: of those with one more, the
        oldest that was never answered."""
        larger = [other for other in self._clients.values() if len(other) > len(client)]
        waiting = [guest for other in larger for guest in other.waiting if not guest.is_known]
        return min(waiting, key=lambda guest: guest.since, default=None)

    def _tell(self, is_refused: bool) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._short_at >= _CALM:
            log.warning(
                "more connections than are allowed (%d, of one address %d): %s; told once while it lasts",
                self._limit,
                self._limit_of_one,
                "newcomers are turned away" if is_refused else "who waits longest is cut off",
            )
        self._short_at = now


def _nothing() -> None:
    pass


def _first(guests: Iterable[Guest]) -> Guest | None:
    return next(iter(guests), None)


def key_of(address: str) -> str:
    """What stands for the client at this address: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # of a kind that has no addresses
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)
