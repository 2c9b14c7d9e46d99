"""CloudMonitor's data points to readings, and readings to what is shown.

Shapes: DescribeMetricLast answers `Datapoints`, DLC GetMetrics `DataPoints`, both a text that holds a JSON array. A
point has its time in Unix milliseconds, what it is of (jobId, pod, a key for the card; quotaId or quotaName), and the
statistics of the metric, each under its name. A point may be up to two hours old.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, PoolUsage, UsageValues
from trainfleet_exporter.providers.alibaba_pai.catalogue import POD_KEYS, Level, is_device_key
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed, Target
from trainfleet_exporter.providers.alibaba_pai.units import convert
from trainfleet_exporter.providers.readings import mean
from trainfleet_exporter.quantities import UNUSABLE, number, text, whole

Point = Mapping[str, Any]
Shown = JobUsage | PodUsage | DeviceUsage | PoolUsage
_FUTURE = 900.0
"""A reading dated further ahead than a request's clock may be off is not believed."""
_SILENCE = 180.0
"""A pod that lacks three minutes of readings while others go on no longer reports, and counts no more for its job."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a reading is of: a job (or pool), and of it a pod and a card, empty where the metric is of the whole."""

    owner: str
    pod_id: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest point of one thing: its Unix time, and its value for each target of the feed, None where unfit."""

    time: float
    values: tuple[float | None, ...]


Owner = Callable[[Point], str | None]
"""Whose a point is: an id; empty for somebody who is not listed, None for somebody whose readings others serve."""


def points_of(payload: Mapping[str, Any], key: str) -> list[object]:
    """The points of an answer: a JSON array in a text, or none at all. BadAnswer for anything else."""
    given = payload.get(key)
    if given is None or given == "":
        return []
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise BadAnswer(f"{key} is not JSON") from None
    if not isinstance(given, list):
        raise BadAnswer(f"{key} is not a list")
    return given


class Collected:
    """The readings of one feed, page by page. `dropped` counts by reason what is not shown."""

    def __init__(self, feed: Feed, owner: Owner, *, now: float, max_age: float, series: bool = False) -> None:
        """`series` says that points of one thing follow each other in time, so that all but the newest are passed."""
        self.found: dict[Key, Reading] = {}
        self.dropped: Counter[str] = Counter()
        self.points = 0
        self._spoiled: set[str] = set()
        """Owners of points that could not be read; empty text stands for anybody, where a point does not say whose."""
        self._feed = feed
        self._owner = owner
        self._now = now
        self._max_age = max_age
        self._series = series

    @property
    def since(self) -> float:
        """Points from before this Unix time are too old to be shown, and need not be asked for."""
        return self._now - self._max_age

    def take(self, points: Iterable[object]) -> None:
        """Take over the points of one page."""
        token = UNUSABLE.set(None)  # what cannot be used of them is counted here, point by point
        try:
            self._take_all(points)
        finally:
            UNUSABLE.reset(token)

    def _take_all(self, points: Iterable[object]) -> None:
        for point in points:
            self.points += 1
            reason = self._take(point) if isinstance(point, dict) else "malformed"
            if reason:
                self.dropped[reason] += 1
            if reason == "malformed":
                owner = self._owner(point) if isinstance(point, dict) else ""
                self._spoiled |= set() if owner is None else {owner}

    def may_lack(self, owner: str) -> bool:
        """Whether a point that could not be read may have been of this owner."""
        return owner in self._spoiled or "" in self._spoiled

    def _take(self, point: Point) -> str:
        """Why a point is not shown; empty for one that is, or that somebody else shows."""
        milliseconds = whole(point, "timestamp")
        time = math.inf if milliseconds is None else milliseconds / 1000
        if time > self._now + _FUTURE:
            return "malformed"
        if self._now - time > self._max_age:
            return "stale"
        owner = self._owner(point)
        if not owner:
            return "" if owner is None else "unlisted"
        key = self._key(point, owner)
        if key is None:
            return "malformed"
        before = self.found.get(key)
        if before is not None and before.time >= time:
            return "" if self._series else "duplicate"
        raw = [_statistic(point, target) for target in self._feed.targets]
        if all(value is None for value in raw):
            return "malformed"
        values = tuple(
            None if value is None else convert(value, target.factor, target.family.quantity)
            for value, target in zip(raw, self._feed.targets, strict=True)
        )
        self.found[key] = Reading(time, values)
        if all(value is None for value in values):
            return "out_of_range"
        return "" if before is None or self._series else "duplicate"

    def _key(self, point: Point, owner: str) -> Key | None:
        level, pod_id, device = self._feed.level, "", ""
        if level in ("pod", "device"):
            pod_id = next((value for name in POD_KEYS if (value := text(point, name))), "")
            if not pod_id:
                return None
        if level == "device":
            names = [name for name in self._feed.metric.dimensions or point if is_device_key(name)]
            device = "/".join(value for name in names if (value := text(point, name)))
            if not device:
                return None
        return Key(owner, pod_id, device)


@dataclass(frozen=True, slots=True)
class Dated:
    """Something to be shown, whose it is, and the Unix times of the oldest and the newest reading in it."""

    shown: Shown
    owner: str
    oldest: float
    newest: float


def usage(feed: Feed, collected: Collected) -> Iterator[Dated]:
    """What the readings of one feed show, each family at its own level.

    A whole made of pods or cards has the mean of their ratios and the sum of everything else, the latter only where
    none of them lacks its value, and no point of it was unreadable: a sum that lacks a pod would look like a drop.
    """
    readings = collected.found
    for level in dict.fromkeys(target.family.level for target in feed.targets):
        targets = [(place, target) for place, target in enumerate(feed.targets) if target.family.level == level]
        if level == feed.level:
            parts: Mapping[Key, list[Reading]] = {key: [reading] for key, reading in readings.items()}
        else:
            parts = _parts(readings, level, silence=max(_SILENCE, 3.0 * (feed.metric.period or 0)))
        for key, given in parts.items():
            values = {
                target.family.field: _of_whole(given, place, target)
                for place, target in targets
                if level == feed.level or _is_ratio(target) or not collected.may_lack(key.owner)
            }
            fields = {field: value for field, value in values.items() if value is not None}
            if fields:
                times = [reading.time for reading in given]
                yield Dated(_shown(level, key, fields), key.owner, min(times), max(times))


def _parts(readings: Mapping[Key, Reading], level: Level, *, silence: float) -> dict[Key, list[Reading]]:
    """The readings that each whole is made of, without those of pods that fell silent."""
    parts: dict[Key, list[Reading]] = {}
    for key, reading in readings.items():
        parts.setdefault(Key(key.owner, key.pod_id if level == "pod" else ""), []).append(reading)
    for key, given in parts.items():
        newest = max(reading.time for reading in given)
        parts[key] = [reading for reading in given if newest - reading.time <= silence]
    return parts


def _of_whole(given: list[Reading], place: int, target: Target) -> float | None:
    if len(given) == 1:
        return given[0].values[place]
    values = [value for reading in given if (value := reading.values[place]) is not None]
    if _is_ratio(target):
        return mean(values)
    return math.fsum(values) if len(values) == len(given) else None


def _is_ratio(target: Target) -> bool:
    return target.family.quantity in ("ratio", "bounded_ratio")


def _shown(level: Level, key: Key, fields: dict[str, float]) -> Shown:
    if level == "device":
        return DeviceUsage(key.owner, key.pod_id, key.device, "gpu", **fields)
    values = UsageValues(**fields)  # type: ignore[arg-type]  # fields of metric_map.FAMILIES, all of them numbers
    if level == "pool":
        return PoolUsage(pool_id=key.owner, values=values)
    return PodUsage(key.owner, key.pod_id, values) if level == "pod" else JobUsage(key.owner, values)


def _statistic(point: Point, target: Target) -> float | None:
    """The value of the first statistic that the point has, in either spelling of its first letter."""
    for name in target.statistics:
        for spelt in (name, name.lower()):
            value = point.get(spelt)
            if isinstance(value, float):  # the usual case, and the one that may be infinite or none at all
                return value
            if value is not None:
                return _signed(point, spelt)
    return None


def _signed(point: Point, name: str) -> float | None:
    value = point[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 10**300 else math.inf
    found = number(point, name)
    if found is None and isinstance(value, str) and value[:1] == "-":
        magnitude = number({name: value[1:]}, name)
        return None if magnitude is None else -magnitude
    return found
