"""One process keeps the state file; a second one only reads it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.budgets.rig import JANUARY, Clock, opened, spend
from tests.support.logs import lines_of
from trainfleet_exporter.budgets import Ledger, StateFile
from trainfleet_exporter.budgets.state_file import state_page
from trainfleet_exporter.config import AccountKey

HOLDER = AccountKey("account", "main")


def test_the_second_comes_too_late_until_the_first_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first, second = StateFile(path), StateFile(path)
    assert (first.owned, second.owned) == (True, False)
    second.release()
    first.release()
    first.release()
    third = StateFile(path)
    assert third.owned
    third.release()


def test_a_process_that_dies_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    code = f"import os; from trainfleet_exporter.budgets import StateFile; from pathlib import Path\n\
assert StateFile(Path({os.fspath(path)!r})).owned; os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    ownership = StateFile(path)
    assert ownership.owned
    ownership.release()


def test_read_only_folder_locks_no_process_out(tmp_path: Path) -> None:
    ownership = StateFile(tmp_path / "missing" / "state.json")
    assert ownership.owned
    ownership.release()


def test_the_holder_of_a_lease_owns_the_file_as_soon_as_it_is_free(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    before = StateFile(path)
    ledger = Ledger(clock=clock.watched())
    ledger.take_over(StateFile(path), {}, written_in=None, term=2)
    budget = ledger.budget(HOLDER, "dlc", 1000)
    assert spend(budget, 20) == 20
    assert not path.exists()
    before.release()
    assert spend(budget, 1) == 1
    state = json.loads(path.read_text())
    assert (state["term"], state["spent"][0]["calls"] >= 21) == (2, True)
    assert not StateFile(path).owned
    assert "state file acquired; calls of this process are recorded" in [
        record.getMessage() for record in caplog.records
    ]
    ledger.close()
    assert json.loads(path.read_text())["spent"][0]["calls"] == 21


def test_a_process_without_a_lease_does_not_own_the_file_later(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    daemon = StateFile(path)
    once = Ledger(StateFile(path), clock=clock.watched())
    budget = once.budget(HOLDER, "dlc", 1000)
    daemon.release()
    assert spend(budget, 20) == 20
    once.close()
    assert not path.exists()


@pytest.mark.parametrize(("other", "kept"), [(1, False), (2, False), (3, True)])
def test_the_last_page_of_an_earlier_term_is_not_written(tmp_path: Path, other: int, kept: bool) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    ledger = Ledger(clock=clock.watched())
    ledger.take_over(StateFile(path), {}, written_in=None, term=2)
    spend(ledger.budget(HOLDER, "dlc", 1000), 20)
    page = state_page({(HOLDER, "dlc"): {JANUARY.name: 500}}, term=other)
    path.write_bytes(page)
    ledger.close()
    assert (path.read_bytes() == page) is kept


def test_unowned_file_is_read_and_left_unchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    kept = opened(path, clock)
    assert spend(kept.budget(HOLDER, "dlc", 1000), 100) == 100
    kept.close()
    before = path.read_bytes()
    beside = opened(path, clock, owned=False)
    budget = beside.budget(HOLDER, "dlc", 1000)
    assert budget.remaining == 900
    assert spend(budget, 50) == 50
    beside.close()
    assert path.read_bytes() == before
    assert lines_of(caplog.records) == [
        f"another exporter owns the state file; calls of this process are not recorded file={path}"
    ]
