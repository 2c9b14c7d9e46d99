"""AOM as a source of usage: which of its metrics are asked for, and the answers to one reading's queries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence

from trainfleet_exporter.errors import CloudError, NotFound, NotReady, RequestRefused
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.huawei_modelarts.aom import AomApi, is_refusal, is_too_large
from trainfleet_exporter.providers.huawei_modelarts.aom_samples import Collected
from trainfleet_exporter.providers.huawei_modelarts.metric_map import Choice, Plan, Query, is_complete, plans
from trainfleet_exporter.providers.huawei_modelarts.payloads import Sample
from trainfleet_exporter.providers.usage.table import LEVELS, Level

_DAY = 86400.0
_HOUR = 3600.0

log = logging.getLogger(__name__)


class AomSource:
    """What AOM has of training jobs. `chosen` and `deny` are the config's."""

    def __init__(self, aom: AomApi, *, chosen: Mapping[str, Choice], deny: Sequence[str]) -> None:
        self.everything = plans(None, chosen, deny)
        """What is asked where AOM has a metric for all that is exposed."""
        self._aom = aom
        self._chosen = chosen
        self._deny = deny
        self._plans: list[Plan] | None = None
        self._renew_at = 0.0
        """The loop time at which the metrics' names are asked for again."""
        self._coarse: dict[str, tuple[Level, float]] = {}
        """Metrics whose answer was too large at a finer level: at which they are read, and until when (loop time)."""

    async def plans(self, poll: Poll, *, deadline: float) -> list[Plan]:
        """What to ask for. Raises CloudError, and NotReady where AOM has no metric of training jobs."""
        loop = asyncio.get_running_loop()
        if self._plans is None or loop.time() >= self._renew_at:
            try:
                names: Collection[str] | None = await self._aom.metric_names(deadline=deadline)
            except (RequestRefused, NotFound):
                names = None  # lists of names are not served here; queries may be
            except CloudError as error:
                if self._plans is None or is_refusal(error):
                    raise
                poll.lacks("names of metrics", error)
                return self._plans
            found = plans(names, self._chosen, self._deny)
            if not found:
                raise NotReady("AOM has no metric of training jobs")
            self._plans = found
            # A metric that AOM does not have today may come with the first job that uses an accelerator of its kind.
            is_all = names is not None and is_complete(found, self.everything)
            self._renew_at = loop.time() + (_DAY if is_all else _HOUR)
        return self._plans

    async def read(self, plan: Plan, into: Collected, *, window: float, deadline: float) -> None:
        """Read all queries of a plan. `window` is how old a sample may be, in seconds. Raises CloudError."""
        for query in plan.queries:
            for samples in await self._samples(plan, query, window, deadline):
                into.add(query, samples)
                await asyncio.sleep(0)
        await into.settle()

    async def _samples(self, plan: Plan, query: Query, window: float, deadline: float) -> Iterator[list[Sample | None]]:
        """The samples of one query in batches, as finely as they fit into an answer."""
        now = asyncio.get_running_loop().time()
        fineness, until = self._coarse.get(query.metric, ("job", 0.0))
        if now >= until:  # the fleet may have shrunk since, or the answer was not AOM's
            fineness = "device" if query.accelerator else "pod"
        while True:
            try:
                return await self._aom.query(query.text(fineness, window), deadline=deadline)
            except CloudError as error:
                # Only the mean of a ratio can be left to AOM: it would add up amounts that are incomplete.
                if not is_too_large(error) or query.promql or not plan.reading.measure.is_ratio or fineness == "job":
                    raise
                fineness = LEVELS[LEVELS.index(fineness) - 1]
                self._coarse[query.metric] = fineness, now + _HOUR
                log.warning("%s is read by %s only for an hour: the finer answer was too large", query.metric, fineness)
