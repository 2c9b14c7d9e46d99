"""CloudMonitor's API (version 2019-01-01): its catalogue, and the points of a metric, the newest or those of a range.

An RPC API: every call is a POST of nothing to `/`, and its parameters are in the query. DescribeMetricLast and
DescribeMetricList count against one million free calls a month and account; DescribeMetricMetaList does not.

A point has its time in Unix milliseconds, what it is of (jobId, pod, a key for the card; quotaId or quotaName), and the
statistics of its metric, each under its name. A key of the metric's own distinguishes cards. So each feed has a
struct made for it: payloads.Point with these fields. Points mostly have all that is read of them; the usual struct has
nothing else, which makes decoding a fifth faster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from array import array
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from typing import Annotated, Any, TypeAlias, cast

import msgspec

from trainfleet_exporter.errors import BadAnswer, CloudError
from trainfleet_exporter.polling import Part
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.alibaba_pai.payloads import (
    MetricMeta,
    MetricMetasPage,
    Point,
    PointsPage,
)
from trainfleet_exporter.providers.alibaba_pai.usage.metrics import (
    Choice,
    Feed,
    Metric,
    Unfed,
    feeds,
    is_device_key,
    log_unfed,
    metric,
)
from trainfleet_exporter.providers.jobs.listing import Listing, Page, read_whole_list
from trainfleet_exporter.providers.usage.entities import Key
from trainfleet_exporter.providers.usage.newest import Batch
from trainfleet_exporter.providers.usage.table import Family
from trainfleet_exporter.providers.values import whole
from trainfleet_exporter.transport import ApiClient, Call
from trainfleet_exporter.transport.json_fields import UNUSABLE
from trainfleet_exporter.transport.payload import decode_value

Points: TypeAlias = Sequence[Point | None]
"""None is a value that is not an object."""
Owner: TypeAlias = Callable[[Point], str]
"""Returns the id of the job or pool of a point; empty if the point has none."""
_FIELDS = {field.encode_name for field in msgspec.structs.fields(Point)}
_ANY_DEVICE = "device"
"""The key of a card where the catalogue does not name it."""
_KIND = "gpu"
"""Cards of ModelArts may be NPUs, those of PAI are GPUs."""
_MOST = 2_000
"""Points of one batch: about a millisecond's work."""
_Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_job_id, _pod, _timestamp = attrgetter("job_id"), attrgetter("pod"), attrgetter("timestamp")
CATALOGUE_PAGE = 200
POINTS = 1440
"""The most points of one page."""
_MAX_PAGES = 1000
_EMPTY_PAGES = 3
"""Empty pages in a row, each naming a next one, after which reading gives up."""
log = logging.getLogger(__name__)
_KEPT = 86400.0
_AGAIN = 600.0
"""Seconds to wait after a failure, or an empty response, while an older catalogue is in use."""
_CATALOGUE_WAIT = 10.0
"""Seconds for which this may delay a poll."""


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
        # A configured statistic may have the name of another field.
        are_apart = all(attributes.get(names[0], "").startswith("statistic") for names in feed.statistics)
        may_be_usual = feed.level != "pool" and self._names_devices and are_apart
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
    """Unix seconds, of all points together if that is one time; infinite if there is none."""
    first = milliseconds[0] if milliseconds else None
    if first is not None and first.is_integer() and milliseconds.count(first) == len(milliseconds):
        return first / 1000
    return [time / 1000 if time is not None and time.is_integer() else math.inf for time in milliseconds]


