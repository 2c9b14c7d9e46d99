"""How the state file is written: whole and to the disk, by one thread at a time, and for the file that is kept now."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.budgets.rig import JANUARY, file, spend
from tests.budgets.test_ledger_moves import MAIN, Kept, recorded
from trainfleet_exporter.budgets import state_file as state_file_module

FSYNC = os.fsync


class Slow:
    """Threads that write wait to be let go; the main thread does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._replace = state_file_module._replace
        self._go = threading.Event()
        self.wrote = 0
        monkeypatch.setattr(state_file_module, "_replace", self._slow)

    def _slow(self, path: Path, data: bytes) -> None:
        if threading.current_thread() is not threading.main_thread():
            self._go.wait(10)
            self.wrote += 1
        self._replace(path, data)

    async def let_go(self) -> None:
        """Let those that wait write, until they have."""
        self._go.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        for _ in range(3):
            await asyncio.sleep(0)


def test_page_and_name_are_synced_before_the_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    synced: list[tuple[bool, int, bool]] = []
    descriptors: list[int] = []

    def watched(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((stat.S_ISDIR(status.st_mode), status.st_size, path.exists()))
        descriptors.append(descriptor)
        FSYNC(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    Kept(tmp_path).spend(1)
    (page, folder) = synced
    assert page == (False, path.stat().st_size, False)
    assert (folder[0], folder[2]) == (True, True)
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)  # closed again


@pytest.mark.parametrize("gone", [False, True])
def test_lost_page_is_logged_with_the_first_failure(
    gone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            return
        if gone:
            (tmp_path / ".state.json.new").unlink()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    Kept(tmp_path).spend(1)
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == ["Input/output error"]
    assert list(tmp_path.iterdir()) == []


def test_while_a_thread_writes_no_other_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def main() -> None:
        kept = Kept(tmp_path)
        kept.ledger.add(MAIN, "dlc", {JANUARY.name: 3})
        for _ in range(5):
            kept.ledger.write_soon()
        await slow.let_go()
        assert slow.wrote == 1

    asyncio.run(main())


def test_internal_error_in_the_writing_thread_spares_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    troubles: list[object] = []

    def fail(path: Path, data: bytes) -> None:
        raise KeyError

    monkeypatch.setattr(state_file_module, "_replace", fail)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context))
        kept = Kept(tmp_path)
        kept.ledger.add(MAIN, "dlc", {JANUARY.name: 3})
        kept.ledger.write_soon()
        await loop.shutdown_default_executor()
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert troubles == []


def test_late_write_to_the_old_file_is_not_in_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, other = Slow(monkeypatch), tmp_path / "other.json"

    async def main() -> None:
        kept = Kept(tmp_path)
        budget = kept.ledger.budget(MAIN, "dlc", 100_000)
        spend(budget, 11)  # for the last of which a thread is asked for a page of more
        kept.ledger.move(file(other), {})
        await slow.let_go()
        assert slow.wrote == 1
        spend(budget, 1)
        assert recorded(other)["main/dlc"] >= 12

    asyncio.run(main())
