"""The providers of one config, and what they publish. The providers of another config can replace them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import msgspec

from trainfleet_exporter.app.plan import Basis, Member, Plan, digest
from trainfleet_exporter.config import AccountKey, Config, redacted
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.exposition import Format, PageStore, Renderer, RenderSettings
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.job_ledger import LedgerFile, UseWatch, ended_job
from trainfleet_exporter.model import JobEnd
from trainfleet_exporter.pacing import Pace
from trainfleet_exporter.polling import Runner
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.registry import BuildContext, Platform, Provider
from trainfleet_exporter.sharding import WHOLE, Shard
from trainfleet_exporter.telemetry import Standing, Telemetry
from trainfleet_exporter.transport import Account, Attempt, CallLimits

log = logging.getLogger(__name__)


class Exporter:
    """The providers of a config, their runners, and the page store that they publish to.

    `observe` receives each attempt to call an API, with the name of its provider. Of several exporters this one is
    `shard`, and `config` is `sharding.apportioned` to it.
    One that `stands_by` only checks that its providers can be built; `may_call` says whether a call may begin now.
    StartError if a provider cannot be built.
    """

    def __init__(
        self,
        config: Config,
        platforms: Mapping[str, Platform],
        *,
        observe: Callable[[str, Attempt], None] = lambda provider, attempt: None,
        shard: Shard = WHOLE,
        stands_by: bool = False,
        may_call: Callable[[], bool] = lambda: True,
    ) -> None:
        self.config = config
        self.stands_by = stands_by
        """Whether it polls and shows no provider, because another exporter holds the lease."""
        self.shard = shard
        if not config.providers:
            facts = fields(shard=str(shard))
            log.info("no provider of the config belongs to this shard; it polls nothing", extra=facts)
        self.telemetry = Telemetry(shard)
        self.page_store = PageStore(FAMILIES, standing=self.standing)
        self._job_ledger = LedgerFile(config.global_.ledger_file)
        self.telemetry.watch_writes("ledger", lambda: self._job_ledger.write_errors)
        self._use = UseWatch(self.page_store)
        self._platforms = platforms
        self._observe = observe
        self._renderer = _renderer(config)
        self._may_call = may_call
        self._accounts: dict[AccountKey, Account] = {}
        self._members: dict[str, Member] = {}
        self._was_ready = self._is_announced = False
        self.apply(self.plan(config))

    @property
    def providers(self) -> list[Provider]:
        """The providers, in the order of the config."""
        return [member.provider for member in self._members.values()]

    @property
    def runners(self) -> list[Runner]:
        """Their runners."""
        return [runner for member in self._members.values() for runner in member.runners]

    def waiting_for(self) -> list[str]:
        """The collectors whose first poll has not ended yet, as `provider/collector`.

        When none is left, the exporter stays ready, even if a reload adds a provider. A standby waits for none, and its
        next first polls count again.
        """
        if self._was_ready or self.stands_by:
            return []
        waiting = [
            f"{runner.state.provider}/{runner.state.collector}"
            for runner in self.runners
            if not runner.first_poll_done.is_set()
        ]
        self._was_ready = not waiting
        return waiting

    def standing(self) -> Standing:
        """Return how it polls at this moment, for a page."""
        denied, text = self.config.global_.metrics.deny, partial(redacted, self.config)
        return replace(self.telemetry.standing(), waiting=self.waiting_for(), denied=denied, config_text=text)

    def announce(self) -> None:
        """Name the source of each provider's credentials in the log, and from now on that of each new provider."""
        self._is_announced = True
        for provider in self.providers:
            self._name_identity(provider)

    async def poll_once(self) -> bool:
        """Poll every collector once. Returns whether all succeeded. Cancelled polls do not count as failed."""
        runners = self.runners
        if not runners:
            return True
        polls = [asyncio.create_task(runner.tick()) for runner in runners]
        try:
            await asyncio.wait(polls)
        except asyncio.CancelledError:
            await asyncio.gather(*(runner.stop() for runner in runners))
            raise
        for poll in polls:
            poll.result()
        return all(runner.state.success for runner in runners)

    async def text(self) -> bytes:
        """Return all metrics as Prometheus text."""
        page = self.page_store.current()
        own = self.telemetry.exposition(Format.TEXT, page.standing)
        return page.body(Format.TEXT, own, gzip=False).joined()

    async def aclose(self) -> None:
        """Close every provider's connections, and the ledger."""
        try:
            for provider in self.providers:
                await provider.aclose()
        finally:  # even if a provider hangs or the task is cancelled
            self.close_ledger()

    def close_ledger(self) -> None:
        """Write the last ended jobs. May be called more than once."""
        self._job_ledger.close()

    def plan(self, config: Config) -> Plan:
        """Build what another config needs in addition. Nothing that runs is changed. StartError with a line for each
        provider that cannot be built. The plan of a standby has no providers.
        """
        plan = Plan(config, self._accounts_of(config), [], [], list(self._members.values()))
        errors = list[str]()
        settings = config.global_.model_copy(update={"ledger_file": None})  # not the business of providers
        for found in config.providers:
            try:
                self._build(plan, Basis(found, settings, digest(found.http.ca_file)))
            except StartError as error:
                errors.append(f"provider {found.name}: {error}")
        if errors:
            raise StartError("\n".join(errors))
        return Plan(config, {}, [], [], plan.gone) if self.stands_by else plan

    def apply(self, plan: Plan) -> None:
        """Apply a plan in one step: a scrape sees it completely or not at all. What the runners of `plan.gone` still
        publish is ignored.
        """
        before = {member.name: member for member in plan.gone}
        if self._members:
            self.waiting_for()  # an exporter that was ready stays ready
            self.telemetry.seal(self.page_store.page().standing)
        for member in plan.gone:
            for runner in member.runners:
                runner.vanish()
            self.telemetry.unwatch(member.name)
        for member in self._members.values():
            self.page_store.drop(_facts_key(member))
        for name in plan.changes.get("removed", ()):
            self.telemetry.forget(name)
        self._accounts = plan.accounts
        if plan.config.global_.metrics != self.config.global_.metrics:  # then all providers were rebuilt
            self._renderer = _renderer(plan.config)
        self.config = plan.config
        self._job_ledger.path = plan.config.global_.ledger_file
        self._members = {member.name: member for member in plan.members}
        for member in plan.fresh:
            self._start(member)
            polled = {runner.state.collector for runner in member.runners}
            for runner in before[member.name].runners if member.name in before else ():
                if runner.state.collector not in polled:
                    self.telemetry.forget(member.name, runner.state.collector)
        for member in plan.members:
            member.shown = None
            self._show_facts(member)
        self.telemetry.arrange(list(self._members))

    def stand_by(self) -> list[Member]:
        """Show no provider any more, at once. Return those that were shown: end their polls and connections."""
        gone = list(self._members.values())
        self.stands_by, self._was_ready = True, False
        self.apply(Plan(self.config, {}, [], [], gone))
        self.page_store.current()
        return gone

    def _accounts_of(self, config: Config) -> dict[AccountKey, Account]:
        accounts: dict[AccountKey, Account] = {}
        for found in config.providers:
            key, limits = found.account_key, found.limits
            wanted = CallLimits(requests_per_second=limits.requests_per_second, concurrency=limits.concurrency)
            present = self._accounts.get(key)
            if present is None or present.limits != wanted:
                present = accounts.get(key) or Account(key.name, wanted, self._may_call)
            accounts[key] = present
        return accounts

    def _build(self, plan: Plan, basis: Basis) -> None:
        """Add a provider to a plan: the present one, if its basis has not changed."""
        config = basis.config
        account, there = plan.accounts[config.account_key], self._members.get(config.name)
        if there is not None and there.basis == basis and there.account is account:
            plan.members.append(there)
            plan.gone.remove(there)
            return
        # What ended since the latest poll of jobs, if that was good, is not counted yet.
        states = [runner.state for runner in (there.runners if there else ()) if runner.state.collector == "jobs"]
        polled = max([each.last_success for each in states if each.success], default=0.0)
        context = BuildContext(
            clock=ServerClock(started=polled) if polled > 0 else ServerClock(),
            settings=plan.config.global_,
            account=account,
            observe=partial(self._attempted, config.name),
            record_end=partial(self._ended, config.name),
        )
        member = Member(basis, self._platforms[config.platform].build(config, context), account)
        plan.members.append(member)
        plan.fresh.append(member)

    def _name_identity(self, provider: Provider) -> None:
        log.info("provider starts", extra=fields(provider=provider.name, credentials=provider.identity.origin))

    def _start(self, member: Member) -> None:
        provider, settings, limits = member.provider, self.config.global_, member.basis.config.limits
        if self._is_announced:
            self._name_identity(provider)
        self.telemetry.watch_credentials(provider.name, lambda: provider.identity.expires)
        for api in member.basis.config.apis:
            if api in limits.monthly_calls:
                self.telemetry.watch_budget(provider.name, api, limits.monthly_calls[api])
        peers = partial(self._paces, member.basis.config.account_key)
        member.paces = [Pace(collector.interval, limits.monthly_calls, peers) for collector in provider.collectors]
        member.runners = [
            Runner(
                provider.name,
                collector,
                telemetry=self.telemetry,
                page_store=self._use,
                renderer=self._renderer,
                keep_polls=settings.keep_last_good_polls,
                poll_timeout=settings.poll_timeout,
                pace=pace,
            )
            for collector, pace in zip(provider.collectors, member.paces, strict=True)
        ]

    def _paces(self, account: AccountKey) -> list[Pace]:
        members = [member for member in self._members.values() if member.basis.config.account_key == account]
        return [pace for member in members for pace in member.paces]

    def _show_facts(self, member: Member) -> None:
        """Show the facts of a provider, if they are not shown yet. They are known without a call, but some providers
        learn their project from the cloud.
        """
        facts = member.provider.facts
        if member.shown != facts:
            member.shown = facts
            lines = self._renderer.render(member.name, [facts]).lines
            self.page_store.put(_facts_key(member), lines, provider=member.name, objects=[facts])

    def _attempted(self, provider: str, attempt: Attempt) -> None:
        self._observe(provider, attempt)
        member = self._members.get(provider)
        if member is None:  # removed: the page has no series of it
            return
        self.telemetry.attempt(provider, attempt.api, attempt.operation, attempt.outcome, attempt.seconds)
        self._show_facts(member)

    def _ended(self, provider: str, end: JobEnd) -> None:
        """Record a job that has ended: one line of the log, and one of the ledger."""
        member = self._members.get(provider)
        if member is None:  # removed in the meantime
            return
        use = self._use.take(provider, end.job.job_id)
        labels = self.config.global_.metrics.job_labels
        ended = ended_job(provider, member.provider.facts, end, use, job_labels=labels)
        log.info("job ended", extra=fields(**msgspec.to_builtins(ended)))
        self._job_ledger.add(ended)


def _facts_key(member: Member) -> tuple[str, str, str]:
    return (member.name, "", "")


def _renderer(config: Config) -> Renderer:
    metrics = config.global_.metrics
    return Renderer(RenderSettings(deny=tuple(metrics.deny), job_labels=tuple(metrics.job_labels)))
