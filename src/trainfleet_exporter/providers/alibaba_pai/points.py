"""The points of one feed: how they are decoded, what each is of, and what its value is.

A point holds the statistics of its metric, each under its name, and tells cards apart by a key of the metric's own. So
each feed has a struct made for it: payloads.Point with these fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias, cast

import msgspec

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai.catalogue import is_device_key
from trainfleet_exporter.providers.alibaba_pai.entities import Key, Rest
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.quantities import UNUSABLE
from trainfleet_exporter.transport.payload import decode_value

Points: TypeAlias = Sequence[Point | None]
"""None stands for what is no object."""
_FIELDS = {field.encode_name for field in msgspec.structs.fields(Point)}
_ANY_DEVICE = "device"
"""The key of a card where the catalogue does not name it."""


class PointReader:
    """Reads the points of a feed. Make it by `point_reader`."""

    def __init__(self, feed: Feed) -> None:
        self._level = feed.level
        self._names_devices = feed.level != "device" or bool(feed.metric.dimensions)
        devices = [name for name in feed.metric.dimensions if is_device_key(name)] if feed.level == "device" else []
        devices = devices if self._names_devices else [_ANY_DEVICE]
        spelt = {
            target.statistics: dict.fromkeys(each for name in target.statistics for each in (name, name.lower()))
            for target in feed.targets
        }
        names = dict.fromkeys(name for names in spelt.values() for name in names)
        kind, attributes = _point_type(tuple(devices), tuple(names))
        self._list = cast("type[list[Point | None]]", list[kind | None])  # type: ignore[valid-type]  # made here
        self._devices = [attributes[name] for name in devices]
        self._statistics = {
            statistics: [attributes[name] for name in names if name in attributes]
            for statistics, names in spelt.items()
        }
        self.rest_of = self._rest_of()
        """The rest of a point's key where the point names it in the usual way; else of nothing that exists."""

    def usual_value(self, statistics: tuple[str, ...]) -> Callable[[Any], float | None]:
        """A getter of the first of these statistics."""
        name = next(iter(self._statistics[statistics]), None)
        return attrgetter(name) if name else lambda point: None

    def decode(self, given: object) -> Points:
        """The points of an answer (payloads.PointsPage): a text that holds a JSON array.

        Fields of a point that do not fit are absent, and not counted: the point itself is. Raises BadAnswer.
        """
        if given is None or given == "":
            return []
        text = given if isinstance(given, str) else json.dumps(given)
        token = UNUSABLE.set(None)
        try:
            found = self._decode(text)
        finally:
            UNUSABLE.reset(token)
        if found is None:
            raise BadAnswer("the points are not a JSON array")
        return found

    def key(self, point: Point, owner: str) -> Key | None:
        """What a point is of, as finely as the feed is; None where the point does not tell."""
        if self._level in ("job", "pool"):
            return (owner,)
        pod_id = point.pod or point.pod_id or point.pod_name
        if not pod_id:
            return None
        if self._level == "pod":
            return owner, pod_id
        values = [getattr(point, name) for name in self._devices]
        device = "/".join(value for value in values if value)
        return (owner, pod_id, device) if device else None

    def value(self, point: Point, statistics: tuple[str, ...]) -> float | None:
        """The value of the first statistic that the point has, in either spelling of its first letter."""
        found = (getattr(point, name) for name in self._statistics[statistics])
        return next((value for value in found if value is not None), None)

    def _rest_of(self) -> Callable[[Any], Rest]:
        if self._level in ("job", "pool"):
            return lambda point: None
        return attrgetter("pod") if self._level == "pod" else attrgetter("pod", *self._devices)

    def _decode(self, text: str) -> Points | None:
        if self._names_devices:
            return decode_value(text, self._list)
        rows = decode_value(text, list[dict[str, object] | None])
        if rows is None:
            return None
        named = [row if row is None else {**row, _ANY_DEVICE: _device(row)} for row in rows]
        return decode_value(json.dumps(named), self._list)


@lru_cache(maxsize=256)
def point_reader(feed: Feed) -> PointReader:
    """The reader of a feed's points."""
    return PointReader(feed)


@lru_cache(maxsize=64)  # a type is costly to make, and the metrics of a namespace are mostly of one shape
def _point_type(devices: tuple[str, ...], statistics: tuple[str, ...]) -> tuple[type[Point], dict[str, str]]:
    """A point with these fields as well, and their attributes. A statistic with the name of another is left out."""
    attributes = {name: f"device_{number}" for number, name in enumerate(devices)}
    fields: list[tuple[str, Any, Any]] = [
        (attribute, str | None, msgspec.field(name=name, default=None)) for name, attribute in attributes.items()
    ]
    for number, name in enumerate(statistics):
        if name not in attributes and name not in _FIELDS:
            attributes[name] = f"statistic_{number}"
            fields.append((attributes[name], float | None, msgspec.field(name=name, default=None)))
    return cast("type[Point]", msgspec.defstruct("PointOfMetric", fields, bases=(Point,), gc=False)), attributes


def _device(row: dict[str, object]) -> str:
    values = [value for name, value in row.items() if is_device_key(name)]
    return "/".join(
        str(value) for value in values if value != "" and isinstance(value, str | int) and not isinstance(value, bool)
    )
