"""Collectors that are async methods of a topic of a cloud: `@collector("pools")` on `async def pools(self, poll)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

from trainfleet_exporter.polling import BulkCollector, Poll

T = TypeVar("T", bound=Callable[..., Awaitable[None]])
_MARK = "__collector__"


def collector(name: str) -> Callable[[T], T]:
    """Mark a method that takes a Poll as the collector of this name, which is also its key in the config."""

    def mark(method: T) -> T:
        setattr(method, _MARK, name)
        return method

    return mark


class MethodCollector(BulkCollector):
    """A collector that is one method. `expired` gets the keys of parts that were kept long enough."""

    def __init__(
        self, name: str, interval: float, method: Callable[[Poll], Awaitable[None]], expired: Callable[[str], None]
    ) -> None:
        super().__init__(name, interval)
        self._method = method
        self._expired = expired

    async def poll(self, poll: Poll) -> None:
        """Call the method."""
        await self._method(poll)

    def expired(self, key: str) -> None:
        """Forget what depends on a part."""
        self._expired(key)


def collectors_of(topics: Iterable[object], chosen: Any, every: float) -> Iterator[MethodCollector]:
    """Yield the collectors of the topics of a cloud that the config section `chosen` enables.

    `every` is the default interval in seconds. A method NAME_expired of a topic gets the expired parts of NAME.
    """
    for topic in topics:
        for method in [getattr(topic, attribute) for attribute in vars(type(topic))]:
            name = getattr(method, _MARK, "")
            if name and getattr(chosen, name).enabled:
                expired = getattr(topic, f"{name}_expired", lambda key: None)
                yield MethodCollector(name, getattr(chosen, name).effective_interval(every), method, expired)
