"""What was spent, and what was learnt of the limits, over reloads: not a call is forgotten or counted twice."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from pathlib import Path

import pytest

from tests.app.reload_rig import Site, site
from tests.budgets.rig import DAY, JANUARY
from tests.support.clock import run_stepped
from trainfleet_exporter.budgets import StateFile

KEPT = "global: {state_file: state.json}\n"


def config(*providers: str, head: str = "") -> str:
    rows = "".join(f"  - {{platform: small, region: cn-x, {provider}}}\n" for provider in providers)
    return f"{head}providers:\n{rows}"


def limited(name: str, calls: int = 1_000_000, more: str = "") -> str:
    return f"name: {name}, {more}limits: {{monthly_calls: {{dlc: {calls}}}}}"


def recorded(path: Path) -> dict[str, int]:
    """What a state file says of this January, by account or provider."""
    rows = json.loads(path.read_text())["spent"]
    return {row.get("account") or row["provider"]: row["calls"] for row in rows if row["month"] == JANUARY.name}


async def polled(here: Site, text: str, seconds: float = 3) -> None:
    """Reload, which must succeed, and wait."""
    outcome = await here.reload(text)
    assert outcome.success, outcome.text
    await asyncio.sleep(seconds)


def test_another_limit_leaves_what_was_spent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("a"), limited("b")), caplog) as here:
            await asyncio.sleep(61)
            assert here.spent("a") == here.world.calls["a"] == 10
            for calls in (2_000_000, 500_000):
                await polled(here, config(limited("a", calls), limited("b")))
                assert here.spent("a") == here.world.calls["a"]
                assert here.own("api_budget_calls", provider="a", api="dlc") == calls
                assert here.spent("b") == here.world.calls["b"]
            assert here.world.calls == {"a": 20, "b": 10}
            # Without a limit it is not shown, and with one again it is what it was.
            await polled(here, config("name: a", limited("b")), seconds=0)
            assert here.own("api_budget_calls", provider="a", api="dlc") is None
            await polled(here, config(limited("a"), limited("b")))
            assert here.spent("a") >= 20

    run_stepped(main, start=JANUARY.starts)


def test_a_limit_below_what_was_spent_is_spent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("a")), caplog) as here:
            await asyncio.sleep(61)
            await polled(here, config(limited("a", 10)), seconds=300)
            assert here.world.calls["a"] == 10
            assert here.own("api_budget_remaining_calls", provider="a", api="dlc") == 0
            await polled(here, config(limited("a", 12)), seconds=300)
            assert here.world.calls["a"] == 12

    run_stepped(main, start=JANUARY.starts)


def test_spent_calls_follow_a_provider_between_accounts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inside = limited("b", more="account: main, ")
    calls = JANUARY.starts + 10 * DAY
    assumed = 322_581  # ten of 31 days of a million

    async def main() -> None:
        async with site(tmp_path, config(limited("a"), limited("b"), head=KEPT), caplog) as here:
            await asyncio.sleep(1)
            assert here.spent("a") == here.spent("b") == assumed + 5
            # An account that is made of two.
            await polled(here, config("name: a, account: main", inside, head=KEPT))
            assert here.spent("a") == here.spent("b") == 2 * assumed + 20
            # One leaves: its calls go with it; of those that were made before anybody counted a share is assumed.
            await polled(here, config(limited("a"), inside, head=KEPT))
            assert here.world.calls == {"a": 15, "b": 10}
            assert here.spent("b") == 2 * assumed + 10
            assert here.spent("a") == pytest.approx(assumed + 15, abs=2)
            # And comes back, again and again: nothing is counted twice.
            before = here.spent("a") + here.spent("b")
            await polled(here, config("name: a, account: main", inside, head=KEPT))
            assert here.spent("a") == before + 5
            # The account gets another name.
            other = inside.replace("main", "prod")
            await polled(here, config("name: a, account: prod", other, head=KEPT))
            assert here.spent("a") == before + 15
            await here.exporter.aclose()
            assert recorded(tmp_path / "state.json") == {"prod": before + 15}

    run_stepped(main, start=calls)


def test_the_limiter_of_an_account_keeps_what_it_learnt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("a"), "name: b"), caplog) as here:
            await asyncio.sleep(1)
            loop = asyncio.get_running_loop()

            def rates() -> list[float]:
                accounts = [provider.account for provider in here.exporter.providers]  # type: ignore[attr-defined]
                return [account.limiter("api.test", "dlc").rate for account in accounts]

            for provider in here.exporter.providers:
                provider.account.limiter("api.test", "dlc").throttled(loop.time())  # type: ignore[attr-defined]
            assert rates() == [2.5, 2.5]
            region = limited("a").replace("name", "job_window: 7d, name")
            await polled(here, config(region, "name: b"), seconds=0)
            assert rates() == [2.5, 2.5]
            await polled(here, config(limited("a", 500_000), "name: b"), seconds=0)
            assert rates() == pytest.approx([2.5, 2.5])
            await polled(here, config(limited("a", 500_000), "name: b, limits: {concurrency: 9}"), seconds=0)
            assert rates() == pytest.approx([2.5, 5])

    run_stepped(main, start=JANUARY.starts)


def test_another_state_file_receives_what_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = (f"global: {{state_file: {name}.json}}\n" for name in ("first", "second"))

    async def main() -> None:
        async with site(tmp_path, config(limited("a"), limited("b")), caplog) as here:
            await asyncio.sleep(1)
            await polled(here, config(limited("a"), limited("b"), head=first), seconds=30)
            assert here.world.built == {"a": 1, "b": 1}  # it is nothing to them
            assert recorded(tmp_path / "first.json")["a"] >= 5
            row = {"provider": "a", "api": "dlc", "month": JANUARY.name, "calls": 1000}
            more = [{**row, "provider": "gone", "calls": 7}, {**row, "provider": "b", "calls": 2}]
            (tmp_path / "second.json").write_text(json.dumps({"version": 1, "spent": [row, *more]}))
            await asyncio.sleep(30)
            await polled(here, config(limited("a"), limited("b"), head=second), seconds=30)
            assert recorded(tmp_path / "first.json") == {"a": 10, "b": 10}  # exactly, at the end
            assert (here.spent("a"), here.spent("b")) == (1000, 10)  # the larger of the two
            await here.reload(config(limited("a"), limited("b"), head=first.replace("first", "./second")))
            await asyncio.sleep(30)
            await polled(here, config(limited("a"), limited("b")), seconds=0)
            assert recorded(tmp_path / "second.json") == {"a": 1005, "gone": 7, "b": 15}
            held = (tmp_path / "second.json").read_bytes()
            await asyncio.sleep(120)
            assert (tmp_path / "second.json").read_bytes() == held
            assert here.spent("b") == 25
            assert [record for record in caplog.records if record.levelname == "WARNING"] == []

    run_stepped(main, start=JANUARY.starts)


def test_removed_names_keep_only_this_months_spending(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("n0"), head=KEPT), caplog) as here:
            await asyncio.sleep(1)
            spent = here.spent("n0")
            budgets = []
            for number in range(1, 5):
                account = here.exporter.providers[0].account  # type: ignore[attr-defined]
                budgets.append(weakref.ref(account.budgets["dlc"]))
                del account
                await polled(here, config(limited(f"n{number}"), head=KEPT))
            gc.collect()
            assert [budget() for budget in budgets] == [None] * 4
            assert recorded(tmp_path / "state.json").keys() >= {"n0", "n1", "n2", "n3"}
            await polled(here, config(limited("n0"), head=KEPT))
            assert here.spent("n0") == spent + 5

    run_stepped(main, start=JANUARY.starts + DAY)


def test_a_bad_config_leaves_the_state_file_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("a"), head=KEPT), caplog) as here:
            await asyncio.sleep(1)
            unfit = config(limited("a", more="unfit: true, "), head=KEPT.replace("state.json", "other.json"))
            assert not (await here.reload(unfit)).success
            assert not (tmp_path / "other.json").exists()
            other = StateFile(tmp_path / "other.json")
            assert other.owned  # no process kept it
            other.release()
            await asyncio.sleep(60)
            await here.exporter.aclose()
            assert recorded(tmp_path / "state.json") == {"a": 10}

    run_stepped(main, start=JANUARY.starts)


def test_a_collector_that_is_gone_asks_nothing_of_the_budget(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Six calls a minute for four collectors that want ten.
    calls = round(6 * JANUARY.seconds / 60)
    shared = limited("b", calls, "account: main, ")

    async def main() -> None:
        async with site(tmp_path, config("name: a, account: main", shared), caplog) as here:
            await asyncio.sleep(120)
            labels = {"provider": "b", "collector": "pods"}
            assert (here.own("collector_interval_seconds", **labels) or 0) > 90
            await polled(here, config(shared), seconds=600)
            assert here.own("collector_interval_seconds", **labels) == 60
            assert here.world.built["b"] == 1

    run_stepped(main, start=JANUARY.starts)
