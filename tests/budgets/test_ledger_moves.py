"""The record of all budgets when it changes hands: between holders, between files, between writers."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path

import pytest

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock, file, month, opened, spend
from tests.support.clock import run_stepped
from trainfleet_exporter.budgets import state_file as state_file_module
from trainfleet_exporter.config import AccountKey

MAIN, OTHER = AccountKey("account", "main"), AccountKey("account", "other")
DECEMBER = month("2025-12")


def recorded(path: Path) -> dict[str, int]:
    """What a file says, by account and API."""
    rows = json.loads(path.read_text())["spent"]
    return {f"{row['account']}/{row['api']}": row["calls"] for row in rows}


class Kept:
    """A ledger from January's start, whose file is in an empty folder."""

    def __init__(self, folder: Path, *, owned: bool = True) -> None:
        self.path = folder / "state.json"
        self.clock = Clock(JANUARY.starts)
        self.ledger = opened(self.path, self.clock, owned=owned)

    def spend(self, calls: int, *, holder: AccountKey = MAIN, api: str = "dlc") -> None:
        assert spend(self.ledger.budget(holder, api, 1000), calls) == calls


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_ledger_without_ownership_only_reads_and_warns(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    kept.spend(5)
    kept.ledger.close()
    before = kept.path.read_bytes()
    guest = Kept(kept.path.parent, owned=False)
    assert guest.ledger.budget(MAIN, "dlc", 1000).remaining == 995
    guest.spend(50)
    guest.ledger.write_soon()
    guest.ledger.close()
    assert kept.path.read_bytes() == before
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "another exporter keeps the state file: calls of this one are not added to what was spent"
    ]


def test_same_budget_again_writes_nothing(kept: Kept) -> None:
    budget = kept.ledger.budget(MAIN, "dlc", 1000)
    spend(budget, 4)
    kept.path.unlink()
    assert kept.ledger.budget(MAIN, "dlc", 2000) is budget
    assert (budget.calls, budget.remaining) == (2000, 1996)
    assert kept.ledger.draft(MAIN, "dlc", 5) is budget
    assert budget.calls == 2000
    spend(budget, 1)  # within what is written ahead
    assert not kept.path.exists()


def test_draft_has_no_owner_until_it_is_adopted(kept: Kept) -> None:
    draft = kept.ledger.draft(MAIN, "dlc", 1000)
    spend(draft, 5)
    assert kept.ledger.spent(MAIN) == {}
    assert not kept.path.exists()
    kept.ledger.adopt(MAIN, draft, 500)
    assert (draft.calls, kept.ledger.spent(MAIN)) == (500, {"dlc": {JANUARY.name: 5}})
    spend(draft, 1)
    assert recorded(kept.path)["main/dlc"] >= 6


def test_record_is_listed_by_holder(kept: Kept) -> None:
    kept.spend(3)
    kept.spend(4, api="aom")
    kept.spend(5, holder=OTHER)
    kept.ledger.add(OTHER, "aom", {JANUARY.name: 7})
    assert kept.ledger.spent(MAIN) == {"dlc": {JANUARY.name: 3}, "aom": {JANUARY.name: 4}}
    assert kept.ledger.spent(OTHER) == {"dlc": {JANUARY.name: 5}, "aom": {JANUARY.name: 7}}


def test_calls_of_another_account_are_added_in_any_state(kept: Kept) -> None:
    kept.spend(3)
    kept.ledger.add(MAIN, "dlc", {JANUARY.name: 4, DECEMBER.name: 1})
    assert kept.ledger.spent(MAIN) == {"dlc": {JANUARY.name: 7, DECEMBER.name: 1}}
    for calls, known in ((5, 5), (2, 7), (-3, 4), (-9, 0)):
        kept.ledger.add(OTHER, "dlc", {JANUARY.name: calls})
        assert kept.ledger.spent(OTHER) == {"dlc": {JANUARY.name: known}}


