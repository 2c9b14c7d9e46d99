"""Upgrade and downgrade: state files and ledgers as release 0.1.0 wrote them, and what it reads of today's."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tests.budgets.rig import JANUARY, Clock, opened, spend
from trainfleet_exporter.budgets.state_file import read_state, read_term, state_page
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.job_ledger.report import read_ledger

HOLDER = AccountKey("account", "main")
_STATE = """{
 "version": 1,
 "spent": [
  {
   "account": "main",
   "api": "dlc",
   "month": "2026-01",
   "calls": 100
  }
 ]
}
"""
_LINE = (
    '{"provider":"p","platform":"alibaba_pai","job_id":"dlc1","status":"succeeded","created":"2026-01-02T00:00:00Z",'
    '"ended":"2026-01-02T02:00:00Z","seen":"2026-01-02T02:00:30Z","phase_seconds":{"running":7000.0},'
    '"held_seconds":7200.0,"accelerators":[{"kind":"gpu","model":"GU8T","count":8.0}]}\n'
)


def test_a_state_file_of_0_1_0_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(_STATE, "utf-8")
    spent = read_state(path)
    assert {key: dict(months) for key, months in spent.items()} == {(HOLDER, "dlc"): {"2026-01": 100}}
    assert read_term(path) == 0
    kept = opened(path, Clock(JANUARY.starts))
    assert kept.budget(HOLDER, "dlc", 1000).remaining == 900
    kept.close()


def test_0_1_0_reads_the_state_file_of_today(tmp_path: Path) -> None:
    """It reads `version`, `part` and `spent`, and passes over other keys, such as the term of a lease."""
    spent = {(HOLDER, "dlc"): {"2026-01": 100}}
    assert json.loads(state_page(spent)) == json.loads(_STATE)
    of_a_lease = json.loads(state_page(spent, term=3))
    assert of_a_lease == {**json.loads(_STATE), "term": 3}


def test_a_downgrade_under_a_lease_is_noticed(tmp_path: Path) -> None:
    """0.1.0 writes no term. So a leader of today does not take its file for that of the term before."""
    path = tmp_path / "state.json"
    path.write_bytes(state_page({(HOLDER, "dlc"): {"2026-01": 100}}, term=3))
    assert read_term(path) == 3
    path.write_text(_STATE, "utf-8")
    assert read_term(path) == 0
    kept = opened(path, Clock(JANUARY.starts))
    assert spend(kept.budget(HOLDER, "dlc", 1000), 50) == 50
    kept.close()
    ((_, months),) = read_state(path).items()
    assert months == {"2026-01": 150}


def test_a_ledger_of_0_1_0_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(_LINE, "utf-8")
    (job,), _ = read_ledger(path, datetime(2026, 1, 1, tzinfo=UTC))
    assert (job.job_id, job.held_seconds, job.accelerators[0].count) == ("dlc1", 7200.0, 8.0)
