"""Who is connected, and who goes when one more comes than may be.

    accepted ──► waiting: for TLS, for a request, or for the rest of one ◄──► served: an answer is under way

Slow clients and greedy ones wait, and hold their connections as long as they can; Prometheus asks at once. So whoever
has waited longest makes room for who comes, among the clients that have more connections than that one, the one with
most first: nobody loses a connection to somebody who has more already. A client is an IPv4 address, or an IPv6 network
of 64 bits, which is the least that one customer is given. Where each has one, who was never answered yet makes
room, so that strangers of many addresses neither keep out who comes nor take the place of who is known.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)

LIMIT = 512
"""Connections at a time, as many as Prometheus's own server takes."""
_PATIENCE = 30.0
"""Seconds that an answer has till its connection may be given to a newcomer of the same client."""
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
        """When it came, or began to be served the last time; of the loop's clock."""
        return self._since

    def wait(self) -> None:
        """A request, or the rest of one, is to come."""
        if self in self._client.served:
            del self._client.served[self]
            self._client.waiting[self] = None

    def serve(self) -> None:
        """A request has come, and its answer is under way."""
        if self in self._client.waiting:
            del self._client.waiting[self]
            self._since = asyncio.get_running_loop().time()
            self.is_known = True
            self._client.served[self] = None

    def leave(self) -> None:
        """The connection is no more, or about to be."""
        self.end = _nothing
        self._guests.forget(self, self._client)


class _Client:
    """The connections of one address, or network."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.waiting: dict[Guest, None] = {}
        """Who has waited longest is first."""
        self.served: dict[Guest, None] = {}

    def __len__(self) -> int:
        return len(self.waiting) + len(self.served)


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
        key = _key(address)
        client = self._clients.get(key) or _Client(key)
        if len(client) >= self._limit_of_one:
            leaves = self._of_same(client)
        elif self._count >= self._limit:
            leaves = self._of_others(client) or self._of_same(client) or self._of_strangers(client)
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
        for held in (client.waiting, client.served):
            if guest in held:
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
    def _of_same(client: _Client) -> Guest | None:
        """Who makes room for another one of the same client."""
        found = _first(client.waiting)
        if found is None:
            longest = _first(client.served)
            if longest is not None and asyncio.get_running_loop().time() - longest.since >= _PATIENCE:
                return longest
        return found

    def _of_others(self, client: _Client) -> Guest | None:
        """Who makes room among the clients that would still not have fewer connections than this one, then."""
        larger = [other for other in self._clients.values() if len(other) > len(client) + 1]
        if not larger:
            return None
        most = max(larger, key=len)
        return _first(most.waiting) or _first(most.served)

    def _of_strangers(self, client: _Client) -> Guest | None:
        """Who makes room where no client has two connections more than this one: of those with one more, whoever has
        not been answered yet and came first."""
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


def _key(address: str) -> str:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # of a kind that has no addresses
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)
