"""Checks of calls: they are counted, limited and paced, and bulk polls do not grow with the jobs."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.gateway import UNSIGNED, Arrival
from trainfleet_conformance.stage import INTERVAL, Stage

_BY_TRANSPORT = (
    "call the cloud by ApiClient.call of the transport that open_transport gives, and by nothing else: no client of "
    "your own, no thread that asks"
)
_RATE, _CONCURRENCY = 4, 2
_INTERVALS = "trainfleet_exporter_collector_interval_seconds"
_PACED_POLLS = 12
"""Intervals in which the calls of a slower pace are counted."""
_STRETCH = 3
"""How many times longer the pace must make the intervals."""
_MONTH = 30 * 86400.0


class BudgetChecks(ProviderCase):
    """Checks of calls."""

    def test_budget_every_call_is_counted(self) -> None:
        """The number of requests that arrive equals the number that the metrics count. The transport sends all of
        them."""

        async def check(stage: Stage) -> None:
            await stage.polls(3)
            complain(await _uncounted(stage), _BY_TRANSPORT)
            apis = {arrival.api for arrival in stage.gateway.arrivals}
            complain(
                [f"the API {api!r} is called, and is none of {self.platform.config.__name__}.apis" for api in apis]
                if not apis <= set(self.platform.config.apis)
                else [],
                "name every API there, or `monthly_calls` cannot limit it",
            )

        self.on_stage(check)

    def test_budget_monthly_calls_set_the_pace(self) -> None:
        """With a third of its calls allowed, the exporter polls a third as often, as its intervals show."""
        steady = Counter(arrival.api for arrival in self.good.steady if arrival.api)
        a_poll = {api: calls / 2 for api, calls in steady.items()}  # the good run has two polls after the first

        async def main(folder: Path) -> None:
            allowed = {api: max(1, int(calls * _MONTH / INTERVAL / _STRETCH)) for api, calls in a_poll.items()}
            async with self.stage(folder, limits={"monthly_calls": allowed}) as stage:
                await stage.polls(1)
                first = len(stage.gateway.arrivals)
                await stage.polls(_PACED_POLLS)
                arrived = Counter(arrival.api for arrival in stage.gateway.arrivals[first:])
                complaints = [
                    f"{arrived[api]} calls of {api!r} in {_PACED_POLLS} intervals, where {calls:g} calls are a poll "
                    f"and monthly_calls allows {_PACED_POLLS / _STRETCH:g} polls"
                    for api, calls in a_poll.items()
                    if arrived[api] > calls * (_PACED_POLLS / _STRETCH + 1)
                ]
                callers = {arrival.collector for arrival in self.good.steady if arrival.api}
                complaints += [
                    f"the interval of {labels['collector']} is {value:g} s"
                    for labels, value in (await stage.scrape()).of(_INTERVALS)
                    if labels["collector"] in callers and value < INTERVAL * _STRETCH / 2
                ]
                complain(complaints, _BY_TRANSPORT)
                complain(await _uncounted(stage), _BY_TRANSPORT)

        self.play(main)

    def test_budget_rate_and_concurrency_are_kept(self) -> None:
        """The exporter keeps the configured requests per second and concurrency of each API."""

        async def main(folder: Path) -> None:
            limits = {"requests_per_second": _RATE, "concurrency": _CONCURRENCY}
            async with self.stage(folder, limits=limits, delay=0.3) as stage:
                await stage.polls(2)
                complaints = [
                    f"{count} requests of {api!r} were under way at a time, where {_CONCURRENCY} may be"
                    for api, count in stage.gateway.at_once.items()
                    if count > _CONCURRENCY
                ]
                for api in stage.gateway.at_once:
                    most = _most_in_a_second([arrival for arrival in stage.gateway.arrivals if arrival.api == api])
                    if most > 2 * _RATE:  # the calls saved up in one second, and those of one second
                        complaints.append(f"{most} requests of {api!r} in a second, where {_RATE} may be")
                complain(complaints, _BY_TRANSPORT)

        self.play(main)

    def test_budget_calls_of_sweeps_do_not_grow_with_the_jobs(self) -> None:
        """With four times as many jobs, a bulk poll makes the same calls, except for pages."""

        async def calls(jobs: int) -> Counter[tuple[str, str]]:
            found: list[Counter[tuple[str, str]]] = []
            async with self.stage(Path(self._folder), jobs=jobs) as stage:
                await stage.polls(1)
                first = len(stage.gateway.arrivals)
                await stage.polls(1)
                arrived = [arrival for arrival in stage.gateway.arrivals[first:] if arrival.collector in self.good.bulk]
                found.append(Counter((arrival.collector, arrival.operation) for arrival in arrived))
            return found[0]

        async def main(folder: Path) -> None:
            self._folder = str(folder)
            few, many = await calls(self.jobs), await calls(4 * self.jobs)
            # A page has at least two rows. A call for each job would add one call for each additional job.
            complain(
                [
                    f"{collector} calls {operation} {count} times for {4 * self.jobs} jobs, "
                    f"and {few[collector, operation]} times for {self.jobs}"
                    for (collector, operation), count in many.items()
                    if count - few[collector, operation] > math.ceil(3 * self.jobs / 2)
                ],
                "ask for all at once (lists, bulk metrics), or use a PerObjectCollector, which is spread and capped",
            )

        self.play(main)

    _folder = ""


async def _uncounted(stage: Stage) -> list[str]:
    """Return requests that arrived and are not counted, and those that are counted and did not arrive."""
    counted, arrived = stage.counted(await stage.scrape()), stage.arrived()
    complaints = [
        f"{arrival.target[:80]} was asked for, and not by the transport"
        for arrival in stage.gateway.arrivals
        if arrival.operation == UNSIGNED
    ]
    for key, count in arrived.items():
        # If the server closes a kept connection at the moment of its use, the attempt never arrives.
        if key[1] != UNSIGNED and not 0 <= counted[key] - count <= 1 + count // 50:
            complaints.append(f"{key[1]} arrived {count} times and is counted {counted[key]} times")
    return complaints


def _most_in_a_second(arrivals: list[Arrival]) -> int:
    times = sorted(arrival.at for arrival in arrivals)
    return max((sum(1 for other in times if 0 <= other - time < 1) for time in times), default=0)