class CloudMonitor:
    """The calls that the collectors make. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def describe_metric_meta_list(self, namespace: str, *, deadline: float) -> Listing[MetricMeta]:
        """DescribeMetricMetaList: every metric of a namespace, by its name."""
        call = Call(operation="DescribeMetricMetaList", method="POST", path="/", query={"Namespace": namespace})

        async def read_page(number: int) -> Page[MetricMeta]:
            query = {**call.query, "PageNumber": str(number + 1), "PageSize": str(CATALOGUE_PAGE)}
            page = await self._client.call(replace(call, query=query), MetricMetasPage, deadline=deadline)
            return Page(whole(page.total_count), page.resources.resource if page.resources else None)

        return await read_whole_list(read_page, id_of=lambda row: row.metric_name or "", operation=call.operation)

    async def describe_metric_last(
        self,
        namespace: str,
        feed: Feed,
        *,
        since: float,
        deadline: float,
        dimensions: str = "",
        owner: Owner | None = None,
    ) -> AsyncIterator[Batch]:
        """DescribeMetricLast: the newest point of each resource that has one after `since`, batch by batch.

        `since` is in Unix seconds: by default the service looks back two hours, and what ended in them would fill most
        pages. `dimensions` names at most 50 resources as JSON; without it, the answer has all of the namespace.
        """
        metric = feed.metric
        query = {"Namespace": namespace, "MetricName": metric.name, "Length": str(POINTS)}
        query["StartTime"] = str(math.floor(since * 1000))  # as a text, its time zone would not be certain
        if metric.period is not None:
            query["Period"] = str(metric.period)
        if dimensions:
            query["Dimensions"] = dimensions
        call = Call(operation="DescribeMetricLast", method="POST", path="/", query=query)
        async for batch in point_batches(self._client, call, PointsPage, feed, owner, deadline=deadline):
            yield batch
            del batch

    async def describe_metric_list(
        self,
        namespace: str,
        feed: Feed,
        *,
        start: int,
        end: int,
        period: int,
        dimensions: str,
        deadline: float,
        owner: Owner | None = None,
    ) -> AsyncIterator[Batch]:
        """DescribeMetricList: the points from `start` on and before `end` (Unix seconds), batch by batch.

        `period` is in seconds: points of minutes are kept for 31 days, those of five minutes and more for 91.
        `dimensions` names at most 50 resources as JSON.

        https://www.alibabacloud.com/help/en/cms/cloudmonitor-1-0/developer-reference/api-cms-2019-01-01-describemetriclist
        """
        query = {
            "Namespace": namespace,
            "MetricName": feed.metric.name,
            "Dimensions": dimensions,
            "Period": str(period),
            # The range is open at its start and closed at its end.
            "StartTime": str(start * 1000 - 1),
            "EndTime": str(end * 1000 - 1),
            "Length": str(POINTS),
        }
        call = Call(operation="DescribeMetricList", method="POST", path="/", query=query)
        async for batch in point_batches(self._client, call, PointsPage, feed, owner, deadline=deadline):
            yield batch
            del batch


async def point_batches(
    client: ApiClient,
    call: Call,
    into: type[PointsPage],
    feed: Feed,
    owner: Owner | None,
    *,
    deadline: float,
) -> AsyncIterator[Batch]:
    """The points of every page of an answer, until there is no further token. Raises CloudError.

    `owner` finds whose a point is, where it is not simply of the job that it names.
    """
    reader = point_reader(feed)
    call = replace(call, no_data=_is_empty)
    tokens: set[str] = set()
    empty = 0
    for _ in range(_MAX_PAGES):
        page = await client.call(call, into, deadline=deadline)
        token = page.next_token
        points = reader.decode(page.points)
        del page
        empty = 0 if points else empty + 1
        for batch in reader.batches(points, owner):
            yield batch
            del batch
        del points  # before the next call
        if not token:
            return
        if token in tokens or empty == _EMPTY_PAGES:
            raise BadAnswer("the next pages repeat the same rows", operation=call.operation)
        tokens.add(token)
        call = replace(call, query={**call.query, "NextToken": token})
    raise BadAnswer(f"the answer has more than {_MAX_PAGES} pages", operation=call.operation)


def _is_empty(page: PointsPage) -> bool:
    points = page.points  # not decoded: each answer is asked, and has a long text where it is not empty
    return not page.next_token and (not points or (isinstance(points, str) and points.strip() in ("", "[]")))


class Feeds:
    """The metrics that feed `families`, with what the config chose for some of them."""

    def __init__(
        self,
        monitor: CloudMonitor,
        namespace: str,
        families: Sequence[Family],
        choices: Mapping[str, Choice],
    ) -> None:
        self.namespace = namespace
        self.known: Mapping[str, Feed] = {}
        """By metric."""
        self.catalogue: Mapping[str, Metric] | None = None
        """By name; None as long as it could not be read."""
        self._monitor = monitor
        self._families = families
        self._choices = choices
        self._unfed: Collection[Unfed] = ()
        self._logged: set[Unfed] = set()
        self._malformed = 0
        """How many rows of the latest list could not be read."""
        self._next_read = float("-inf")

    async def learn(self, part: Part) -> None:
        """Read the catalogue if it is time to. A failure is reported, and raised where there is no older catalogue."""
        if await self._read(part):
            self.known, self._unfed = feeds(self.catalogue or {}, self._families, self._choices)
            log_unfed("CloudMonitor", self._unfed, self._logged)
            part.dropped("malformed", len(self._unfed))
        else:
            part.still_lost({"malformed": len(self._unfed)})

    async def _read(self, part: Part) -> bool:
        """Return whether the catalogue was read now."""
        now = asyncio.get_running_loop().time()
        if now < self._next_read:
            part.still_lost({"malformed": self._malformed})
            return False
        try:
            deadline = min(part.deadline, now + _CATALOGUE_WAIT)
            listing = await self._monitor.describe_metric_meta_list(self.namespace, deadline=deadline)
        except CloudError as error:
            if self.catalogue is None:
                raise
            self._next_read = now + _AGAIN
            part.lacks(f"catalogue of {self.namespace}", error)
            part.still_lost({"malformed": self._malformed})
            return False
        part.dropped("malformed", listing.malformed)
        self._malformed = listing.malformed
        if not listing.rows and self.catalogue != {}:
            facts = fields(namespace=self.namespace)
            log.warning("CloudMonitor lists no metrics; check that its endpoint serves PAI", extra=facts)
        if not listing.rows and self.catalogue:  # a metric of yesterday still exists today
            self._next_read = now + _AGAIN
            return False
        self.catalogue = {name: metric(row) for name, row in listing.rows.items()}
        # A row that could not be read may be that of a metric: it is not waited for until tomorrow.
        self._next_read = now + (_KEPT if self.catalogue and not listing.malformed else _AGAIN)
        return True
