"""Polls every collector once, and reports on each provider. Of a cycle over many jobs, it polls the first few."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, ProviderConfig
from trainfleet_exporter.diagnose.advice import advise
from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, EndpointReport, Failure, ProviderReport
from trainfleet_exporter.errors import AccessDenied, CloudError, TrainfleetError
from trainfleet_exporter.polling import PerObjectCollector, Runner
from trainfleet_exporter.providers.registry import Platform, Provider
from trainfleet_exporter.sharding import WHOLE, Shard
from trainfleet_exporter.transport import Attempt

_TRIED = 20
"""Jobs to poll in each cycle. They show the cost of all; polling all would take a quarter of an hour."""
_MINUTE = 60.0
_MONTH = 30 * 86400.0
_NO_RIGHT = (
    *("403", "Forbidden", "NoPermission", "OperationForbidden", "RAMForbidden"),
    *("AccessDenied", "NotAuthorized", "UnauthorizedOperation"),
)
"""Prefixes of the error codes of a missing permission, whatever the HTTP status."""
_NO_KEY = (
    *("ExpiredToken", "UnrecognizedClient", "InvalidClientTokenId", "InvalidAccessKeyId", "InvalidSecurityToken"),
    *("InvalidSignature", "SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken"),
    *("RequestTimeTooSkewed", "RequestExpired", "InvalidTimeStamp"),
)
"""Prefixes of the error codes of a wrong key or clock, which services also send with 403."""


async def examine(
    config: Config,
    platforms: Mapping[str, Platform],
    *,
    shard: Shard = WHOLE,
    say: Callable[[str], object] = lambda text: None,
) -> list[ProviderReport]:
    """Poll once, as one `shard` of several, and report; if it is cancelled (by Ctrl-C), what it has seen so far.

    Raises StartError if a provider cannot be built.
    """
    trial = _Trial(config, platforms, shard)
    try:
        try:
            await trial.exporter.poll_once()
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            say("interrupted: the report covers the polls so far")
        return trial.reports()
    finally:
        await trial.exporter.aclose()


class _Trial:
    """The exporter of a config, polled once, with its attempts to call APIs by provider."""

    def __init__(self, config: Config, platforms: Mapping[str, Platform], shard: Shard) -> None:
        self._config = config
        self._platforms = platforms
        self._attempts: defaultdict[str, list[Attempt]] = defaultdict(list)
        self._units: dict[tuple[str, str], int] = {}
        """By provider and per-object collector, how many jobs a cycle polls."""
        self.exporter = Exporter(
            config, platforms, observe=lambda provider, attempt: self._attempts[provider].append(attempt), shard=shard
        )
        for runner in self.exporter.runners:
            if isinstance(runner.collector, PerObjectCollector):
                self._sample(runner.state.provider, runner.collector)

    def _sample(self, provider: str, collector: PerObjectCollector) -> None:
        whole = collector.objects

        def few() -> Sequence[str]:
            objects = whole()
            self._units[provider, collector.name] = len(objects)
            return objects[:_TRIED]

        collector.objects = few  # type: ignore[method-assign]

    def reports(self) -> list[ProviderReport]:
        """Return what the poll has shown of each provider, in the order of the config."""
        pairs = list(zip(self.exporter.providers, self._config.providers, strict=True))
        rates = {provider.name: self._rates(provider, config) for provider, config in pairs}

        def calls(provider: Provider, config: ProviderConfig, api: str) -> CallsReport:
            family = [one for one, its in pairs if its.account_key == config.account_key and api in rates[one.name]]
            near = [one for one in family if one.endpoints.get(api) == provider.endpoints.get(api)]
            return CallsReport(
                api=api,
                minute=rates[provider.name][api] * _MINUTE,
                minute_of_account=math.fsum(rates[one.name][api] for one in near) * _MINUTE,
                minute_limit=config.limits.requests_per_second * _MINUTE,
                month=rates[provider.name][api] * _MONTH,
                of_account=math.fsum(rates[one.name][api] for one in family) * _MONTH,
                budget=config.limits.monthly_calls.get(api),
                free=self._platforms[config.platform].free_calls.get(api),
                at_least=any(self._is_short(one, api) for one in family),
            )

        return [
            self._report(provider, config, [calls(provider, config, api) for api in rates[provider.name]])
            for provider, config in pairs
        ]

    def _report(self, provider: Provider, config: ProviderConfig, calls: Sequence[CallsReport]) -> ProviderReport:
        facts, identity, runners = provider.facts, provider.identity, self._runners(provider)
        report = ProviderReport(
            provider=provider.name,
            platform=facts.platform,
            region=facts.region,
            credentials=identity.origin,
            credentials_expire=identity.expires,
            endpoints=tuple(self._endpoint(provider, api) for api in provider.endpoints),
            problems=tuple(_problems(runners, self._platforms[config.platform].permissions)),
            collectors=tuple(self._collector(runner, config) for runner in runners),
            calls=tuple(calls),
            series=self._series(provider.name),
        )
        return replace(report, advice=tuple(advise(report)))

    def _runners(self, provider: Provider) -> list[Runner]:
        return [runner for runner in self.exporter.runners if runner.state.provider == provider.name]

    def _scale(self, provider: str, collector: str) -> float:
        """The factor from the polled objects of a collector to all of them."""
        return max(1.0, self._units.get((provider, collector), 0) / _TRIED)

    def _series(self, provider: str) -> dict[str, int]:
        found: Counter[str] = Counter()
        store = self.exporter.page_store
        for part in store.parts:
            assert isinstance(part, tuple)
            whose, collector, _ = part
            if whose == provider:
                for family, count in store.series(part).items():
                    found[family] += round(count * self._scale(provider, collector))
        return dict(found)

    def _endpoint(self, provider: Provider, api: str) -> EndpointReport:
        here = [attempt for attempt in self._attempts[provider.name] if attempt.api == api]
        average = math.fsum(attempt.seconds for attempt in here) / len(here) if here else 0.0
        return EndpointReport(api, provider.endpoints[api], dict(Counter(attempt.outcome for attempt in here)), average)

    def _collector(self, runner: Runner, config: ProviderConfig) -> CollectorReport:
        provider, name, limits = runner.state.provider, runner.state.collector, config.limits
        scale, per_object = self._scale(provider, name), isinstance(runner.collector, PerObjectCollector)
        own = [attempt for attempt in self._attempts[provider] if attempt.caller == name]
        calls = Counter(attempt.api for attempt in own)
        by_limit = max(calls.values(), default=0) / limits.requests_per_second
        by_speed = math.fsum(attempt.seconds for attempt in own) / limits.concurrency
        units = self._units.get((provider, name), 0)
        return CollectorReport(
            collector=name,
            success=runner.state.success,
            interval=runner.collector.interval,
            per_object=per_object,
            units=units,
            tried=min(_TRIED, units),
            needs=max(by_limit, by_speed) * scale,
            has=runner.collector.interval if per_object else self._config.global_.poll_timeout,
            parts_failed=runner.state.parts_failed,
            series=round(runner.state.series * scale),
            calls={api: round(count * scale) for api, count in calls.items()},
        )

    def _rates(self, provider: Provider, config: ProviderConfig) -> dict[str, float]:
        """By API, the expected calls a second when lists that are kept for hours are already read."""
        intervals = {runner.state.collector: runner.collector.interval for runner in self._runners(provider)}
        found: dict[str, float] = dict.fromkeys(provider.endpoints, 0.0)
        for attempt in self._attempts[provider.name]:
            interval = intervals.get(attempt.caller, math.inf)
            every = max(interval, self._platforms[config.platform].kept.get(attempt.operation, interval))
            found[attempt.api] = found.get(attempt.api, 0.0) + self._scale(provider.name, attempt.caller) / every
        return found

    def _is_short(self, provider: Provider, api: str) -> bool:
        """Whether a poll failed that would have made more calls of the API."""
        failed = {runner.state.collector for runner in self._runners(provider) if not runner.state.success}
        return any(attempt.api == api and attempt.caller in failed for attempt in self._attempts[provider.name])


def _problems(runners: Iterable[Runner], permissions: Mapping[str, str]) -> Iterator[Failure]:
    """Yield the errors, equal ones once."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for runner in runners:
        for error in runner.errors:
            reason = error.reason if isinstance(error, TrainfleetError) else "internal"
            operation = error.operation if isinstance(error, CloudError) else ""
            right = ""
            if isinstance(error, AccessDenied) and _lacks_right(error):
                right = permissions.get(operation, f"the permission to call {operation}")
            found.setdefault((reason, operation, _text(error), right), []).append(runner.state.collector)
    for (reason, operation, text, right), names in found.items():
        yield Failure(reason, operation, text, tuple(dict.fromkeys(names)), len(names), right)


def _lacks_right(error: AccessDenied) -> bool:
    """Return whether a refusal is about a missing permission, and not about the key, its signature or the clock."""
    return error.code.startswith(_NO_RIGHT) or (error.status == 403 and not error.code.startswith(_NO_KEY))


def _text(error: Exception) -> str:
    """The text of an error without the request's id, so that equal errors have equal texts."""
    if not isinstance(error, TrainfleetError):
        return f"internal error: {type(error).__name__}"
    text = str(error)
    if isinstance(error, CloudError) and error.request_id:
        text = text.removesuffix(f" (request {error.request_id})")
    return text