def test_added_calls_go_by_month_and_never_below_zero(kept: Kept) -> None:
    budget = kept.ledger.budget(MAIN, "dlc", 1000)
    kept.ledger.add(MAIN, "dlc", {JANUARY.name: 10})
    kept.spend(2)
    kept.ledger.add(MAIN, "dlc", {JANUARY.name: 5, DECEMBER.name: 3})
    assert budget.spent == {JANUARY.name: 17, DECEMBER.name: 3}
    kept.ledger.add(MAIN, "dlc", {DECEMBER.name: -2})
    assert budget.spent == {JANUARY.name: 17, DECEMBER.name: 1}
    kept.ledger.add(MAIN, "dlc", {JANUARY.name: -100, DECEMBER.name: -100, "2026-02": -1})
    assert budget.spent == {JANUARY.name: 0, DECEMBER.name: 0, "2026-02": 0}
    assert budget.remaining == 1000


def test_what_another_file_knows_of_at_least_is_no_sum(kept: Kept) -> None:
    budget = kept.ledger.budget(MAIN, "dlc", 1000)
    for january, december in ((12, 3), (7, 2)):
        kept.ledger.move(file(None), {(MAIN, "dlc"): {JANUARY.name: january, DECEMBER.name: december}})
        assert budget.spent == {JANUARY.name: 12, DECEMBER.name: 3}
    assert budget.remaining == 988


@pytest.mark.parametrize(("known", "certain"), [(300, 300), (800, 800), (4, 10)])
def test_assumed_share_is_taken_back_from_no_known_calls(kept: Kept, known: int, certain: int) -> None:
    kept.clock.pass_(15 * DAY)
    budget = kept.ledger.budget(MAIN, "dlc", 1000)
    assumed = budget.spent[JANUARY.name]
    assert assumed > 400
    kept.spend(10)
    kept.ledger.move(file(None), {(MAIN, "dlc"): {JANUARY.name: known}})
    assert budget.spent == {JANUARY.name: max(known, assumed + 10)}
    budget.assume_nothing()
    assert budget.spent == {JANUARY.name: certain}


def test_forgotten_provider_is_removed_from_every_record(kept: Kept) -> None:
    for holder in (MAIN, OTHER):
        kept.spend(3, holder=holder)
        kept.ledger.add(holder, "aom", {JANUARY.name: 4})
    kept.ledger.forget(MAIN)
    assert kept.ledger.spent(MAIN) == {}
    assert kept.ledger.spent(OTHER) == {"dlc": {JANUARY.name: 3}, "aom": {JANUARY.name: 4}}
    kept.ledger.close()
    assert recorded(kept.path) == {"other/aom": 4, "other/dlc": 3}


def test_record_is_kept_exactly_one_day_after_its_month(kept: Kept) -> None:
    kept.ledger.add(MAIN, "dlc", {JANUARY.name: 4, DECEMBER.name: 1})
    kept.clock.pass_(DAY - 0.5)
    kept.ledger.retire(set())
    assert kept.ledger.spent(MAIN) == {"dlc": {JANUARY.name: 4, DECEMBER.name: 1}}
    kept.clock.pass_(0.5)
    kept.ledger.retire(set())
    assert kept.ledger.spent(MAIN) == {"dlc": {JANUARY.name: 4}}


def test_a_budget_that_was_retired_has_nothing_written_any_more(kept: Kept) -> None:
    budget = kept.ledger.budget(MAIN, "dlc", 1000)
    spend(budget, 1)
    kept.ledger.retire(set())
    kept.path.unlink()
    spend(budget, 50)  # a call that was under way
    assert not kept.path.exists()
    assert kept.ledger.spent(MAIN) == {"dlc": {JANUARY.name: 1}}


