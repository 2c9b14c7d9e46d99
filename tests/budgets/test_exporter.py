"""Budgets in a whole exporter: from the config to the gauges, and back from the state file."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from tests.budgets.rig import DAY, HOUR, JANUARY
from tests.polling.rig import count
from tests.support.clock import run_stepped
from tests.support.collectors import Bulk
from tests.transport.rig import EchoDialect, json_answer
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.budgets import BillingPeriod
from trainfleet_exporter.config import ProviderConfig, load_config
from trainfleet_exporter.model import ProviderFacts
from trainfleet_exporter.polling import Collector, Poll, Schedule
from trainfleet_exporter.providers.registry import BuildContext, Identity, Platform
from trainfleet_exporter.transport import Call, HttpSettings, Transport


class SmallConfig(ProviderConfig):
    """A platform with two APIs, of which one is `dlc`."""

    apis: ClassVar[tuple[str, ...]] = ("dlc", "aiworkspace")


class _NoIdentity:
    origin = "nowhere"
    expires = None


class Small:
    """A provider with two sweeps, of 2 and of 20 calls."""

    def __init__(self, config: SmallConfig, context: BuildContext) -> None:
        self.name = config.name
        self.facts = ProviderFacts(platform="small", region=config.region)
        self.identity: Identity = _NoIdentity()
        self.endpoints: Mapping[str, str] = {"dlc": "http://api.test"}
        self._transport = Transport(
            account=context.account,
            http=HttpSettings(trust_env=False),
            observe=context.observe,
            send=httpx.MockTransport(lambda _: json_answer(200)),
        )
        self._client = self._transport.client("http://api.test", EchoDialect())
        self.collectors: Sequence[Collector] = (self._sweep("job_counts", 2), self._sweep("usage", 20))

    def _sweep(self, name: str, calls: int) -> Bulk:
        async def run(poll: Poll) -> None:
            async with poll.part("a") as part:
                for _ in range(calls):
                    await self._client.call(Call(operation="ListJobs", path="/"), deadline=poll.deadline)
                await part.publish(count("a"))

        return Bulk(name=name, interval=60, run=run)

    async def aclose(self) -> None:
        await self._transport.aclose()


PLATFORMS = {"small": Platform(name="small", config=SmallConfig, build=Small)}


def _exporter(folder: Path, text: str, platforms: Mapping[str, Platform] = PLATFORMS) -> Exporter:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return Exporter(load_config(path, environ={}, platforms={"small": SmallConfig}), platforms)


def _own(exporter: Exporter, name: str, **labels: str) -> float | None:
    return exporter.telemetry.registry.get_sample_value(f"trainfleet_exporter_{name}", labels)


SHARED = """\
global: {state_file: state.json}
providers:
  - {name: a, platform: small, region: cn-x, account: main, limits: {monthly_calls: {dlc: 400000}}}
  - {name: b, platform: small, region: cn-y, account: main}
  - {name: c, platform: small, region: cn-x, limits: {monthly_calls: {dlc: 100000000}}}
  - {name: d, platform: small, region: cn-x}
