"""The points of one feed: how they are decoded, and the batches of the usage engine that they are.

A point has its time in Unix milliseconds, what it is of (jobId, pod, a key for the card; quotaId or quotaName), and the
statistics of its metric, each under its name. A key of the metric's own distinguishes cards. So each feed has a
struct made for it: payloads.Point with these fields. Points mostly have all that is read of them; the usual struct has
nothing else, which makes decoding a fifth faster.
"""

from __future__ import annotations

import contextlib
import json
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import Annotated, Any, TypeAlias, cast

import msgspec

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.providers.alibaba_pai.catalogue import is_device_key
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed
from trainfleet_exporter.providers.alibaba_pai.payloads import Point
from trainfleet_exporter.providers.usage.entities import Key
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.transport.json_fields import UNUSABLE
from trainfleet_exporter.transport.payload import decode_value

Points: TypeAlias = Sequence[Point | None]
"""None stands for what is no object."""
Owner: TypeAlias = Callable[[Point], str]
"""The id of the job or pool that a point is of, as far as it says; else an empty text."""
_FIELDS = {field.encode_name for field in msgspec.structs.fields(Point)}
_ANY_DEVICE = "device"
"""The key of a card where the catalogue does not name it."""
_KIND = "gpu"
"""Cards of ModelArts may be NPUs, those of PAI are GPUs."""
_MOST = 2_000
"""Points of one batch: about a millisecond's work."""
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_job_id, _pod, _timestamp = attrgetter("job_id"), attrgetter("pod"), attrgetter("timestamp")


class PointReader:
    """Reads the points of a feed. Make it by `point_reader`."""

    def __init__(self, feed: Feed) -> None:
        self._level = feed.level
        self._names_devices = feed.level != "device" or bool(feed.metric.dimensions)
        devices = [name for name in feed.metric.dimensions if is_device_key(name)] if feed.level == "device" else []
        devices = devices if self._names_devices else [_ANY_DEVICE]
        spelt = [dict.fromkeys(each for name in names for each in (name, name.lower())) for names in feed.statistics]
        kind, attributes = _point_type(tuple(devices), tuple(dict.fromkeys(name for each in spelt for name in each)))
        self._list = cast("type[list[Point | None]]", list[kind | None])  # type: ignore[valid-type]  # made here
        self._none = kind()
        self._devices = [attributes[name] for name in devices]
        self._statistics = [[attributes[name] for name in names if name in attributes] for names in spelt]
        keys = ("pod", *devices) if feed.level in ("pod", "device") else ()
        usual = _usual_type(
            keys, tuple(dict.fromkeys(names[0] for names in feed.statistics)), tuple(attributes.items())
        )
        may_be_usual = feed.level != "pool" and self._names_devices
        self._usual_type = usual
        self._usual = msgspec.json.Decoder(list[usual]) if may_be_usual else None  # type: ignore[valid-type]

    def batches(self, points: Points, owner: Owner | None = None) -> Iterator[Batch]:
        """The points for the usage engine. By default each is of the job that it names."""
        for start in range(0, len(points), _MOST):
            yield self._batch(points[start : start + _MOST], owner)

    def decode(self, given: object) -> Points:
        """The points of an answer (payloads.PointsPage): a text that holds a JSON array.

        Fields of a point that do not fit are absent, and not counted: the point itself is. Raises BadAnswer.
        """
        if given is None or given == "":
            return []
        text = given if isinstance(given, str) else json.dumps(given)
        if self._usual is not None:
            with contextlib.suppress(ValueError, RecursionError):
                return self._usual.decode(text)
        token = UNUSABLE.set(None)
        try:
            found = self._decode(text)
        finally:
            UNUSABLE.reset(token)
        if found is None:
            raise BadAnswer("the points are not a JSON array")
        return found

    def _batch(self, given: Points, owner: Owner | None) -> Batch:
        is_usual = type(given[0]) is self._usual_type  # then no text is empty
        points = cast("Sequence[Point]", given if is_usual else [point or self._none for point in given])
        columns = [_column(points, names) for names in self._statistics]
        return Batch(self._keys(points, owner, is_usual=is_usual), columns, _times(list(map(_timestamp, points))))

    def _keys(self, points: Sequence[Point], owner: Owner | None, *, is_usual: bool) -> Sequence[Key]:
        columns = [list(map(owner or _job_id, points))]
        if self._level in ("pod", "device"):
            pods = list(map(_pod, points))
            columns.append(pods if is_usual else [each.pod or each.pod_id or each.pod_name for each in points])
        if self._level == "device":
            names = [list(map(attrgetter(name), points)) for name in self._devices]
            columns.append(names[0] if len(names) == 1 else [_joined(each) for each in zip(*names, strict=True)])
            columns.append([_KIND] * len(points))
        keys = list(zip(*columns, strict=True))
        if not (is_usual and owner is None) and not all(map(all, columns)):  # a key that lacks a part ends before it
            keys = [tuple(takewhile(bool, key)) or ("",) for key in keys]
        return cast("Sequence[Key]", keys)

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


@lru_cache(maxsize=64)
def _usual_type(
    keys: tuple[str, ...], statistics: tuple[str, ...], attributes: tuple[tuple[str, str], ...]
) -> type[msgspec.Struct]:
    """A point of a job that has all of these keys and statistics, under the same attributes, and a time."""
    named = dict(attributes)
    fields: list[tuple[str, Any, Any]] = [("job_id", _Text, msgspec.field(name="jobId"))]
    fields += [(named.get(key, key), _Text, msgspec.field(name=key)) for key in keys]
    fields += [(named[name], float, msgspec.field(name=name)) for name in statistics if name in named]
    return msgspec.defstruct("UsualPoint", [("timestamp", float), *fields], gc=False)


def _device(row: dict[str, object]) -> str:
    values = [value for name, value in row.items() if is_device_key(name)]
    return "/".join(
        str(value) for value in values if value != "" and isinstance(value, str | int) and not isinstance(value, bool)
    )


def _column(points: Sequence[Point], names: Sequence[str]) -> array[float] | list[float | None]:
    """The values of the first statistic that each point has, in either spelling of its first letter."""
    if names:
        with contextlib.suppress(TypeError):  # some point lacks it
            return array("d", list(map(attrgetter(names[0]), points)))
    return [next((value for name in names if (value := getattr(point, name)) is not None), None) for point in points]


def _joined(values: Sequence[str | None]) -> str:
    return "/".join(value for value in values if value)


def _times(milliseconds: Sequence[float | None]) -> float | list[float]:
    """Unix seconds, of all points together if that is one time; infinite where there is none."""
    first = milliseconds[0] if milliseconds else None
    if first is not None and first.is_integer() and milliseconds.count(first) == len(milliseconds):
        return first / 1000
    return [time / 1000 if time is not None and time.is_integer() else math.inf for time in milliseconds]
