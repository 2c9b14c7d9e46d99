"""Month by month a backfill draws on what is left, however often its command is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backfill.rig import MIDNIGHT, Rig, simulated
from trainfleet_exporter.backfill.command import Wish, backfill
from trainfleet_exporter.backfill.work import Unfinished
from trainfleet_exporter.budgets import StateFile, read_state
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.providers.history import DAY, Range
from trainfleet_exporter.providers.registry import installed_platforms

EVENING = Range(MIDNIGHT + DAY - 3600, MIDNIGHT + DAY)
BUDGET = 12
HOLDER = AccountKey("provider", "sim-pai-hangzhou"), "cloudmonitor"


def _with_budget(text: str) -> str:
    return text.replace(
        "      concurrency: 8\n", f"      concurrency: 8\n      monthly_calls: {{cloudmonitor: {BUDGET}}}\n"
    )


def _calls(rig: Rig) -> int:
    calls = rig.simulator._cloud.truth.show(0.0)["calls"].get("cloudmonitor", {})
    return sum(sum(outcomes.values()) for outcomes in calls.values())


async def _until_it_is_spent(rig: Rig, out: Path) -> None:
    for _ in range(3):
        with pytest.raises(Unfinished, match=r"monthly_calls\) are spent"):
            await rig.backfill(out, EVENING)


def test_the_same_command_begins_with_what_it_left(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        await _until_it_is_spent(rig, tmp_path / "out")
        # A day of thirty-one had passed before anything was known.
        assert 0 < _calls(rig) < BUDGET

    simulated("pai", work, tmp_path, change=_with_budget)


def test_backfill_spending_counts_next_to_a_running_daemon(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    row = '{"provider": "sim-pai-hangzhou", "api": "cloudmonitor", "month": "2026-01", "calls": 5}'
    path.write_text(f'{{"version": 1, "spent": [{row}]}}', "utf-8")

    def change(text: str) -> str:
        return _with_budget(text).replace("global:\n", f"global:\n  state_file: {path}\n")

    async def work(rig: Rig) -> None:
        daemon = StateFile(path)
        assert daemon.owned
        await _until_it_is_spent(rig, tmp_path / "out")
        assert _calls(rig) == BUDGET - 5
        (spent,) = read_state(path)[HOLDER].values()
        assert spent == 5
        daemon.release()
        with pytest.raises(Unfinished):
            await rig.backfill(tmp_path / "out", EVENING)
        (spent,) = read_state(path)[HOLDER].values()
        assert spent == BUDGET
        # And once it is calls, it does not count twice.
        with pytest.raises(Unfinished):
            await rig.backfill(tmp_path / "out", EVENING)
        (spent,) = read_state(path)[HOLDER].values()
        assert spent == BUDGET
        assert _calls(rig) == BUDGET - 5

    simulated("pai", work, tmp_path, change=change)


def test_daemon_started_during_backfill_gets_its_state_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    free: list[bool] = []

    def look(_: str) -> None:
        daemon = StateFile(path)
        free.append(daemon.owned)
        daemon.release()

    async def work(rig: Rig) -> None:
        wish = Wish(provider=rig.provider, wanted=Range(EVENING.start, EVENING.start + 600), out=tmp_path / "out")
        await backfill(wish, rig.config, installed_platforms(), say=look)

    simulated("pai", work, tmp_path, change=lambda text: text.replace("global:\n", f"global:\n  state_file: {path}\n"))
    assert len(free) >= 2
    assert all(free)
