"""The state file: what was spent comes back, at least, whatever happened to the process or to the file."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budgets.rig import DAY, HOUR, JANUARY, Clock, opened, spend
from tests.support.clock import run_stepped
from trainfleet_exporter.budgets import state_file as state_file_module
from trainfleet_exporter.config import AccountKey

MAIN = AccountKey("account", "main")
LONELY = AccountKey("provider", "main")  # not the account of that name
START = JANUARY.starts + 10 * DAY
ASSUMED = "the month's elapsed share of each budget counts as spent"
NAMES = st.text(min_size=1, max_size=8)


def _rows(path: Path) -> list[dict[str, Any]]:
    page = json.loads(path.read_text())
    assert page["version"] == 1
    rows: list[dict[str, Any]] = page["spent"]
    return rows


def _write(path: Path, *rows: dict[str, Any], version: object = 1) -> None:
    path.write_text(json.dumps({"version": version, "spent": list(rows)}))


def test_what_was_spent_survives_a_clean_stop_exactly(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    ledger = opened(path, clock)
    for holder, api, calls in ((MAIN, "dlc", 7), (MAIN, "cloudmonitor", 20), (LONELY, "dlc", 3)):
        assert spend(ledger.budget(holder, api, 1000), calls) == calls
    ledger.close()
    assert _rows(path) == [
        {"account": "main", "api": "dlc", "month": "2026-01", "calls": 7},
        {"account": "main", "api": "cloudmonitor", "month": "2026-01", "calls": 20},
        {"provider": "main", "api": "dlc", "month": "2026-01", "calls": 3},
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
    again = opened(path, clock)
    assert again.budget(MAIN, "cloudmonitor", 1000).remaining == 980
    assert again.budget(LONELY, "dlc", 1000).remaining == 997


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["account", "provider"]), NAMES, NAMES),
        st.integers(min_value=0, max_value=50),
        max_size=5,
    )
)
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, spent: dict[tuple[str, str, str], int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        path, clock = tmp_path_factory.mktemp("state") / "state.json", Clock(JANUARY.starts)
        ledger = opened(path, clock)
        for (kind, name, api), calls in spent.items():
            spend(ledger.budget(AccountKey(kind, name), api, 1000), calls)
        ledger.close()
        again = opened(path, clock)
        for (kind, name, api), calls in spent.items():
            assert again.budget(AccountKey(kind, name), api, 1000).remaining == 1000 - calls


@given(st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=10))
def test_a_crash_never_forgets_a_call(tmp_path_factory: pytest.TempPathFactory, bursts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        path, clock = tmp_path_factory.mktemp("state") / "state.json", Clock(JANUARY.starts)
        budget = opened(path, clock).budget(MAIN, "dlc", 100_000)
        made = 0
        for burst in bursts:
            clock.pass_(30)
            for _ in range(burst):
                budget.take()
                made += 1
                # As if it ended here, in the very moment in which the call is sent.
                (row,) = _rows(path)
                assert made <= row["calls"] <= made + 20


def test_unknown_month_counts_the_elapsed_share_as_spent(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(START)
    assert opened(path, clock).budget(MAIN, "dlc", 31_000).remaining == 21_000
    _write(path, {"account": "main", "api": "dlc", "month": "2025-12", "calls": 5})
    assert opened(path, clock).budget(MAIN, "dlc", 31_000).remaining == 21_000
    _write(path, {"account": "main", "api": "dlc", "month": "2026-01", "calls": 5})
    assert opened(path, clock).budget(MAIN, "dlc", 31_000).remaining == 30_995


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "\x00\xff",
        '{"version": 2, "spent": []}',
        '{"version": 1, "spent": {}}',
        '{"version": 1, "spent": [7]}',
        '{"version": 1, "spent": [{}]}',
        '{"version": 1, "spent": [{"account": "main", "api": "dlc", "month": "2026-01"}]}',
        '{"version": 1, "spent": [{"account": "main", "api": "dlc", "month": "2026-01", "calls": -1}]}',
        '{"version": 1, "spent": [{"account": "main", "api": "dlc", "month": "2026-01", "calls": true}]}',
        '{"version": 1, "spent": [{"account": "main", "api": "dlc", "month": "2026-01", "calls": 1e400}]}',
        '{"version": 1, "spent": [{"account": "main", "api": "dlc", "month": "January", "calls": 1}]}',
        '{"version": 1, "spent": [{"account": 1, "api": "dlc", "month": "2026-01", "calls": 1}]}',
        '{"version": 1, "spent": [{"account": "a", "provider": "b", "api": "c", "month": "2026-01", "calls": 1}]}',
        "[" * 100_000,
        " " * 1_000_001,
    ],
    ids=range(18),
)
def test_invalid_file_is_one_warning_and_the_elapsed_share(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path, clock = tmp_path / "state.json", Clock(START)
    path.write_text(text)
    ledger = opened(path, clock)
    budget = ledger.budget(MAIN, "dlc", 31_000)
    assert budget.remaining == 21_000
    assert [(record.levelname, record.message) for record in caplog.records] == [
        (
            "WARNING",
            f"the state file cannot be used; {ASSUMED}: it is not what the exporter wrote",
        )
    ]
    spend(budget, 1)
    ledger.close()
    assert _rows(path)[0]["calls"] == 10_001


def test_a_file_that_cannot_be_read_is_a_warning_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state.json").mkdir()
    budget = opened(tmp_path / "state.json", Clock(START)).budget(MAIN, "dlc", 31_000)
    assert budget.remaining == 21_000
    assert "counts as spent: Is a directory" in caplog.text


def test_unwritable_file_is_logged_once_and_stops_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, clock = tmp_path / "state", Clock(JANUARY.starts)
    folder.mkdir()
    ledger = opened(folder / "state.json", clock)
    budget = ledger.budget(MAIN, "dlc", 10_000)
    folder.rmdir()
    for _ in range(100):
        clock.pass_(60)
        assert spend(budget, 10) == 10
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No such file or directory" in caplog.text
    folder.mkdir()
    ledger.close()
    assert _rows(folder / "state.json")[0]["calls"] == 1000


def test_a_writing_that_fails_half_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    _write(path, {"account": "main", "api": "dlc", "month": "2026-01", "calls": 5})
    before = path.read_text()
    budget = opened(path, clock).budget(MAIN, "dlc", 10_000)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    spend(budget, 1)
    assert path.read_text() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_what_a_crash_left_half_written_is_no_hindrance(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.starts)
    (tmp_path / ".state.json.new").write_text('{"vers')
    ledger = opened(path, clock)
    spend(ledger.budget(MAIN, "dlc", 1000), 5)
    ledger.close()
    assert _rows(path)[0]["calls"] == 5
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_removed_accounts_are_kept_until_their_month_ends(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(START)
    _write(
        path,
        {"account": "gone", "api": "dlc", "month": "2026-01", "calls": 5},
        {"account": "also gone", "api": "aom", "month": "2026-01", "calls": 6},
        {"account": "main", "api": "dlc", "month": "2025-12", "calls": 7},
    )
    ledger = opened(path, clock)
    budget = ledger.budget(MAIN, "dlc", 1000)
    spend(budget, 1)
    ledger.close()
    assert [(row["account"], row["month"]) for row in _rows(path)] == [
        ("gone", "2026-01"),
        ("also gone", "2026-01"),
        ("main", "2026-01"),
    ]
    clock.pass_(JANUARY.ends - clock.wall + DAY + HOUR)
    spend(budget, 3)
    ledger.close()
    assert _rows(path) == [{"account": "main", "api": "dlc", "month": "2026-02", "calls": 3}]


def test_unused_budget_keeps_its_record_until_the_month_ends(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(START)
    _write(path, {"account": "gone", "api": "dlc", "month": "2026-01", "calls": 5})
    ledger = opened(path, clock)
    for holder in (MAIN, LONELY):
        spend(ledger.budget(holder, "dlc", 31_000), 1)
    retired = weakref.ref(ledger.budget(LONELY, "dlc", 31_000))
    ledger.retire({(MAIN, "dlc")})
    assert retired() is None
    assert ledger.spent(LONELY) == {"dlc": {JANUARY.name: 10_001}}
    ledger.close()
    assert [row["calls"] for row in _rows(path)] == [5, 10_001, 10_001]
    assert ledger.budget(LONELY, "dlc", 31_000).remaining == 20_999  # come back it is where it was
    clock.pass_(JANUARY.ends - clock.wall + HOUR)
    ledger.retire({(MAIN, "dlc")})
    assert JANUARY.name in ledger.spent(LONELY)["dlc"]  # the clock may be set back
    clock.pass_(DAY)
    ledger.retire({(MAIN, "dlc")})
    assert JANUARY.name not in ledger.spent(LONELY)["dlc"]
    assert ledger.spent(AccountKey("account", "gone")) == {}


def test_file_is_written_even_if_no_thread_can_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"

    async def main() -> None:
        waiting: list[Callable[[], str]] = []

        def none(_: None, write: Callable[..., str], *page: object) -> None:
            waiting.append(partial(write, *page))  # as an executor does, although it says that it cannot
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", none)
        budget = opened(path).budget(MAIN, "dlc", 400_000)
        for made in range(1, 101):
            budget.take()
            await asyncio.sleep(6)
            assert made <= _rows(path)[0]["calls"] <= made + 100
        path.unlink()
        for write in waiting:
            write()
        assert waiting
        assert not path.exists()  # none is written twice

    run_stepped(main, start=JANUARY.starts)


def test_in_a_loop_it_is_written_by_a_thread_in_good_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    threads: list[bool] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        threads.append(threading.current_thread() is not threading.main_thread())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)

    async def main() -> None:
        ledger = opened(path)
        budget = ledger.budget(MAIN, "dlc", 400_000)
        for made in range(1, 301):
            budget.take()
            await asyncio.sleep(6)
            assert made <= _rows(path)[0]["calls"] <= made + 100
        ledger.close()
        assert _rows(path)[0]["calls"] == 300

    run_stepped(main, start=JANUARY.starts)
    assert threads.count(True) > 5
    assert threads.count(False) == 4  # the first call's page and the last, each with its folder


def test_slow_disk_writes_no_more_calls_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, released = tmp_path / "state.json", threading.Event()
    replace = state_file_module._replace

    def slow(where: Path, data: bytes) -> None:
        if threading.current_thread() is not threading.main_thread():
            released.wait(10)
        replace(where, data)

    async def main() -> None:
        ledger = opened(path, Clock(JANUARY.starts))
        budget = ledger.budget(MAIN, "dlc", 400_000)
        assert spend(budget, 40) == 40  # a thread will be asked for more by the next call
        monkeypatch.setattr(state_file_module, "_replace", slow)
        assert spend(budget, 10) == 10
        assert budget.bounds[JANUARY.name] == 50 + 80
        released.set()

    asyncio.run(main())
    assert 50 <= _rows(path)[0]["calls"] <= 50 + 80


def test_the_turn_of_the_month_between_two_looks_is_written_too(tmp_path: Path) -> None:
    path, clock = tmp_path / "state.json", Clock(JANUARY.ends - 1)
    ledger = opened(path, clock)
    first, second = (ledger.budget(MAIN, api, 1000) for api in ("dlc", "aom"))
    spend(second, 1)
    clock.pass_(2)
    spend(first, 1)
    ledger.close()
    assert [(row["api"], row["month"], row["calls"]) for row in _rows(path)] == [
        ("dlc", "2026-01", 1000),
        ("dlc", "2026-02", 1),
        ("aom", "2026-01", 1000),
        ("aom", "2026-02", 0),
    ]


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = opened(None, Clock(JANUARY.starts))
    assert spend(ledger.budget(MAIN, "dlc", 1000), 50) == 50
    ledger.close()
    assert list(tmp_path.iterdir()) == []