def test_move_writes_the_old_file_and_takes_the_larger_counts(kept: Kept, tmp_path: Path) -> None:
    kept.spend(5)
    kept.spend(9, api="aom")
    kept.ledger.add(OTHER, "dlc", {JANUARY.name: 3})
    other = tmp_path / "other.json"
    known = {
        (MAIN, "dlc"): {JANUARY.name: 100},
        (MAIN, "aom"): {JANUARY.name: 2},
        (OTHER, "dlc"): {JANUARY.name: 1, DECEMBER.name: 8},
    }
    leave = kept.ledger.move(file(other), known)
    assert not other.exists()
    assert recorded(kept.path)["main/dlc"] > 5  # what was written ahead
    leave()
    assert recorded(kept.path) == {"main/dlc": 5, "main/aom": 9, "other/dlc": 3}
    assert kept.ledger.spent(MAIN) == {"dlc": {JANUARY.name: 100}, "aom": {JANUARY.name: 9}}
    assert kept.ledger.spent(OTHER) == {"dlc": {JANUARY.name: 3, DECEMBER.name: 8}}
    kept.spend(1)
    assert recorded(other)["main/dlc"] >= 101
    kept.ledger.close()
    assert recorded(other)["main/dlc"] == 101
    assert recorded(kept.path)["main/dlc"] == 5


@pytest.mark.parametrize("owned", [True, False])
def test_move_to_no_file_or_an_unowned_one_writes_nothing(kept: Kept, tmp_path: Path, owned: bool) -> None:
    kept.spend(5)
    other = tmp_path / "other.json"
    kept.ledger.move(file(None if owned else other, owned=owned), {})()
    kept.spend(50)
    kept.ledger.write_soon()
    kept.ledger.close()
    assert recorded(kept.path) == {"main/dlc": 5}
    assert not other.exists()


def test_a_month_of_which_another_file_knows_no_call_has_none(kept: Kept, tmp_path: Path) -> None:
    kept.ledger.move(file(tmp_path / "other.json"), {(OTHER, "dlc"): {JANUARY.name: 0}})
    assert kept.ledger.spent(OTHER) == {"dlc": {JANUARY.name: 0}}


def test_what_is_written_soon_is_written_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = state_file_module._replace
    threads: list[threading.Thread] = []

    def watched(path: Path, data: bytes) -> None:
        threads.append(threading.current_thread())
        replaced(path, data)

    monkeypatch.setattr(state_file_module, "_replace", watched)

    async def main() -> None:
        kept = Kept(tmp_path)
        kept.ledger.add(MAIN, "dlc", {JANUARY.name: 3})
        kept.ledger.write_soon()
        await asyncio.sleep(1)
        assert recorded(kept.path) == {"main/dlc": 3}

    run_stepped(main)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_where_nothing_is_on_record_no_file_is_made(kept: Kept) -> None:
    kept.ledger.write_soon()
    kept.ledger.close()
    assert not kept.path.exists()
    kept.ledger.add(MAIN, "dlc", {JANUARY.name: 3})
    kept.ledger.write_soon()
    assert recorded(kept.path) == {"main/dlc": 3}


def test_a_drafted_budget_alone_is_reason_enough_to_write(kept: Kept) -> None:
    kept.ledger.budget(MAIN, "dlc", 1000)
    kept.ledger.write_soon()
    assert recorded(kept.path) == {"main/dlc": 0}


def test_each_new_write_failure_is_logged_once(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replaced = state_file_module._replace

    def fail(path: Path, data: bytes) -> None:
        raise OSError

    def spend_for_hours() -> None:
        for _ in range(3):
            kept.clock.pass_(HOUR)
            kept.spend(20)

    for time in (1, 2):
        monkeypatch.setattr(state_file_module, "_replace", fail)
        spend_for_hours()
        reported = [record.message for record in caplog.records]
        why = "the state file cannot be written, so a restart may not know what was spent: OSError"
        assert reported == [why] * time
        monkeypatch.setattr(state_file_module, "_replace", replaced)
        spend_for_hours()
