"""Checks for operators: counted, limited and paced calls, permissions, diagnosis, reloads, shutdown and secrets."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections import Counter

from trainfleet_conformance.answers import DENIED, HANG, QUOTING, only
from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.faults import SILENCE
from trainfleet_conformance.page import REQUESTS, unlike
from trainfleet_conformance.public_api import private_imports, source_folder
from trainfleet_conformance.stage import RELOADED, Stage
from trainfleet_exporter.config import redacted
from trainfleet_exporter.diagnose import ProviderReport, examine

_SOON = 1.0
"""Seconds in which the exporter stops. Closed connections need some of them."""
_DELAY = 0.3
"""Seconds that each call takes while the kit counts those under way."""


class OperationChecks(ProviderCase):
    """Checks of calls and limits, of the platform and its providers as objects, and of secrets in outputs."""

    def test_budget_every_call_is_counted(self) -> None:
        """The number of requests that arrive equals the number that the metrics count.

        The transport sends all of them, and each call of a poll counts for its collector: pacing needs this.
        """
        good = self.good
        foreign = [arrival for arrival in good.arrivals if not arrival.api]
        complaints = [f"{arrival.url[:80]} was asked for, and not by the transport" for arrival in foreign]
        complaints += [f"{each.operation} is called in no poll" for each in good.steady if not each.collector]
        arrived = Counter((arrival.api, arrival.operation) for arrival in good.arrivals if arrival.api)
        for (api, operation), count in arrived.items():
            counted = good.page.total(REQUESTS, api=api, operation=operation)
            # If the server closes a kept connection at the moment of its use, the attempt never arrives.
            if not 0 <= counted - count <= 1 + count // 50:
                complaints.append(f"{operation} arrived {count} times and is counted {counted:.0f} times")
        config = self.platform.config
        unknown = {arrival.api for arrival in good.arrivals} - {*config.apis, ""}
        complaints += [f"the API {api!r} is called, and is none of {config.__name__}.apis" for api in unknown]
        complain(
            complaints,
            "call the cloud in the task of a poll, by ApiClient.call of the transport that open_transport gives, and "
            "by nothing else: no client of your own, no thread that asks, no API that `monthly_calls` cannot limit",
        )

    def test_budget_calls_of_sweeps_do_not_grow_with_the_jobs(self) -> None:
        """With four times as many jobs, a bulk poll makes the same calls, except for pages."""

        def calls(jobs: int) -> Counter[tuple[str, str]]:
            with self.stage(jobs=jobs) as stage:
                stage.polls(1)
                first = len(stage.gateway.arrivals)
                stage.polls(1)
            return Counter((each.collector, each.operation) for each in stage.gateway.arrivals[first:])

        few, many = calls(self.jobs), calls(4 * self.jobs)
        # A page has at least two rows. A call for each job would add one call for each additional job.
        complaints = [
            f"{collector} calls {operation} {count} times for {4 * self.jobs} jobs, and {usual} times for {self.jobs}"
            for (collector, operation), count in many.items()
            for usual in (few[collector, operation],)
            if collector in self.good.bulk and count - usual > (3 * self.jobs + 1) // 2
        ]
        complain(complaints, "ask for all at once (lists, bulk metrics), or use an EachJob, which is spread and capped")

    def test_platform_diagnose_is_content(self) -> None:
        """diagnose reports no problem, and names the credentials and the endpoints."""
        with self.stage() as stage:
            report = self._diagnosed(stage)
        called = {api for api, _ in self.good.operations}
        complaints = [f"{problem.collectors}: {problem.message}" for problem in report.problems]
        complaints += ["no collector ran"] * (not report.collectors)
        complaints += [f"it calls itself {report.platform}"] * (report.platform != self.platform.name)
        complaints += ["it does not say where credentials came from"] * (not report.credentials.strip())
        without = called - {endpoint.api for endpoint in report.endpoints if endpoint.outcomes}
        complaints += [f"{api} is called, and has no endpoint, or none that was called" for api in sorted(without)]
        complain(complaints, "fill in facts, identity and endpoints of the Provider")

    def test_platform_names_the_missing_permission(self) -> None:
        """diagnose reports a rejected operation with the permission that it needs."""
        nameless = self.copes.difference(self.platform.permissions, self.without_right)
        complaints = [f"no permission is known for {operation}" for operation in nameless]
        with self.stage() as stage:
            for _, operation in self.good.operations:
                if operation not in self.copes | self.without_right:
                    stage.gateway.spoil = only(operation, DENIED.make)
                    found = {one.operation: one.right for one in self._diagnosed(stage).missing_rights}
                    if found.get(operation) != self.platform.permissions.get(operation, ""):
                        named = found.get(operation, "nothing")
                        complaints.append(f"{operation} is refused with 403, and diagnose names {named}")
        complain(
            complaints,
            "answer AccessDenied with status=403 in Dialect.judge; name the right of each operation in "
            "Platform.permissions",
        )

    def _diagnosed(self, stage: Stage) -> ProviderReport:
        (report,) = stage.run(examine(stage.daemon.exporter.config, {self.platform.name: self.platform}))
        return report

    def test_platform_closing_leaves_nothing_behind(self) -> None:
        """While a call hangs, the exporter stops at once. No connection is open then, and no task runs."""
        for operation in self.faulted_operations:
            # A client that was never closed warns when Python collects it. This check reports it in words.
            with warnings.catch_warnings(action="ignore", category=ResourceWarning), self.stage() as stage:
                stage.polls(1)
                stage.begin_poll(only(operation, HANG.make))
                began = stage.loop.time()
                standing = stage.run(stage.stop())
                took, left = stage.loop.time() - began, len(asyncio.all_tasks(stage.loop))
                gc.collect()
            complaints = [f"it took {took:.1f} s to stop while {operation} hung"] * (took > _SOON)
            complaints += [f"{standing} connections still stand"] * bool(standing)
            complaints += [f"{left} tasks still run"] * bool(left)
            complain(
                complaints,
                "let asyncio.CancelledError pass: catch CloudError, never BaseException; await nothing in finally. "
                "Close the transport, and end tasks of your own, in Provider.aclose",
            )

    def test_platform_reload_builds_it_again(self) -> None:
        """With lower limits, a new provider replaces the first one and keeps to them, and the page is as before."""
        with self.stage() as stage:
            before = stage.page(2)
            (first,) = stage.daemon.exporter.providers
            stage.read("/-/reload", "POST")
            (second,) = stage.daemon.exporter.providers
            complaints = ["the reload keeps the first one"] * (first is second)
            stage.gateway.delay, first_call = _DELAY, len(stage.gateway.arrivals)
            complaints += unlike(stage.page(2), before)
        calls, rate = stage.gateway.arrivals[first_call:], RELOADED["requests_per_second"]
        # A second may have the calls that are saved up, and its own.
        for seconds, most in ((1, 2 * rate), (_DELAY - 0.01, RELOADED["concurrency"])):
            for one in calls:
                count = sum(0 <= other.at - one.at < seconds for other in calls if other.api == one.api)
                complaints += [f"{count} calls of {one.api!r} in {seconds} s, not {most} or fewer"] * (count > most)
        complain(complaints, "keep all that changes in the Provider, nothing in modules; open_transport has its limits")

    def test_platform_imports_only_public_modules(self) -> None:
        """The provider's modules import only public modules of the exporter, and no HTTP client except the
        transport."""
        advice = "docs/provider-reference.md lists the public modules; ask for what is missing"
        complain(private_imports(source_folder(self.platform)), advice)

    def test_secret_none_is_in_logs_pages_or_reprs(self) -> None:
        """A good run, a run of rejections that quote everything, and the reprs of objects have no secret."""
        with self.stage() as stage:
            complain(["config() has no secret"] * (not self.secrets.secrets), "plant them by self.secret(name)")
            stage.polls(1)
            stage.read_everything()
            stage.polls(1, QUOTING.make)
            stage.read_everything()
            exporter = stage.daemon.exporter
            objects = [exporter.config, redacted(exporter.config)]
            for provider in exporter.providers:
                objects += [provider, provider.identity, provider.identity.origin, provider.endpoints, provider.facts]
                objects += [provider.name, *getattr(provider, "__dict__", {}).values(), *provider.collectors]
            for runner in exporter.runners:
                objects += [*runner.errors, runner.state.error]
            said = "\n".join(f"{each!s} {each!r}" for each in objects)
            complain(stage.leaks(self.secrets, objects=said), SILENCE)
