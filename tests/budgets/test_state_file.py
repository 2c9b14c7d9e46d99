"""One process keeps the state file; a second one only reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.budgets.rig import JANUARY, Clock, opened, spend
from trainfleet_exporter.budgets import StateFile
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
    assert [record.getMessage() for record in caplog.records] == [
        "another exporter keeps the state file: calls of this one are not added to what was spent"
    ]
