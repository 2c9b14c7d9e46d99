"""Poll every collector once and report on each provider."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from trainfleet_exporter.config import Config, ProviderConfig
from trainfleet_exporter.diagnose.advice import advise
from trainfleet_exporter.diagnose.report import (
    CallsReport,
    CollectorReport,
    EndpointReport,
    Failure,
    MissingRight,
    ProviderReport,
)
from trainfleet_exporter.diagnose.trial import Trial
from trainfleet_exporter.errors import AccessDenied, CloudError, TrainfleetError
from trainfleet_exporter.polling import PerObjectCollector, Runner
from trainfleet_exporter.providers.registry import Platform, Provider
from trainfleet_exporter.sharding import WHOLE, Shard
from trainfleet_exporter.transport import Attempt

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
    progress: Callable[[str], None] = lambda text: None,
    shard: Shard = WHOLE,
) -> list[ProviderReport]:
    """Poll once, as one `shard` of several, and report. `progress` receives lines for a person who waits.

    Raises StartError if a provider cannot be built. If it is cancelled (by Ctrl-C), it reports what it has seen so far.
    """
    trial = Trial(config, platforms, progress, shard=shard)
    try:
        await trial.run()
        seen = [
            _Seen(trial, provider, provider_config, platforms[provider_config.platform], config.global_.poll_timeout)
            for provider, provider_config in zip(trial.exporter.providers, config.providers, strict=True)
        ]
        calls = [each.calls() for each in seen]
        return [each.report(_with_account(each, calls, seen)) for each in seen]
    finally:
        await trial.exporter.aclose()


def _with_account(this: _Seen, calls: Sequence[Mapping[str, CallsReport]], seen: Sequence[_Seen]) -> list[CallsReport]:
    """One provider's calls, with those of the others that share its account's limits."""
    family = [(each, rows) for each, rows in zip(seen, calls, strict=True) if each.account_key == this.account_key]
    found = []
    for api, row in next(rows for each, rows in family if each is this).items():
        same = [rows[api] for _, rows in family if api in rows]
        near = [rows[api] for each, rows in family if api in rows and each.urls.get(api) == this.urls.get(api)]
        found.append(
            replace(
                row,
                of_account=math.fsum(other.month for other in same),
                minute_of_account=math.fsum(other.minute for other in near),
                at_least=any(other.at_least for other in same),
            )
        )
    return found


class _Seen:
    """One provider after its poll."""

    def __init__(
        self, trial: Trial, provider: Provider, config: ProviderConfig, platform: Platform, poll_timeout: float
    ) -> None:
        self.urls = provider.endpoints
        self.account_key = config.account_key
        self._trial = trial
        self._provider = provider
        self._config = config
        self._platform = platform
        self._poll_timeout = poll_timeout
        self._runners = [runner for runner in trial.exporter.runners if runner.state.provider == provider.name]
        self._attempts = [attempt for name, attempt in trial.attempts if name == provider.name]

    def report(self, calls: Sequence[CallsReport]) -> ProviderReport:
        """The whole report. `calls` include those of the account."""
        endpoints, missing, problems = self._endpoints(), self._missing(), self._problems()
        collectors = [self._collector(runner) for runner in self._runners]
        series = self._trial.series(self._provider.name)
        advice = advise(
            origin=self._provider.identity.origin,
            endpoints=endpoints,
            missing=missing,
            problems=problems,
            collectors=collectors,
            calls=calls,
            rate=self._config.limits.requests_per_second,
            workspaces=series.get("trainfleet_workspace_info", 0),
        )
        facts = self._provider.facts
        return ProviderReport(
            provider=self._provider.name,
            platform=facts.platform,
            region=facts.region,
            credentials=self._provider.identity.origin,
            credentials_expire=self._provider.identity.expires,
            endpoints=tuple(endpoints),
            missing_rights=tuple(missing),
            problems=tuple(problems),
            collectors=tuple(collectors),
            calls=tuple(calls),
            series=series,
            advice=tuple(advice),
        )

    def calls(self) -> dict[str, CallsReport]:
        """By API, the expected calls when lists that are kept for hours are already read, without the account's."""
        rates: dict[str, float] = dict.fromkeys(self.urls, 0.0)
        intervals = {runner.state.collector: runner.collector.interval for runner in self._runners}
        failed = {runner.state.collector for runner in self._runners if not runner.state.success}
        short: set[str] = set()
        for attempt in self._attempts:
            interval = intervals.get(attempt.caller, math.inf)
            every = max(interval, self._platform.kept.get(attempt.operation, interval))
            scale = self._trial.scale(self._provider.name, attempt.caller)
            rates[attempt.api] = rates.get(attempt.api, 0.0) + scale / every
            if attempt.caller in failed:
                short.add(attempt.api)
        limits = self._config.limits
        return {
            api: CallsReport(
                api=api,
                minute=rate * _MINUTE,
                minute_of_account=rate * _MINUTE,
                minute_limit=limits.requests_per_second * _MINUTE,
                month=rate * _MONTH,
                of_account=rate * _MONTH,
                budget=limits.monthly_calls.get(api),
                free=self._platform.free_calls.get(api),
                at_least=api in short,
            )
            for api, rate in rates.items()
        }

    def _endpoints(self) -> list[EndpointReport]:
        found = []
        for api, url in self.urls.items():
            here = [attempt for attempt in self._attempts if attempt.api == api]
            outcomes = Counter(attempt.outcome for attempt in here)
            average = math.fsum(attempt.seconds for attempt in here) / len(here) if here else 0.0
            found.append(EndpointReport(api, url, dict(outcomes), average))
        return found

    def _missing(self) -> list[MissingRight]:
        found: dict[str, MissingRight] = {}
        for error in (error for runner in self._runners for error in runner.errors):
            if isinstance(error, AccessDenied) and lacks_right(error):
                right = self._platform.permissions.get(error.operation, f"the permission to call {error.operation}")
                found.setdefault(error.operation, MissingRight(error.operation, right, _text(error)))
        return list(found.values())

    def _problems(self) -> list[Failure]:
        """The errors, equal ones once."""
        found: dict[tuple[str, str, str], tuple[dict[str, None], int]] = {}
        for runner in self._runners:
            for error in runner.errors:
                reason = error.reason if isinstance(error, TrainfleetError) else "internal"
                operation = error.operation if isinstance(error, CloudError) else ""
                collectors, count = found.get((reason, operation, _text(error)), ({}, 0))
                found[reason, operation, _text(error)] = (collectors | {runner.state.collector: None}, count + 1)
        return [Failure(*key, tuple(collectors), count) for key, (collectors, count) in found.items()]

    def _collector(self, runner: Runner) -> CollectorReport:
        name, limits = runner.state.collector, self._config.limits
        scale, per_object = (
            self._trial.scale(self._provider.name, name),
            isinstance(runner.collector, PerObjectCollector),
        )
        own: Mapping[str, Sequence[Attempt]] = {
            api: [attempt for attempt in self._attempts if attempt.caller == name and attempt.api == api]
            for api in dict.fromkeys(attempt.api for attempt in self._attempts if attempt.caller == name)
        }
        by_limit = max(map(len, own.values()), default=0) / limits.requests_per_second
        by_speed = math.fsum(attempt.seconds for here in own.values() for attempt in here) / limits.concurrency
        units = self._trial.units.get((self._provider.name, name), 0)
        return CollectorReport(
            collector=name,
            success=runner.state.success,
            interval=runner.collector.interval,
            per_object=per_object,
            units=units,
            tried=self._trial.tried(self._provider.name, name),
            needs=max(by_limit, by_speed) * scale,
            has=runner.collector.interval if per_object else self._poll_timeout,
            slow_cloud=by_speed > by_limit,
            parts_failed=runner.state.parts_failed,
            series=round(runner.state.series * scale),
            calls={api: round(len(here) * scale) for api, here in own.items()},
        )


def lacks_right(error: AccessDenied) -> bool:
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
