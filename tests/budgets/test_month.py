"""A month of a paced budget: in a light harness from end to end, and its last hours on everything that is real.

The real schedule takes about a minute for a month of 400,000 calls, so the whole month runs without it: the budget, its
state file and the throttling are the real ones, and the harness below begins polls when the throttling says so.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock, opened
from tests.polling.rig import Rig, count
from tests.support.clock import run_stepped
from tests.support.collectors import Bulk
from tests.transport.rig import EchoDialect, json_answer
from trainfleet_exporter.budgets import Throttle, Throttling
from trainfleet_exporter.budgets import state_file as state_file_module
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.errors import BudgetSpent
from trainfleet_exporter.polling import Poll, Schedule
from trainfleet_exporter.transport import Account, Attempt, Call, CallLimits, HttpSettings, Transport

pytestmark = pytest.mark.long

CALLS = 400_000
PER_POLL = 20
MAIN = AccountKey("account", "main")


class Month:
    """Polls of collectors that share a budget, each beginning when its throttle says so; `began` are Unix times."""

    def __init__(self, pages: dict[Path, bytes], path: Path, calls: int, collectors: dict[str, int]) -> None:
        self._pages = pages
        self.clock = Clock(JANUARY.starts)
        self.began: dict[str, list[float]] = defaultdict(list)
        self.made = 0
        self.refused = 0
        self._path = path
        self._calls = calls
        self._collectors = collectors
        self.start()

    def start(self) -> None:
        """A new process: it knows what the state file says, and polls everything at once."""
        if self._path in self._pages:
            self._path.write_bytes(self._pages[self._path])
        self.ledger = opened(self._path, self.clock)
        self.budget = self.ledger.budget(MAIN, "cloudmonitor", self._calls)
        throttling = Throttling()
        self._paces: dict[str, Throttle] = {
            name: throttling.join("p", name, 60.0, {"cloudmonitor": self.budget}) for name in self._collectors
        }
        self._throttling = throttling
        self._due = dict.fromkeys(self._collectors, self.clock.wall)
        self._last = dict.fromkeys(self._collectors, 0.0)

    def run(self, until: float) -> None:
        """Poll until a Unix time."""
        while True:
            name = min(self._due, key=lambda name: self._due[name])
            if self._due[name] >= until:
                self.clock.pass_(until - self.clock.wall)
                return
            self.clock.pass_(max(0.0, self._due[name] - self.clock.wall))
            if self._last[name]:
                due = self._last[name] + self._paces[name].interval
                if due > self.clock.wall + 0.5:  # the throttle has slowed down meanwhile
                    self._due[name] = due
                    continue
            self._poll(name)
            self._due[name] = self._last[name] + self._paces[name].interval

    def _poll(self, name: str) -> None:
        self.began[name].append(self.clock.wall)
        self._last[name] = self.clock.wall
        self._paces[name].begin()
        try:
            for _ in range(self._collectors[name]):
                self.budget.take()
                self.made += 1
                self._throttling.attempted("p", name, "cloudmonitor")
        except BudgetSpent:
            self.refused += 1
        self._paces[name].polled()

    def gaps(self, name: str, start: float, end: float) -> list[float]:
        """The time between polls that began within some hours of the month."""
        times = [when for when in self.began[name] if start <= when <= end]
        return [later - earlier for earlier, later in pairwise(times)]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> dict[Path, bytes]:
    """Instead of a disk: tens of thousands of pages, of which only what they say matters here."""
    pages: dict[Path, bytes] = {}
    monkeypatch.setattr(state_file_module, "_replace", pages.__setitem__)
    return pages


@pytest.mark.parametrize("stop", ["clean", "crash"])
def test_a_month_of_twenty_calls_a_minute_and_a_restart(tmp_path: Path, pages: dict[Path, bytes], stop: str) -> None:
    month = Month(pages, tmp_path / "state.json", CALLS, {"usage": PER_POLL})
    month.run(JANUARY.starts + JANUARY.seconds * 0.6)
    spent = month.made
    assert spent == pytest.approx(CALLS * 0.6, rel=0.001)
    if stop == "clean":
        month.ledger.close()
    month.start()
    assert 0 <= CALLS - spent - month.budget.remaining <= (0 if stop == "clean" else 100)
    month.run(JANUARY.ends)
    assert CALLS * 0.97 <= month.made <= CALLS
    assert month.made >= CALLS * 0.999
    assert month.refused == 0
    first = month.gaps("usage", JANUARY.starts, JANUARY.starts + HOUR)
    last = month.gaps("usage", JANUARY.ends - HOUR, JANUARY.ends)
    assert max(last) <= max(first) * 1.01
    assert min(last) >= min(first) * 0.98  # nor is there a rush
    assert max(month.gaps("usage", JANUARY.starts, JANUARY.ends)) <= max(first) * 1.01
    # The new month is whole, and its first poll is not late.
    month.run(JANUARY.ends + DAY)
    assert month.gaps("usage", JANUARY.ends - HOUR, JANUARY.ends + HOUR)[-1] == pytest.approx(
        28 * DAY / 20_000, rel=0.01
    )
    assert max(month.gaps("usage", JANUARY.ends - HOUR, JANUARY.ends + HOUR)) <= max(first) * 1.01


def test_a_month_of_several_collectors_of_different_importance(tmp_path: Path, pages: dict[Path, bytes]) -> None:
    collectors = {"job_counts": 2, "jobs": 5, "pools": 3, "usage": 20, "pods": 47}
    month = Month(pages, tmp_path / "state.json", CALLS, collectors)
    month.run(JANUARY.ends)
    assert CALLS * 0.97 <= month.made <= CALLS
    assert month.refused <= 1
    hours = {
        name: (
            month.gaps(name, JANUARY.starts, JANUARY.starts + 12 * HOUR),
            month.gaps(name, JANUARY.ends - 12 * HOUR, JANUARY.ends),
        )
        for name in collectors
    }
    for name in ("job_counts", "jobs", "pools"):  # of 446,400 + 89,280 calls that these would make in a month
        first, last = hours[name]
        # The very last poll of detail takes its calls at once, and what is left for the others is a little less.
        assert max(last) <= max(first) * 1.1, name
    assert hours["job_counts"][0] == pytest.approx([60] * len(hours["job_counts"][0]))
    assert 60 < hours["jobs"][0][-1] == pytest.approx(hours["pools"][0][-1], rel=0.01)
    assert hours["usage"][0][-1] > 1.5 * hours["jobs"][0][-1]
    for name in ("usage", "pods"):
        # Detail is dealt a tenth: 67 calls in half an hour. At the very end the rest may not do for a whole cycle.
        first, last = hours[name]
        assert max(last[:-1]) <= max(first) * 1.02, name


def test_ample_budget_changes_no_interval(tmp_path: Path, pages: dict[Path, bytes]) -> None:
    month = Month(pages, tmp_path / "state.json", 50_000, {"usage": 1})
    month.run(JANUARY.ends)
    assert month.made == 31 * 24 * 60
    assert set(map(round, month.gaps("usage", JANUARY.starts, JANUARY.ends))) == {60}


def test_start_in_mid_month_spends_only_the_rest(tmp_path: Path, pages: dict[Path, bytes]) -> None:
    month = Month(pages, tmp_path / "state.json", CALLS, {"usage": PER_POLL})
    month.clock.pass_(21 * DAY)
    month.start()
    month.run(JANUARY.ends)
    assert CALLS * 10 / 31 * 0.999 <= month.made <= CALLS * 10 / 31


def test_a_quiet_first_half_leaves_more_for_the_second(tmp_path: Path, pages: dict[Path, bytes]) -> None:
    month = Month(pages, tmp_path / "state.json", CALLS // 20, {"usage": 1})
    month.clock.pass_(15.5 * DAY)  # the process ran and had nothing to poll
    month.budget.check()
    month._due = dict.fromkeys(month._due, month.clock.wall)
    month.run(JANUARY.ends)
    assert CALLS // 20 * 0.999 <= month.made <= CALLS // 20
    assert month.began["usage"][-1] - month.began["usage"][-2] == pytest.approx(15.5 * DAY / 20_000, rel=0.01)


def test_month_change_with_the_real_schedule_and_transport(tmp_path: Path) -> None:
    """The last two hours and the first, with what two hours at the month's throttle need on record as left."""
    path = tmp_path / "state.json"
    left = CALLS * 2 * HOUR / JANUARY.seconds
    row = {"account": "main", "api": "dlc", "month": "2026-01", "calls": round(CALLS - left)}
    path.write_text(json.dumps({"version": 1, "spent": [row]}))
    began: list[float] = []
    attempts: list[Attempt] = []

    async def main() -> None:
        ledger, throttling = opened(path), Throttling()
        budget = ledger.budget(MAIN, "dlc", CALLS)

        def observe(attempt: Attempt) -> None:
            attempts.append(attempt)
            throttling.attempted("p", attempt.caller, attempt.api)

        transport = Transport(
            account=Account("main", CallLimits(), {"dlc": budget}),
            http=HttpSettings(trust_env=False),
            observe=observe,
            send=httpx.MockTransport(lambda _: json_answer(200)),
        )
        client = transport.client("http://api.test", EchoDialect())

        async def run(poll: Poll) -> None:
            began.append(asyncio.get_running_loop().time())
            async with poll.part("a") as part:
                for _ in range(PER_POLL):
                    await client.call(Call(operation="DescribeMetricLast", path="/"), deadline=poll.deadline)
                await part.publish(count("a"))

        collector = Bulk(name="usage", interval=60, run=run)
        rig = Rig(collector, throttle=throttling.join("p", "usage", 60.0, {"dlc": budget}))
        schedule = Schedule([rig.runner])
        schedule.start()
        await asyncio.sleep(2 * HOUR)
        january = len(attempts)
        assert left * 0.97 <= january <= left
        interval = JANUARY.seconds / (CALLS / PER_POLL)
        gaps = [later - earlier for earlier, later in pairwise(began)]
        assert gaps == pytest.approx([interval] * len(gaps), rel=0.02)
        assert rig.own("collector_interval_seconds") == pytest.approx(interval, rel=0.02)
        await asyncio.sleep(HOUR)
        await schedule.stop()
        await transport.aclose()
        ledger.close()
        assert rig.own("collector_errors_total", reason="budget") is None
        assert budget.remaining == CALLS - (len(attempts) - january)
        gaps = [later - earlier for earlier, later in pairwise(began)]
        assert max(gaps) <= interval * 1.02
        assert gaps[-1] == pytest.approx(28 * DAY / (CALLS / PER_POLL), rel=0.01)
        assert {attempt.caller for attempt in attempts} == {"usage"}
        assert f'"month": "2026-02",\n   "calls": {len(attempts) - january}\n' in path.read_text()

    run_stepped(main, start=JANUARY.ends - 2 * HOUR)
