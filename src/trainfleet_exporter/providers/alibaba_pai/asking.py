"""How CloudMonitor is asked for the points of a namespace: for everybody at once, or for fifty by name at a time.

Whether the service answers without Dimensions is documented nowhere. Where it refuses that, or answers nothing while
there must be something, resources are named; what was learnt holds for a day.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection

from trainfleet_exporter.errors import CloudError, RequestRefused
from trainfleet_exporter.providers.alibaba_pai.cloudmonitor import CloudMonitor
from trainfleet_exporter.providers.alibaba_pai.metric_map import Feed
from trainfleet_exporter.providers.alibaba_pai.points import Owner
from trainfleet_exporter.providers.usage.newest import Newest

log = logging.getLogger(__name__)

_AT_ONCE = 50
"""The most resources of one call's Dimensions."""
_DAY = 86400.0


class Asking:
    """The way in which one namespace is asked. `key` is the dimension that names a resource of it."""

    def __init__(self, monitor: CloudMonitor, namespace: str, key: str, owner: Owner | None = None) -> None:
        """`owner` finds whose a point is, where it is not simply of the job that it names."""
        self._monitor = monitor
        self._namespace = namespace
        self._key = key
        self._owner = owner
        self._named_until: dict[str, float] = {}
        """Metrics that are asked for by name, and until when (loop time)."""
        self._useless_until = float("-inf")
        """Until when names are known not to help where nothing comes without them."""
        self._told: set[str] = set()

    async def read(self, feed: Feed, into: Newest, *, names: Collection[str], deadline: float) -> None:
        """Every point of a metric there is, or those of `names` if it must be so. Raises CloudError."""
        metric = feed.metric.name
        if self._is_named(metric):
            await self._by_name(feed, into, names, deadline)
            return
        try:
            await self._pages(feed, into, deadline)
        except RequestRefused as refusal:
            if into.rows or not names:
                raise
            try:
                await self._by_name(feed, into, names, deadline)
            except CloudError:
                raise refusal from None  # that Dimensions were missing was not the reason
            self._named_until[metric] = _now() + _DAY
            self._tell("it refuses to answer without them")

    def try_names(self, metrics: Collection[str]) -> bool:
        """No metric had any point although there must be some: whether to ask again, for now by name."""
        if _now() < self._useless_until or all(map(self._is_named, metrics)):
            return False
        self._named_until |= dict.fromkeys(metrics, _now() + _DAY)
        return True

    def names_helped(self, helped: bool) -> None:
        """Note what came of that. Where it was nothing either, no such calls are spent for a day."""
        if helped:
            self._tell("it answers nothing without them")
        else:
            self._named_until.clear()
            self._useless_until = _now() + _DAY

    def names_unproven(self) -> None:
        """Some of those calls failed: nothing was learnt, and the next poll tries again."""
        self._named_until.clear()

    def _is_named(self, metric: str) -> bool:
        return _now() < self._named_until.get(metric, float("-inf"))

    def _tell(self, why: str) -> None:
        if why not in self._told:
            self._told.add(why)
            log.warning(
                "CloudMonitor is asked for %s with Dimensions, %d at a time, because %s",
                self._namespace,
                _AT_ONCE,
                why,
            )

    async def _by_name(self, feed: Feed, into: Newest, names: Collection[str], deadline: float) -> None:
        ordered = sorted(names)
        for start in range(0, len(names), _AT_ONCE):
            asked = [{self._key: name} for name in ordered[start : start + _AT_ONCE]]
            await self._pages(feed, into, deadline, dimensions=json.dumps(asked, separators=(",", ":")))

    async def _pages(self, feed: Feed, into: Newest, deadline: float, *, dimensions: str = "") -> None:
        batches = self._monitor.describe_metric_last(
            self._namespace, feed, since=into.since, deadline=deadline, dimensions=dimensions, owner=self._owner
        )
        await into.take_all(batches)


def _now() -> float:
    return asyncio.get_running_loop().time()
