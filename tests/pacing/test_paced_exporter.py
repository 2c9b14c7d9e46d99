"""An exporter with `monthly_calls`: the calls that arrive, the shown intervals, and what a reload keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.app.rig import Site, config, limited, site

_HOURS = 3 * 3600.0
"""30,000 calls in 30 days are 125 in this time."""


@pytest.fixture(autouse=True)
def _seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what happens each second every ten seconds, because hours have many of them."""
    for constant in ("polling.schedule._EXPIRY_INTERVAL", "exposition.store._REST_SECONDS"):
        monkeypatch.setattr(f"trainfleet_exporter.{constant}", 10.0)


def _interval(here: Site, provider: str, collector: str = "jobs") -> float | None:
    return here.own("collector_interval_seconds", provider=provider, collector=collector)


async def test_some_hours_have_their_part_of_the_allowed_calls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Five calls a minute want 216,000 in 30 days."""

    async with site(tmp_path, config(limited("a", 30_000)), caplog) as here:
        await asyncio.sleep(_HOURS)
        assert 120 <= here.world.calls["a"] <= 130
        assert _interval(here, "a") == _interval(here, "a", "pods") == pytest.approx(60 * 7.2)
        assert here.own("api_budget_calls", provider="a", api="dlc") == 30_000


async def test_providers_of_an_account_share_its_calls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = config("name: a, account: main", limited("b", 30_000, "account: main, "), limited("c", 30_000))

    async with site(tmp_path, text, caplog) as here:
        await asyncio.sleep(_HOURS)
        assert 120 <= here.world.calls["a"] + here.world.calls["b"] <= 135
        assert 120 <= here.world.calls["c"] <= 130
        assert _interval(here, "a") == pytest.approx(2 * (_interval(here, "c") or 0))


async def test_a_reload_changes_the_pace_of_its_account_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with site(tmp_path, config(limited("a", 21_600), limited("b", 21_600)), caplog) as here:
        await asyncio.sleep(30)
        kept = here.runner("b")
        assert (await here.reload(config(limited("a", 43_200), limited("b", 21_600)))).success
        await asyncio.sleep(30)
        assert _interval(here, "a") == pytest.approx(300)
        assert here.own("api_budget_calls", provider="a", api="dlc") == 43_200
        assert here.runner("b") is kept
        assert _interval(here, "b") == pytest.approx(600)
        await asyncio.sleep(500)
        assert here.world.calls == {"a": 15, "b": 5}  # one more poll of `a`; `b` keeps what it has learnt


async def test_a_removed_provider_leaves_its_calls_to_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = limited("b", 43_200, "account: main, ")

    async with site(tmp_path, config("name: a, account: main", shared), caplog) as here:
        await asyncio.sleep(30)
        assert _interval(here, "b") == pytest.approx(600)
        assert (await here.reload(config(shared))).success
        await asyncio.sleep(1200)
        assert _interval(here, "b") == pytest.approx(300)
        assert here.world.built["b"] == 1
