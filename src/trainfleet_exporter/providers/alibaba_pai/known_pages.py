"""Pages of points that are told again, byte for byte: their readings are taken over without being decoded.

CloudMonitor has a new point of a metric every minute or more seldom; who polls more often is told most pages twice.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from trainfleet_exporter.providers.alibaba_pai.roster import Key

_DIGEST = 16
"""Bytes."""
_HOPE = 5
"""Polls for which it is worth looking closely at pages, after one in which some page seemed to be told again: a tenth
of the time that they take."""
_ENDS = 256
"""Characters of both ends of a page, by which it seems to be another one."""


@dataclass(frozen=True, slots=True)
class KnownPage:
    """The readings of a page: their places in the roster, and the Unix time of all of them."""

    places: array[int]
    time: float


class KnownPages:
    """The pages of one feed at its last poll, and at the one under way: each poll's readings begin by `begin`."""

    def __init__(self) -> None:
        self._before: Mapping[bytes, KnownPage | None] = {}
        self._now: dict[bytes, KnownPage | None] = {}
        """None for a page of which it was not noted whose readings it has, or that has something unusual."""
        self._seen_before: set[int] = set()
        self._seen: set[int] = set()
        """What pages look like at first sight."""
        self._values_before = self._values = array("d")
        self._places: Mapping[Key, int] = {}
        self._served: Collection[str] = ()
        self._hope = 0
        self._digest = b""

    def begin(self, values: array[float], *, places: Mapping[Key, int], served: Collection[str]) -> None:
        """A poll's readings begin: their `values` by place, and whose are taken."""
        if places is self._places and served == self._served:
            self._before = self._now
        else:
            self._before = dict.fromkeys(self._now)
        self._now = {}
        self._seen_before, self._seen = self._seen, set()
        self._values_before, self._values = self._values, values
        self._places, self._served = places, served
        self._hope = max(self._hope - 1, 0)

    def meet(self, text: str) -> KnownPage | None:
        """What is known of a page that comes now; None where that is nothing, or not enough."""
        look = hash((len(text), text[:_ENDS], text[-_ENDS:]))
        self._seen.add(look)
        if look in self._seen_before:
            self._hope = _HOPE
        if not self._hope:
            return None
        self._digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()
        return self._before.get(self._digest)

    def take_over(self, page: KnownPage) -> None:
        """The page that came now (`meet`) has the readings that it had at the last poll."""
        values, before = self._values, self._values_before
        for place in page.places:
            values[place] = before[place]
        self._now[self._digest] = page

    def note(self, keys: Sequence[Key], times: array[float]) -> None:
        """The page that came now has a reading, by itself and with a value, of each of these."""
        places = [place for key in keys if (place := self._places.get(key)) is not None and key[0] in self._served]
        when = {times[place] for place in places}
        if len(when) == 1 and len(set(places)) == len(keys):
            self._now[self._digest] = KnownPage(array("I", places), when.pop())

    def doubt(self) -> None:
        """A page has told something newer of what an earlier one told of: the values are no longer those of that."""
        self._now = dict.fromkeys(self._now)

    def pass_by(self) -> bool:
        """The page that came now is read as if it were new; whether it is worth it to `note` its readings."""
        if self._hope:
            self._now[self._digest] = None
        return self._hope > 0
