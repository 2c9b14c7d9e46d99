"""Checks for operators: counted, limited and paced calls, permissions, diagnosis, reloads, shutdown and secrets."""

from __future__ import annotations

import asyncio
import gc
import math
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

from trainfleet_conformance.answers import DENIED, QUOTING, only
from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.faults import SILENCE
from trainfleet_conformance.gateway import UNSIGNED, Spoil
from trainfleet_conformance.page import REQUESTS, Page, unlike
from trainfleet_conformance.public_api import private_imports, source_folder
from trainfleet_conformance.stage import INTERVAL, Stage, write_config
from trainfleet_exporter.config import redacted
from trainfleet_exporter.diagnose import ProviderReport, examine

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


class OperationChecks(ProviderCase):
    """Checks of calls and limits, of the platform and its providers as objects, and of secrets in outputs."""

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

        async def calls(folder: Path, jobs: int) -> Counter[tuple[str, str]]:
            async with self.stage(folder, jobs=jobs) as stage:
                await stage.polls(1)
                first = len(stage.gateway.arrivals)
                await stage.polls(1)
                return Counter((each.collector, each.operation) for each in stage.gateway.arrivals[first:])

        few, many = (self.play(partial(calls, jobs=jobs)) for jobs in (self.jobs, 4 * self.jobs))
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

    def test_platform_is_what_the_entry_point_should_name(self) -> None:
        """The config names its platform, and diagnose can name the permission of each operation."""
        known = {name for _, name in self.good.operations}
        nameless = sorted(known - self.platform.permissions.keys() - self.without_right)
        advice = "say in Platform.permissions which right each operation needs"
        complain([f"no right is known for {name}" for name in nameless], advice)

    def test_platform_diagnose_is_content(self) -> None:
        """diagnose reports no problem, and names the credentials and the endpoints."""
        report = self._diagnosed(None)
        called = {api for api, _ in self.good.operations}
        complaints = [f"{problem.collectors}: {problem.message}" for problem in report.problems]
        complaints += ["no collector ran"] * (not report.collectors)
        complaints += ["it does not say where credentials came from"] * (not report.credentials.strip())
        complaints += [f"it calls itself {report.platform}"] * (report.platform != self.platform.name)
        complaints += [
            f"{endpoint.api} at {endpoint.url} was not called"
            for endpoint in report.endpoints
            if not endpoint.outcomes and endpoint.api in called
        ]
        without = called - {endpoint.api for endpoint in report.endpoints}
        complaints += [f"{api} is called, and has no endpoint" for api in sorted(without)]
        complain(complaints, "fill in facts, identity and endpoints of the Provider")

    def test_platform_names_the_missing_permission(self) -> None:
        """diagnose reports a rejected operation with the permission that it needs."""
        for _, operation in self.good.operations:
            if operation not in self.copes | self.without_right:
                report = self._diagnosed(only(operation, DENIED.make))
                found = {missing.operation: missing.right for missing in report.missing_rights}
                complain(
                    [f"{operation} is refused with 403, and diagnose names {found.get(operation, 'nothing')}"]
                    * (found.get(operation) != self.platform.permissions.get(operation)),
                    "answer AccessDenied with status=403 in Dialect.judge; Platform.permissions is by operation",
                )

    def _diagnosed(self, spoil: Spoil | None) -> ProviderReport:
        """Return the report of diagnose about the cloud."""

        async def main(folder: Path) -> ProviderReport:
            async with self.served() as (_, gateway, listener):
                gateway.spoil = spoil
                config = write_config(folder, self.platform, self.config(listener.url))
                (report,) = await examine(config, {self.platform.name: self.platform})
                return report

        return self.play(main)

    def test_platform_closing_leaves_nothing_behind(self) -> None:
        """After shutdown no connection is open, and no task runs."""

        async def main(folder: Path) -> None:
            before = len(asyncio.all_tasks())
            with warnings.catch_warnings():
                # A client that was never closed warns when Python collects it. This check reports it in words.
                warnings.simplefilter("ignore", ResourceWarning)
                async with self.stage(folder) as stage:
                    await stage.polls(1)
                    await stage.during_a_poll()
                    await stage.daemon.stop()
                    await stage.client.aclose()
                    standing = stage.listener.connections
                    gc.collect()
            left = len(asyncio.all_tasks()) - before
            complaints = [f"{standing} connections still stand"] * bool(standing)
            complaints += [f"{left} tasks still run"] * (left > 0)
            complain(complaints, "close the transport, and end tasks of your own, in Provider.aclose")

        self.play(main)

    @on_stage(reloaded={"concurrency": 7})
    async def test_platform_reload_builds_it_again(self, stage: Stage) -> None:
        """With other limits, a new provider replaces the first one, and the page is as before."""
        before = await stage.page(2)
        (first,) = stage.daemon.exporter.providers
        said = await stage.client.post("/-/reload")
        (second,) = stage.daemon.exporter.providers
        complaints = [f"the reload failed: {said.text}"] * (first is second)
        complaints += unlike(await stage.page(2), before)
        complain(complaints, "keep all that changes in the Provider, nothing in modules or classes")

    def test_platform_imports_only_public_modules(self) -> None:
        """The provider's modules import only public modules of the exporter, and no HTTP client except the
        transport."""
        advice = "docs/provider-reference.md lists the public modules; ask for what is missing"
        complain(private_imports(source_folder(self.platform)), advice)

    @on_stage()
    async def test_secret_none_is_in_logs_pages_or_reprs(self, stage: Stage) -> None:
        """A good run, a run of rejections that quote everything, and the reprs of objects have no secret."""
        complain(["config() has no secret"] * (not self.secrets.secrets), "plant them by self.secret(name)")
        await stage.page(1)
        await stage.page(1, QUOTING.make)
        await stage.read_everything()
        exporter = stage.daemon.exporter
        said = [repr(exporter.config), str(exporter.config), redacted(exporter.config)]
        for provider in exporter.providers:
            facts = (provider.identity.origin, provider.endpoints, provider.facts, provider.name)
            said += [repr(provider), str(provider), repr(provider.identity), repr(facts)]
            said += [repr(value) for value in (*getattr(provider, "__dict__", {}).values(), *provider.collectors)]
        for runner in exporter.runners:
            said += [f"{error!s} {error!r}" for error in runner.errors]
            said.append(repr(runner.state.error))
        complain(stage.leaks(self.secrets, objects="\n".join(said)), SILENCE)


def _uncounted(stage: Stage, page: Page) -> list[str]:
    """Return requests that arrived and are not counted, and those that are counted and did not arrive."""
    arrivals = stage.gateway.arrivals
    complaints = [
        f"{arrival.url[:80]} was asked for, and not by the transport"
        for arrival in arrivals
        if arrival.operation == UNSIGNED
    ]
    for (api, operation), count in Counter((arrival.api, arrival.operation) for arrival in arrivals).items():
        counted = page.total(REQUESTS, api=api, operation=operation)
        # If the server closes a kept connection at the moment of its use, the attempt never arrives.
        if operation != UNSIGNED and not 0 <= counted - count <= 1 + count // 50:
            complaints.append(f"{operation} arrived {count} times and is counted {counted:.0f} times")
    return complaints
