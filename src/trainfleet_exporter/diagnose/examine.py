"""Polls every collector once, watches each call, and makes a report of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from trainfleet_exporter.config import Config, ProviderConfig
from trainfleet_exporter.daemon import Exporter
from trainfleet_exporter.diagnose.advice import advise
from trainfleet_exporter.diagnose.report import (
    CallsReport,
    CollectorReport,
    EndpointReport,
    MissingRight,
    ProviderReport,
)
from trainfleet_exporter.errors import AccessDenied, CloudError
from trainfleet_exporter.polling import Rolling, Runner
from trainfleet_exporter.providers.registry import Platform, Provider
from trainfleet_exporter.transport import Attempt

_MINUTE = 60.0
_MONTH = 30 * 86400.0


async def examine(config: Config, platforms: Mapping[str, Platform]) -> list[ProviderReport]:
    """Poll once and report. Raises StartError where a provider cannot be built."""
    watched: list[tuple[str, Attempt]] = []
    exporter = Exporter(config, platforms, observe=lambda provider, attempt: watched.append((provider, attempt)))
    try:
        await exporter.poll_once()
        series = _series((await exporter.text()).decode())
        return [
            _Examined(
                provider=provider,
                config=provider_config,
                platform=platforms[provider_config.platform],
                runners=[runner for runner in exporter.runners if runner.state.provider == provider.name],
                attempts=[attempt for name, attempt in watched if name == provider.name],
                series=series.get(provider.name, {}),
                poll_timeout=config.global_.poll_timeout,
            ).report()
            for provider, provider_config in zip(exporter.providers, config.providers, strict=True)
        ]
    finally:
        await exporter.aclose()


def _series(text: str) -> dict[str, dict[str, int]]:
    """How many samples of what clouds report each provider has, by family."""
    found: dict[str, Counter[str]] = {}
    for line in text.splitlines():
        family, brace, labels = line.partition('{provider="')
        if brace and not family.startswith("trainfleet_exporter_"):
            # A quote within a name is escaped, so that the first one that is not ends it.
            name = labels.replace('\\"', "\0").partition('"')[0].replace("\0", '"')
            found.setdefault(name.replace("\\n", "\n").replace("\\\\", "\\"), Counter())[family] += 1
    return {name: dict(counts) for name, counts in found.items()}


class _Examined:
    """One provider after its poll."""

    def __init__(
        self,
        *,
        provider: Provider,
        config: ProviderConfig,
        platform: Platform,
        runners: Sequence[Runner],
        attempts: Sequence[Attempt],
        series: Mapping[str, int],
        poll_timeout: float,
    ) -> None:
        self._provider = provider
        self._config = config
        self._platform = platform
        self._runners = runners
        self._attempts = attempts
        self._series = series
        self._poll_timeout = poll_timeout
        self._errors = [error for runner in runners for error in runner.errors if isinstance(error, CloudError)]

    def report(self) -> ProviderReport:
        """The whole report."""
        endpoints, missing = tuple(self._endpoints()), tuple(self._missing())
        collectors, calls = tuple(map(self._collector, self._runners)), tuple(self._calls())
        advice = advise(
            endpoints=endpoints,
            missing=missing,
            collectors=collectors,
            calls=calls,
            rate=self._config.limits.requests_per_second,
            workspaces=self._series.get("trainfleet_workspace_info", 0),
        )
        facts = self._provider.facts
        return ProviderReport(
            provider=self._provider.name,
            platform=facts.platform,
            region=facts.region,
            credentials=self._provider.identity.origin,
            credentials_expire=self._provider.identity.expires,
            endpoints=endpoints,
            missing_rights=missing,
            collectors=collectors,
            calls=calls,
            series=dict(self._series),
            advice=tuple(advice),
        )

    def _endpoints(self) -> list[EndpointReport]:
        api_of = {attempt.operation: attempt.api for attempt in self._attempts}
        found = []
        for api, url in self._provider.endpoints.items():
            outcomes = Counter(attempt.outcome for attempt in self._attempts if attempt.api == api)
            problems = [str(error) for error in self._errors if api_of.get(error.operation) == api]
            found.append(EndpointReport(api, url, dict(outcomes), problems[0] if problems else ""))
        return found

    def _missing(self) -> list[MissingRight]:
        found: dict[str, MissingRight] = {}
        for error in self._errors:
            right = self._platform.permissions.get(error.operation)
            # 401, a bad signature and a wrong clock are about who asks; a right is lacking where it is a 403.
            if isinstance(error, AccessDenied) and right is not None and error.status == 403:
                found.setdefault(error.operation, MissingRight(error.operation, right, str(error)))
        return list(found.values())

    def _collector(self, runner: Runner) -> CollectorReport:
        state = runner.state
        calls = Counter(attempt.api for attempt in self._attempts if attempt.caller == state.collector)
        rolls = isinstance(runner.collector, Rolling)
        return CollectorReport(
            collector=state.collector,
            success=bool(state.success),
            seconds=state.duration or 0.0,
            interval=runner.collector.interval,
            rolls=rolls,
            needs=max(calls.values(), default=0) / self._config.limits.requests_per_second,
            has=runner.collector.interval if rolls else self._poll_timeout,
            parts=state.parts,
            parts_failed=state.parts_failed,
            series=state.series,
            calls=dict(calls),
            problems=tuple(dict.fromkeys(str(error) for error in runner.errors)),
        )

    def _calls(self) -> list[CallsReport]:
        """By API, what the polls come to, once what is kept for hours is there."""
        rates: dict[str, float] = dict.fromkeys(self._provider.endpoints, 0.0)
        intervals = {runner.state.collector: runner.collector.interval for runner in self._runners}
        for attempt in self._attempts:
            every = self._platform.kept.get(attempt.operation, intervals.get(attempt.caller, math.inf))
            rates[attempt.api] = rates.get(attempt.api, 0.0) + 1 / max(every, intervals.get(attempt.caller, 0.0))
        limits = self._config.limits
        return [
            CallsReport(
                api=api,
                minute=rate * _MINUTE,
                minute_limit=limits.requests_per_second * _MINUTE,
                month=rate * _MONTH,
                budget=limits.monthly_calls.get(api),
                free=self._platform.free_calls.get(api),
            )
            for api, rate in rates.items()
        ]
