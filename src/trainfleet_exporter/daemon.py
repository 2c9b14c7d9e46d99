"""The composition root: from a config to a running exporter, and back down again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import trainfleet_exporter
from trainfleet_exporter.config import Config, ProviderConfig, redacted
from trainfleet_exporter.exposition import Board, Format, Renderer, RenderSettings, body
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector, Pacing, Rolling, Runner, Schedule
from trainfleet_exporter.providers.registry import BuildContext, Platform, Provider
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.transport import Account, Attempt, Holder, Ledger, Limits, Ownership
from trainfleet_exporter.web.app import Pages, make_app
from trainfleet_exporter.web.server import WebServer, listen

log = logging.getLogger(__name__)

_STOP_SECONDS = 4.0
"""Everything is down by then after a SIGTERM, whatever still hangs."""


class Exporter:
    """The providers of one config, what they are polled by, and what they publish to.

    `observe` is told of each attempt to call an API, and whose it was, beside the metrics. `adapt` may put another
    collector in the place of one of a provider's.
    """

    def __init__(
        self,
        config: Config,
        platforms: Mapping[str, Platform],
        *,
        observe: Callable[[str, Attempt], None] = lambda provider, attempt: None,
        board: Board | None = None,
        adapt: Callable[[str, Collector], Collector] = lambda provider, collector: collector,
    ) -> None:
        self.config = config
        self._observe = observe
        self.telemetry = Telemetry()
        self.board = Board() if board is None else board
        self._adapt = adapt
        settings = config.global_
        self._renderer = Renderer(
            RenderSettings(deny=tuple(settings.metrics.deny), job_labels=tuple(settings.metrics.job_labels))
        )
        self.providers: list[Provider] = []
        self.runners: list[Runner] = []
        self._pacing = Pacing()
        self._ownership = None if settings.state_file is None else Ownership(settings.state_file)
        self._ledger = Ledger(settings.state_file, owned=self._ownership is None or self._ownership.had)
        self._accounts: dict[Holder, Account] = {}
        self._facts: dict[str, ProviderFacts] = {}
        """What is shown of each provider, by its name."""
        for provider_config in config.providers:
            account = self._account(provider_config)
            context = BuildContext(
                settings=settings,
                account=account,
                observe=partial(self._attempted, provider_config.name),
            )
            self._add(platforms[provider_config.platform].build(provider_config, context), account)
            for api in provider_config.apis:
                if api in account.budgets:
                    self.telemetry.watch_budget(provider_config.name, api, account.budgets[api])

    def waiting_for(self) -> list[str]:
        """The collectors whose first poll has not ended yet, as `provider/collector`."""
        return [
            f"{runner.state.provider}/{runner.state.collector}"
            for runner in self.runners
            if not runner.first_poll_done.is_set()
        ]

    async def poll_once(self) -> bool:
        """Poll every collector once; whether all of them succeeded."""
        await asyncio.gather(*(runner.tick() for runner in self.runners))
        return all(runner.state.success for runner in self.runners)

    async def text(self) -> bytes:
        """Everything as Prometheus text."""
        own = self.telemetry.exposition(openmetrics=False)
        return b"".join(await body(self.board.snapshot(), Format.TEXT, gzip=False, extra=own))

    async def aclose(self) -> None:
        """Close every provider's connections, and write down what was spent."""
        for provider in self.providers:
            await provider.aclose()
        self._ledger.close()
        if self._ownership is not None:
            self._ownership.release()

    def _account(self, config: ProviderConfig) -> Account:
        """The account of a provider: the one it names, or one of its own."""
        holder = Holder("provider", config.name) if config.account is None else Holder("account", config.account)
        if holder not in self._accounts:
            limits = Limits(
                requests_per_second=config.limits.requests_per_second, concurrency=config.limits.concurrency
            )
            budgets = {
                api: self._ledger.budget(holder, api, calls) for api, calls in config.limits.monthly_calls.items()
            }
            self._accounts[holder] = Account(holder.name, limits, budgets)
        return self._accounts[holder]

    def _add(self, provider: Provider, account: Account) -> None:
        self.providers.append(provider)
        self.telemetry.watch_credentials(provider.name, lambda: provider.identity.expires)
        self._show_facts(provider)  # known without asking anybody, and shown even while the cloud cannot be reached
        settings = self.config.global_
        self.runners += [
            Runner(
                provider.name,
                collector,
                telemetry=self.telemetry,
                board=self.board,
                renderer=self._renderer,
                keep_polls=settings.keep_last_good_polls,
                poll_timeout=settings.poll_timeout,
                pace=self._pacing.join(
                    provider.name,
                    collector.name,
                    collector.interval,
                    account.budgets,
                    rolls=isinstance(collector, Rolling),
                ),
            )
            for collector in (self._adapt(provider.name, given) for given in provider.collectors)
        ]

    def _show_facts(self, provider: Provider) -> None:
        """Show what is known of a provider, where that is not shown yet: some learn of their project from the cloud."""
        facts = provider.facts
        if self._facts.get(provider.name) != facts:
            self._facts[provider.name] = facts
            self.board.put((provider.name, "", ""), self._renderer.render(provider.name, [facts]))

    def _attempted(self, provider: str, attempt: Attempt) -> None:
        self._observe(provider, attempt)
        self.telemetry.attempt(
            provider,
            api=attempt.api,
            operation=attempt.operation,
            outcome=attempt.outcome,
            seconds=attempt.seconds,
        )
        self._pacing.attempted(provider, attempt.caller, attempt.api)
        for known in self.providers:
            if known.name == provider:
                self._show_facts(known)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Where the daemon listens and under which path it shows metrics."""

    addresses: Sequence[str] = (":10075",)
    telemetry_path: str = "/metrics"


class Daemon:
    """The exporter with its web server and its schedule."""

    def __init__(self, config: Config, platforms: Mapping[str, Platform], web: WebSettings) -> None:
        self.exporter = Exporter(config, platforms)
        pages = Pages(
            board=self.exporter.board,
            telemetry=self.exporter.telemetry,
            waiting_for=self.exporter.waiting_for,
            config_text=lambda: redacted(self.exporter.config),
            telemetry_path=web.telemetry_path,
        )
        sockets = [sock for address in web.addresses for sock in listen(address)]
        self.server = WebServer(make_app(pages), sockets)
        self._schedule = Schedule(self.exporter.runners)

    async def start(self) -> None:
        """Serve first, then poll: a scrape is answered from the first moment on."""
        await self.server.start()
        self._schedule.start()
        log.info(
            "started",
            extra={
                "fields": {
                    "version": trainfleet_exporter.__version__,
                    "address": ",".join(self.server.addresses),
                    "providers": len(self.exporter.providers),
                }
            },
        )

    async def stop(self) -> None:
        """End polls, finish running answers, close connections. Bounded: nothing may hold up the end."""
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._schedule.stop()
                await self.server.stop()
                await self.exporter.aclose()
        except TimeoutError:
            log.warning("stopped without waiting any longer for connections to close")
        log.info("stopped")
