"""A wall clock that is set by an hour while everything is polled: both clouds, temporary credentials, a pace.

Only the exporter's wall clock moves, or the clouds' with it; the loop's clock, by which time really passes, never does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.clock import START, run_stepped
from tests.support.configs import exporter_of
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.page import Format
from trainfleet_exporter.polling import BulkCollector, Collector, Poll, Schedule
from trainfleet_exporter.transport import Attempt
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.pai.sts import ROLE, Sts

HOUR, MINUTE = 3600.0, 60.0
PAI, MODELARTS = "sim-pai-hangzhou", "sim-modelarts-north4"
INTERVAL, LONGEST = 150.0, 300.0
"""The shortest and the longest interval of the config, in seconds."""
ALLOWED = 270_000
"""Calls of CloudMonitor in 30 days: a poll of usage every few minutes."""
ISSUING = {"AssumeRole", "KeystoneCreateUserTokenByPassword"}


def set_clock(seconds: float) -> None:
    """Move the wall clock, and not the loop's."""
    asyncio.get_running_loop()._traveller.shift(seconds)  # type: ignore[attr-defined]  # SteppedLoop's own clock


@dataclass
class Watch:
    """What an exporter did, by the loop's clock."""

    polls: dict[str, list[float]] = field(default_factory=dict)
    calls: list[tuple[float, Attempt]] = field(default_factory=list)

    def follow(self, provider: str, collector: Collector) -> None:
        """Write down the beginnings of a collector's polls."""
        begun = self.polls.setdefault(f"{provider}/{collector.name}", [])
        inner = collector.poll if isinstance(collector, BulkCollector) else collector.begin

        async def begin(poll: Poll) -> None:
            begun.append(_now())
            await inner(poll)

        setattr(collector, "poll" if isinstance(collector, BulkCollector) else "begin", begin)

    def observe(self, _: str, attempt: Attempt) -> None:
        self.calls.append((_now(), attempt))

    def calls_since(self, start: float) -> int:
        return sum(at >= start for at, _ in self.calls)


class Site:
    """Both clouds over loopback, their clock, and an exporter with every collector on them."""

    def __init__(self, simulator: Simulator, exporter: Exporter, watch: Watch) -> None:
        self.simulator = simulator
        self.exporter = exporter
        self.watch = watch

    def failing(self) -> list[str]:
        """The collectors whose latest poll failed."""
        states = [runner.state for runner in self.exporter.runners]
        return [f"{state.provider}/{state.collector}" for state in states if not state.success]

    def parts_failed(self) -> int:
        """How many parts failed when they were last read."""
        return sum(runner.state.parts_failed for runner in self.exporter.runners)

    async def shown(self) -> dict[str, float]:
        """The published samples by their text."""
        text = self.exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
        rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    def own(self, name: str) -> dict[str, float]:
        """The exporter's own samples of one name, by provider and collector or API."""
        return {
            "/".join(value for key, value in sorted(sample.labels.items(), reverse=True)): sample.value
            for family in self.exporter.telemetry.registry.collect()
            for sample in family.samples
            if sample.name == f"trainfleet_exporter_{name}"
        }

    async def families(self) -> list[str]:
        """What is shown of each cloud, but for what depends on a job's having ended of late."""
        names = [name for name in await self.shown() if "_finished_" not in name and "_reason" not in name]
        return [f"{name.partition('{')[0]}/{PAI if PAI in name else MODELARTS}" for name in names]

    async def check_dates(self) -> None:
        """Every dated reading is as old as it may be, by the wall clock, and none is of the future."""
        dates = [value for name, value in (await self.shown()).items() if "_usage_timestamp_" in name]
        assert dates
        assert time.time() - 15 * MINUTE <= min(dates) <= max(dates) <= time.time() + 1

    def issued(self) -> int:
        """How many temporary keys and tokens were asked for."""
        return sum(attempt.operation in ISSUING for _, attempt in self.watch.calls)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _config(simulator: Simulator, url: str, folder: Path) -> Path:
    """Every collector, temporary credentials on both clouds, and `monthly_calls` that stretch polls."""
    text = simulator.config_yaml(url)
    keys = re.compile(r"      access_key: .*\n      secret_key: .*\n")
    user = (
        f"      username: {catalog.USER_NAME}\n      password: {catalog.PASSWORD}\n"
        f"      domain_name: {catalog.DOMAIN_NAME}\n"
    )
    text, users = keys.subn(user, text)
    assert users == 1
    if "pai" in simulator.worlds:
        text = _with_role_and_limit(text, url)
    text = text.replace("poll_interval: 10s", "poll_interval: 150s\n  keep_last_good_polls: 1")
    text = text.replace("poll_timeout: 8s", "poll_timeout: 50s")
    text = re.sub(r"interval: (15|20)s", "interval: 5m", text)
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _with_role_and_limit(text: str, url: str) -> str:
    role = f"\\1      role_arn: {Sts.role_arn(ROLE)}\n    endpoints:\n      sts: {url}\n"
    text, roles = re.subn(r"(      access_key_secret: .*\n)    endpoints:\n", role, text)
    text, paced = re.subn("usage: {interval: 15s}", "usage: {interval: 150s}", text, count=1)
    assert (roles, paced) == (1, 1)
    return text.replace("concurrency: 8\n", f"concurrency: 8\n      monthly_calls: {{cloudmonitor: {ALLOWED}}}\n", 1)


