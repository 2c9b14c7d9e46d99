"""Checks of calls: they are counted, limited and paced, and bulk polls do not grow with the jobs."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.gateway import UNSIGNED
from trainfleet_conformance.page import Page
from trainfleet_conformance.stage import INTERVAL, Stage

_BY_TRANSPORT = (
    "call the cloud by ApiClient.call of the transport that open_transport gives, and by nothing else: no client of "
    "your own, no thread that asks"
)
_RATE, _CONCURRENCY = 4, 2
_INTERVALS = "trainfleet_exporter_collector_interval_seconds"
_REQUESTS = "trainfleet_exporter_api_requests_total"
_PACED_POLLS = 12
"""Intervals in which the calls of a slower pace are counted."""
_STRETCH = 3
"""How many times longer the pace must make the intervals."""
_MONTH = 30 * 86400.0


class BudgetChecks(ProviderCase):
    """Checks of calls."""

    @on_stage()
    async def test_budget_every_call_is_counted(self, stage: Stage) -> None:
        """The number of requests that arrive equals the number that the metrics count. The transport sends all of
        them."""
        complain(_uncounted(stage, await stage.page(3)), _BY_TRANSPORT)
        unknown = {arrival.api for arrival in stage.gateway.arrivals} - set(self.platform.config.apis)
        complain(
            [f"the API {api!r} is called, and is none of {self.platform.config.__name__}.apis" for api in unknown],
            "name every API there, or `monthly_calls` cannot limit it",
        )

    def test_budget_monthly_calls_set_the_pace(self) -> None:
        """With a third of its calls allowed, the exporter polls a third as often, as its intervals show."""
        steady = [arrival for arrival in self.good.steady if arrival.api]
        callers = {arrival.collector for arrival in steady}
        # The good run has two polls after the first.
        a_poll = {api: calls / 2 for api, calls in Counter(arrival.api for arrival in steady).items()}
        allowed = {api: max(1, int(calls * _MONTH / INTERVAL / _STRETCH)) for api, calls in a_poll.items()}

        async def main(folder: Path) -> None:
            async with self.stage(folder, limits={"monthly_calls": allowed}) as stage:
                await stage.polls(1)
                first = len(stage.gateway.arrivals)
                page = await stage.page(_PACED_POLLS)
                arrived = Counter(arrival.api for arrival in stage.gateway.arrivals[first:])
                complaints = [
                    f"{arrived[api]} calls of {api!r} in {_PACED_POLLS} intervals, where {calls:g} calls are a poll "
                    f"and monthly_calls allows {_PACED_POLLS / _STRETCH:g} polls"
                    for api, calls in a_poll.items()
                    if arrived[api] > calls * (_PACED_POLLS / _STRETCH + 1)
                ]
                complaints += [
                    f"the interval of {labels['collector']} is {value:g} s"
                    for labels, value in page.of(_INTERVALS)
                    if labels["collector"] in callers and value < INTERVAL * _STRETCH / 2
                ]
                complain([*complaints, *_uncounted(stage, page)], _BY_TRANSPORT)

        self.play(main)

    @on_stage(limits={"requests_per_second": _RATE, "concurrency": _CONCURRENCY}, delay=0.3)
    async def test_budget_rate_and_concurrency_are_kept(self, stage: Stage) -> None:
        """The exporter keeps the configured requests per second and concurrency of each API."""
        await stage.polls(2)
        complaints = []
        for api, count in stage.gateway.at_once.items():
            if count > _CONCURRENCY:
                complaints.append(f"{count} requests of {api!r} were under way at a time, where {_CONCURRENCY} may be")
            times = [arrival.at for arrival in stage.gateway.arrivals if arrival.api == api]
            most = max(sum(0 <= other - time < 1 for other in times) for time in times)
            if most > 2 * _RATE:  # the calls saved up in one second, and those of one second
                complaints.append(f"{most} requests of {api!r} in a second, where {_RATE} may be")
        complain(complaints, _BY_TRANSPORT)

    def test_budget_calls_of_sweeps_do_not_grow_with_the_jobs(self) -> None:
        """With four times as many jobs, a bulk poll makes the same calls, except for pages."""
        calls: dict[int, Counter[tuple[str, str]]] = {}

        async def main(folder: Path) -> None:
            for jobs in (self.jobs, 4 * self.jobs):
                async with self.stage(folder, jobs=jobs) as stage:
                    await stage.polls(1)
                    first = len(stage.gateway.arrivals)
                    await stage.polls(1)
                    arrived = stage.gateway.arrivals[first:]
                calls[jobs] = Counter((each.collector, each.operation) for each in arrived)

        self.play(main)
        few, many = calls.values()
        # A page has at least two rows. A call for each job would add one call for each additional job.
        complain(
            [
                f"{collector} calls {operation} {count} times for {4 * self.jobs} jobs, "
                f"and {few[collector, operation]} times for {self.jobs}"
                for (collector, operation), count in many.items()
                if collector in self.good.bulk and count - few[collector, operation] > math.ceil(3 * self.jobs / 2)
            ],
            "ask for all at once (lists, bulk metrics), or use a PerObjectCollector, which is spread and capped",
        )


def _uncounted(stage: Stage, page: Page) -> list[str]:
    """Return requests that arrived and are not counted, and those that are counted and did not arrive."""
    arrivals = stage.gateway.arrivals
    complaints = [
        f"{arrival.target[:80]} was asked for, and not by the transport"
        for arrival in arrivals
        if arrival.operation == UNSIGNED
    ]
    for (api, operation), count in Counter((arrival.api, arrival.operation) for arrival in arrivals).items():
        counted = page.total(_REQUESTS, api=api, operation=operation)
        # If the server closes a kept connection at the moment of its use, the attempt never arrives.
        if operation != UNSIGNED and not 0 <= counted - count <= 1 + count // 50:
            complaints.append(f"{operation} arrived {count} times and is counted {counted:.0f} times")
    return complaints