"""


@pytest.mark.long
def test_account_budget_is_shared_and_survives_a_restart(tmp_path: Path) -> None:
    async def life(hours: float) -> Exporter:
        exporter = _exporter(tmp_path, SHARED)
        schedule = Schedule(exporter.runners)
        schedule.start()
        await asyncio.sleep(hours * HOUR)
        await schedule.stop()
        await exporter.aclose()
        return exporter

    def spent(exporter: Exporter, provider: str) -> float:
        whole = _own(exporter, "api_budget_calls", provider=provider, api="dlc")
        rest = _own(exporter, "api_budget_remaining_calls", provider=provider, api="dlc")
        assert whole is not None
        assert rest is not None
        return whole - rest

    def recorded() -> list[tuple[str | None, str | None, int]]:
        rows = json.loads((tmp_path / "state.json").read_text())["spent"]
        return [(row.get("account"), row.get("provider"), row["calls"]) for row in rows]

    def made(exporter: Exporter, provider: str) -> float:
        labels = {"provider": provider, "api": "dlc", "operation": "ListJobs", "outcome": "ok"}
        return _own(exporter, "api_requests_total", **labels) or 0.0

    async def main() -> None:
        first = await life(1)
        assert _own(first, "api_budget_calls", provider="a", api="dlc") == 400_000
        assert spent(first, "a") == spent(first, "b") == made(first, "a") + made(first, "b")
        assert spent(first, "c") == made(first, "c")
        for provider, api in (("d", "dlc"), ("a", "aiworkspace")):
            assert _own(first, "api_budget_calls", provider=provider, api=api) is None
        # Two providers ask for 44 calls a minute, and the budget allows 9: counts come first.
        intervals = {
            (provider, collector): _own(first, "collector_interval_seconds", provider=provider, collector=collector)
            for provider in "abcd"
            for collector in ("job_counts", "usage")
        }
        for (provider, collector), interval in intervals.items():
            expected = 2400 / (400_000 * 60 / JANUARY.seconds - 4) if (collector, provider) in _STRETCHED else 60
            assert interval == pytest.approx(expected, rel=0.02), (provider, collector)
        assert recorded() == [
            ("main", None, spent(first, "a")),
            (None, "c", spent(first, "c")),
        ]
        second = await life(0.2)
        assert spent(second, "a") == spent(first, "a") + made(second, "a") + made(second, "b")

    run_stepped(main, start=JANUARY.starts)


_STRETCHED = {("usage", "a"), ("usage", "b")}


@pytest.mark.parametrize(
    ("billing", "spent"),
    [
        (BillingPeriod(), 129_033),  # 10 of 31 days
        (BillingPeriod(first_day=11), 0),
        (BillingPeriod(first_day=10), 12_904),  # 1 of 31 days
        (BillingPeriod(utc_offset=timedelta(hours=12)), 135_484),  # 10.5 of 31 days
    ],
)
def test_a_platform_s_budget_is_for_its_own_billing_month(tmp_path: Path, billing: BillingPeriod, spent: int) -> None:
    async def main() -> None:
        platforms = {"small": Platform(name="small", config=SmallConfig, build=Small, billing=billing)}
        exporter = _exporter(tmp_path, SHARED, platforms)
        assert _own(exporter, "api_budget_remaining_calls", provider="a", api="dlc") == 400_000 - spent
        await exporter.aclose()

    run_stepped(main, start=JANUARY.starts + 10 * DAY)


def test_start_in_mid_month_without_file_has_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        exporter = _exporter(tmp_path, SHARED.replace("global: {state_file: state.json}\n", ""))
        assert _own(exporter, "api_budget_remaining_calls", provider="a", api="dlc") == 400_000 - 129_033
        await exporter.aclose()

    run_stepped(main, start=JANUARY.starts + 10 * DAY)
    assert {entry.name for entry in tmp_path.iterdir()} == {"config.yaml"}


@pytest.mark.long
def test_spent_budget_is_visible_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = SHARED.replace("400000", "30")

    async def main() -> None:
        exporter = _exporter(tmp_path, text)
        schedule = Schedule(exporter.runners)
        schedule.start()
        await asyncio.sleep(2 * HOUR)
        await schedule.stop()
        for provider in "ab":
            assert _own(exporter, "api_budget_remaining_calls", provider=provider, api="dlc") == 0
        failures = _own(exporter, "collector_errors_total", provider="a", collector="usage", reason="budget")
        assert failures == pytest.approx(120, abs=2)
        assert _own(exporter, "collector_success", provider="a", collector="usage") == 0
        assert _own(exporter, "collector_parts", provider="a", collector="usage") == 0  # old answers have gone
        await exporter.aclose()

    with caplog.at_level(logging.INFO):
        run_stepped(main, start=JANUARY.starts)
    reported = [record.message for record in caplog.records if "monthly_calls" in record.message]
    assert 1 <= len(reported) <= 4  # each collector of the account says so once
