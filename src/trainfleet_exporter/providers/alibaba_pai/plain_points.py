"""The usual point of a metric: nothing but texts and numbers where they are expected, which can be read faster.

Such points are decoded straight to what is read of them, in a third of the time that objects of JSON take. A page that
holds any other point is decoded to objects as a whole; which way it went makes no difference to what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from keyword import iskeyword
from operator import attrgetter, itemgetter
from typing import Annotated, Any

import msgspec

from trainfleet_exporter.providers.alibaba_pai.catalogue import POD_KEYS, is_device_key
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed
from trainfleet_exporter.providers.alibaba_pai.roster import Key

_OWNER, _POD, _TIME = "jobId", POD_KEYS[0], "timestamp"
_Given = Annotated[str, msgspec.Meta(min_length=1)]
"""Where a name is empty, others of the point may tell it."""
_BETWEEN = "},{"
"""Two points."""
_PIECE = 32 * 1024
"""Characters of a page that are decoded at a time: some 250 points, a quarter of a millisecond."""
_Amount = Annotated[float, msgspec.Meta(gt=-1e300, lt=1e300)]


@dataclass(frozen=True, slots=True)
class PlainPoints:
    """How the usual points of a feed are read."""

    decode: Callable[[str], list[msgspec.Struct]]
    """A JSON array of them; ValueError if there is any other point in it."""
    struct: type[msgspec.Struct]
    """What that makes of them."""
    of_structs: tuple[Callable[[Any], Key], Callable[[Any], tuple[object, Any]]]
    """What a point is of; and its statistic and time (Unix milliseconds)."""
    of_objects: tuple[Callable[[Any], Key], Callable[[Any], tuple[object, Any]]]
    """The same of a point as JSON has it. KeyError or TypeError where it is not a usual one."""

    def page(self, text: str) -> Iterator[tuple[list[msgspec.Struct], int]]:
        """A long JSON array of them, some points at a time, with where in the text the next ones begin. ValueError if
        there is any other point among those.

        What looks like the border of two points may be within a text or an object, of which the two halves are no JSON
        then: that is a ValueError, too.
        """
        start = 0
        while (end := text.find(_BETWEEN, start + _PIECE)) >= 0:
            yield self.decode(("[" if start else "") + text[start : end + 1] + "]"), end + 2
            start = end + 2
        yield self.decode(("[" if start else "") + text[start:]), len(text)


def plain_points(feed: Feed, statistic: str) -> PlainPoints | None:
    """How they are read; None where it takes a closer look at each what it is of."""
    dimensions = feed.metric.dimensions
    if feed.level == "job":
        return _plain_points((_OWNER,), statistic)
    if feed.level == "pool" or _POD not in (dimensions or POD_KEYS):
        return None
    cards = [name for name in dimensions if is_device_key(name)] if feed.level == "device" else []
    if feed.level == "device" and len(cards) != 1:
        return None
    return _plain_points((_OWNER, _POD, *cards), statistic)


def as_object(point: object) -> object:
    """A point as JSON has it, as far as it is read."""
    return msgspec.structs.asdict(point) if isinstance(point, msgspec.Struct) else point


@lru_cache(maxsize=64)  # a type is costly to make, and the metrics of a namespace are mostly of one shape
def _plain_points(names: tuple[str, ...], statistic: str) -> PlainPoints | None:
    fields: Mapping[str, Any] = {**dict.fromkeys(names, _Given), statistic: _Amount, _TIME: int}
    if len(fields) < len(names) + 2 or not all(name.isidentifier() and not iskeyword(name) for name in fields):
        return None
    struct = msgspec.defstruct("PlainPoint", list(fields.items()), gc=False)
    decode = msgspec.json.Decoder(list[struct]).decode  # type: ignore[valid-type]  # made here, by what the feed needs
    return PlainPoints(
        decode,
        struct,
        of_structs=(_key_by(attrgetter(*names), len(names)), attrgetter(statistic, _TIME)),
        of_objects=(_key_by(itemgetter(*names), len(names)), itemgetter(statistic, _TIME)),
    )


def _key_by(get: Callable[[Any], Any], length: int) -> Callable[[Any], Key]:
    """A getter of one field does not make a tuple of it."""
    return get if length > 1 else lambda point: (get(point),)
