"""One process keeps the state file; one that runs beside it reads it only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transport.test_budget import JANUARY, Clock, spend
from trainfleet_exporter.transport import Ownership
from trainfleet_exporter.transport.ledger import Holder, Ledger

HOLDER = Holder("account", "main")


def test_the_second_comes_too_late_until_the_first_gives_up(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first, second = Ownership(path), Ownership(path)
    assert (first.had, second.had) == (True, False)
    second.release()
    first.release()
    first.release()
    third = Ownership(path)
    assert third.had
    third.release()


def test_a_process_that_dies_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    code = f"import os; from trainfleet_exporter.transport import Ownership; from pathlib import Path\n\
assert Ownership(Path({os.fspath(path)!r})).had; os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -9
    ownership = Ownership(path)
    assert ownership.had
    ownership.release()


def test_a_folder_that_takes_no_files_keeps_nobody_out(tmp_path: Path) -> None:
    ownership = Ownership(tmp_path / "missing" / "state.json")
    assert ownership.had
    ownership.release()


def test_who_does_not_keep_the_file_knows_what_was_spent_and_leaves_it_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    kept = Ledger(path, calendar=clock.calendar())
    assert spend(kept.budget(HOLDER, "dlc", 1000), 100) == 100
    kept.close()
    before = path.read_bytes()
    beside = Ledger(path, owned=False, calendar=clock.calendar())
    budget = beside.budget(HOLDER, "dlc", 1000)
    assert budget.remaining == 900
    assert spend(budget, 50) == 50
    beside.close()
    assert path.read_bytes() == before
    assert [record.getMessage() for record in caplog.records] == [
        "another exporter keeps the state file: calls of this one are not added to what was spent"
    ]
