"""Pages of points that are told again, byte for byte: their readings are taken over without being decoded.

CloudMonitor has a new point of a metric every minute or more seldom; who polls more often is told most pages twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from trainfleet_exporter.providers.alibaba_pai.roster import Key

_HOPE = 5
"""Polls for which it is worth noting whose readings a page has, after one in which some page was told again."""

_Look: TypeAlias = tuple[int, int]
"""The length and the hash of a page. Python's hash of a text is keyed: another page's is 64 random bits."""


@dataclass(frozen=True, slots=True)
class KnownPage:
    """The readings of a page: their places in the roster, and the Unix time of all of them."""

    places: array[int]
    time: float


class KnownPages:
    """The pages of one feed at its last poll, and at the one under way: each poll's readings begin by `begin`."""

    def __init__(self) -> None:
        self._before: Mapping[_Look, KnownPage | None] = {}
        self._now: dict[_Look, KnownPage | None] = {}
        """None for a page of which it was not noted whose readings it has, or that has something unusual."""
        self._values_before = self._values = array("d")
        self._places: Mapping[Key, int] = {}
        self._served: Collection[str] = ()
        self._hope = 0
        self._look: _Look = (0, 0)

    def begin(self, values: array[float], *, places: Mapping[Key, int], served: Collection[str]) -> None:
        """A poll's readings begin: their `values` by place, and whose are taken."""
        if places is self._places and served == self._served:
            self._before = self._now
        else:
            self._before = dict.fromkeys(self._now)
        self._now = {}
        self._values_before, self._values = self._values, values
        self._places, self._served = places, served
        self._hope = max(self._hope - 1, 0)

    def meet(self, text: str) -> KnownPage | None:
        """What is known of a page that comes now; None where that is nothing, or not enough."""
        self._look = len(text), hash(text)
        if self._look in self._before:
            self._hope = _HOPE
        return self._before.get(self._look)

    def take_over(self, page: KnownPage) -> None:
        """The page that came now (`meet`) has the readings that it had at the last poll."""
        values, before = self._values, self._values_before
        for place in page.places:
            values[place] = before[place]
        self._now[self._look] = page

    def pass_by(self, places: array[int] | None, time: float) -> None:
        """The page that came now was read as if it were new. `places` are those of all its points, each the only one of
        its place, with a value, and of this Unix time; None where it is otherwise."""
        self._now[self._look] = KnownPage(places, time) if self._hope and places is not None else None

    def doubt(self) -> None:
        """A page has told something newer of what an earlier one told of: the values are no longer those of that."""
        self._now = dict.fromkeys(self._now)
