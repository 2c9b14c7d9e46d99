"""Collectors with a part for each workspace, or pool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Generic, TypeVar

from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.polling import Part, PartsCollector, Topic

Row = TypeVar("Row")
T = TypeVar("T")
SharedT = TypeVar("SharedT", bound=Workspaces)


class PerWorkspaceCollector(PartsCollector, Generic[SharedT]):
    """A bulk collector with one part for each workspace."""

    def __init__(self, name: str, shared: SharedT, interval: float) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared

    async def keys(self) -> Sequence[str]:
        """The ids of the workspaces."""
        return await self._shared.ids.get()


class PerPoolCollector(PartsCollector, Generic[SharedT]):
    """A bulk collector with one part for each pool of `pools`."""

    def __init__(self, name: str, shared: SharedT, interval: float, pools: Topic[Any]) -> None:
        super().__init__(name, interval, at_once=shared.at_once)
        self._shared = shared
        self._pools = pools

    async def keys(self) -> Sequence[str]:
        """The ids of the pools."""
        return list(await self._pools.get())


def distinct(
    part: Part, found: Iterable[T | None], id_of: Callable[[T], str], elsewhere: Collection[str] = ()
) -> tuple[dict[str, T], int]:
    """Translated rows by id, and how many are malformed (None). An id that comes again, or is one of `elsewhere`, is
    dropped as a duplicate."""
    kept: dict[str, T] = {}
    malformed = 0
    for item in found:
        if item is None:
            malformed += 1
        elif (key := id_of(item)) in kept or key in elsewhere:
            part.dropped("duplicate")
        else:
            kept[key] = item
    part.dropped("malformed", malformed)
    return kept, malformed