@asynccontextmanager
async def site(
    folder: Path,
    *,
    clouds: Sequence[str] = ("pai", "modelarts"),
    clock: Callable[[], float] = time.time,
    token_lifetime: float = 86400.0,
) -> AsyncIterator[Site]:
    """Everything running."""
    simulator = Simulator(seed=5, clouds=clouds, population=10, clock=clock, token_lifetime=token_lifetime)
    async with simulator.serve() as url:
        watch = Watch()
        exporter = exporter_of(_config(simulator, url, folder), observe=watch.observe)
        for runner in exporter.runners:
            watch.follow(runner.state.provider, runner.collector)
        schedule = Schedule(exporter.runners)
        try:
            schedule.start()
            yield Site(simulator, exporter, watch)
        finally:
            await schedule.stop()
            await exporter.aclose()


def _check_rhythm(watch: Watch, intervals: Mapping[str, float], *, since: float) -> None:
    """No collector waited for longer than its interval, none was polled in circles."""
    assert len(watch.polls) == 22
    for name, begun in watch.polls.items():
        # The polls around the setting included: from the last before to the last of all, and then till now.
        recent = [*[at for at in begun if at < since][-1:], *[at for at in begun if at >= since], _now()]
        gaps = [later - earlier for earlier, later in pairwise(recent)]
        assert max(gaps) <= 1.1 * intervals[name] + 2, (name, gaps)  # the pace may stretch it a little meanwhile
        assert all(gap >= INTERVAL - 2 for gap in gaps[:-1]), (name, gaps)


@pytest.mark.long
def test_a_clock_that_is_set_by_an_hour_and_back_changes_nothing(tmp_path: Path) -> None:
    """The clouds' clock moves along: ours was wrong before, or all are set by one time server."""

    async def main() -> None:
        async with site(tmp_path) as here:
            await asyncio.sleep(LONGEST + 7)
            assert here.failing() == []
            before, calls = set(await here.families()), len(here.watch.calls)
            intervals = here.own("collector_interval_seconds")
            stretched = intervals[f"{PAI}/usage"]
            assert INTERVAL < stretched < LONGEST
            for step in (-HOUR, HOUR, HOUR, -HOUR):
                since = _now()
                set_clock(step)
                await asyncio.sleep(LONGEST + 30)
                _check_rhythm(here.watch, intervals, since=since)
                assert here.failing() == []
                assert set(await here.families()) >= before
                await here.check_dates()
                assert here.watch.calls_since(since) < calls
                assert here.own("collector_interval_seconds")[f"{PAI}/usage"] == pytest.approx(stretched, rel=0.1)
            assert here.issued() <= 4

    run_stepped(main)


@pytest.mark.long
def test_step_of_the_clock_loses_no_family(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The clouds' clock stays: Alibaba refuses what is signed by ours, and then its own time is used."""
    caplog.set_level(logging.INFO)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with site(tmp_path, clock=lambda: START + loop.time()) as here:
            await asyncio.sleep(LONGEST + 7)
            assert here.failing() == []
            before = set(await here.families())
            intervals = here.own("collector_interval_seconds")
            for step in (-HOUR, HOUR, HOUR, -HOUR):
                since = _now()
                caplog.clear()
                set_clock(step)
                await asyncio.sleep(2 * LONGEST + 60)
                _check_rhythm(here.watch, intervals, since=since)
                assert here.failing() == []
                assert set(await here.families()) >= before
                messages = [record.getMessage() for record in caplog.records]
                assert sum("clock of this machine is off" in message for message in messages) == 2  # one a cloud
                assert sum("system clock jumped" in message for message in messages) == 1
            await here.check_dates()
            assert here.issued() <= 6

    run_stepped(main)


def test_token_is_renewed_in_time_after_the_clock_is_set_back(tmp_path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        clouds = ("modelarts",)
        async with site(tmp_path, clouds=clouds, clock=lambda: START + loop.time(), token_lifetime=600.0) as here:
            await asyncio.sleep(4 * MINUTE)
            set_clock(-HOUR)
            for _ in range(10):
                await asyncio.sleep(MINUTE)
                assert here.failing() == []
            assert here.issued() == 3  # after 0, 5 and 10 minutes: half of their life by the cloud's clock

    run_stepped(main)
