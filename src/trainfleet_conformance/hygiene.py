"""Checks for operators: named permissions, diagnosis, clean shutdown, reloads, public imports and redacted secrets."""

from __future__ import annotations

import asyncio
import gc
import warnings
from pathlib import Path

from trainfleet_conformance.answers import only
from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.faults import SILENCE, whole
from trainfleet_conformance.gateway import Signatures, Spoil, keep
from trainfleet_conformance.page import unlike
from trainfleet_conformance.public_api import private_imports, source_folder
from trainfleet_conformance.stage import Stage, config_text, load, serve_cloud
from trainfleet_exporter.config import redacted
from trainfleet_exporter.diagnose import ProviderReport, examine


class PlatformChecks(ProviderCase):
    """Checks of the platform and its providers as objects."""

    def test_platform_is_what_the_entry_point_should_name(self) -> None:
        """The config names its platform, and diagnose can name the permission of each operation."""
        known = {name for _, name in self.good.operations}
        nameless = sorted(known - self.platform.permissions.keys() - self.without_right)
        advice = "say in Platform.permissions which right each operation needs"
        complain([f"no right is known for {name}" for name in nameless], advice)

    def test_platform_diagnose_is_content(self) -> None:
        """diagnose reports no problem, and names the credentials and the endpoints."""
        report = self._diagnosed(keep)
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
                report = self._diagnosed(only(operation, whole("denied").make))
                found = {missing.operation: missing.right for missing in report.missing_rights}
                complain(
                    [f"{operation} is refused with 403, and diagnose names {found.get(operation, 'nothing')}"]
                    * (found.get(operation) != self.platform.permissions.get(operation)),
                    "answer AccessDenied with status=403 in Dialect.judge; Platform.permissions is by operation",
                )

    def _diagnosed(self, spoil: Spoil) -> ProviderReport:
        """Return the report of diagnose about the cloud."""
        reports: list[ProviderReport] = []

        async def main(folder: Path) -> None:
            async with serve_cloud(self.cloud(self.jobs), Signatures()) as (gateway, listener):
                gateway.spoil = spoil
                config = load(folder, self.platform, config_text(self.platform, self.config(listener.url), {}))
                reports.extend(await examine(config, {self.platform.name: self.platform}))

        self.play(main)
        return reports[0]

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
                    await stage.stop()
                    await stage.aclose()
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
        said = await stage.reload()
        (second,) = stage.daemon.exporter.providers
        complaints = [f"the reload failed: {said}"] * (first is second)
        complaints += unlike(await stage.page(2), before)
        complain(complaints, "keep all that changes in the Provider, nothing in modules or classes")

    def test_platform_imports_only_public_modules(self) -> None:
        """The provider's modules import only public modules of the exporter, and no HTTP client except the
        transport."""
        advice = "docs/provider-reference.md lists the public modules; ask for what is missing"
        complain(private_imports(source_folder(self.platform)), advice)


class SecretChecks(ProviderCase):
    """Checks that no output has a secret. FaultChecks also searches for them under faults."""

    @on_stage()
    async def test_secret_none_is_in_logs_pages_or_reprs(self, stage: Stage) -> None:
        """A good run, a run of rejections that quote everything, and the reprs of objects have no secret."""
        complain(["config() has no secret"] * (not self.secrets.secrets), "plant them by self.secret(name)")
        await stage.page(1)
        with stage.spoilt(whole("quoting").make):
            await stage.page(1)
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
