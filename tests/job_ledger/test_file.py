"""The file of the ledger: one line for each ended job, whatever happens to the disk or to the process."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.job_ledger.rig import ended
from tests.support.logs import line_of
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.job_ledger import LedgerFile, check_writable


@contextmanager
def _open(path: Path) -> Iterator[LedgerFile]:
    """A ledger, closed at the end."""
    file = LedgerFile(path)
    yield file
    file.close()


async def _written() -> None:
    """Wait for the thread."""
    await asyncio.sleep(1)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _ids(path: Path) -> list[str]:
    return [json.loads(line)["job_id"] for line in _lines(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "ledger.jsonl"


async def test_lines_are_appended_in_their_order(path: Path) -> None:
    with _open(path) as file:
        for number in range(50):
            file.add(ended(f"j{number}"))
        await _written()
        assert _ids(path) == [f"j{number}" for number in range(50)]


async def test_the_last_lines_are_written_at_the_end(path: Path) -> None:
    with _open(path) as file:
        file.add(ended("last"))
    assert _ids(path) == ["last"]


async def test_a_line_that_was_cut_short_spoils_no_other(path: Path) -> None:
    with open(path, "w") as cut:  # noqa: PTH123, ASYNC230
        cut.write('{"provider": "p", "job_')
    with _open(path) as file:
        file.add(ended("next"))
    _, line = _lines(path)
    assert json.loads(line)["job_id"] == "next"


async def test_a_file_that_was_moved_away_begins_again(path: Path) -> None:
    with _open(path) as file:
        file.add(ended("a"))
        await _written()
        os.rename(path, path.with_suffix(".1"))  # noqa: PTH104 - pathlib's own is not for coroutines
        file.add(ended("b"))
        await _written()
        assert (_ids(path.with_suffix(".1")), _ids(path)) == (["a"], ["b"])


def _refuse(number: int) -> Callable[..., int]:
    def write(descriptor: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    return write


async def test_a_disk_that_refuses_late_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As full network disks: they take lines, and lose them."""

    def late(descriptor: int) -> None:
        os.truncate(descriptor, 0)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with _open(path) as file:
        with monkeypatch.context() as full:
            full.setattr("trainfleet_exporter.job_ledger.file.os.fsync", late)
            file.add(ended("a"))
            await _written()
        file.add(ended("b"))
    assert _ids(path) == ["a", "b"]


@pytest.mark.parametrize("cut_short", [False, True])
async def test_a_full_disk_is_logged_once_and_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cut_short: bool
) -> None:
    caplog.set_level(logging.INFO, logger="trainfleet_exporter.job_ledger")
    write = os.write
    with _open(path) as file:
        with monkeypatch.context() as full:
            short = lambda descriptor, data: write(descriptor, data[:20])  # noqa: E731
            full.setattr("trainfleet_exporter.job_ledger.file.os.write", short if cut_short else _refuse(errno.ENOSPC))
            for job_id in "abc":
                file.add(ended(job_id))
                await _written()
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [record.getMessage() for record in errors] == [
            "cannot write ended jobs to the ledger; the next write retries"
        ]
        fields = errors[0].__dict__["fields"]
        assert fields == {"file": str(path), "waiting": 1, "lost": 0, "error": "No space left on device"}
        assert file.write_errors == 3
        file.add(ended("d"))
        await _written()
        assert caplog.records[-1].getMessage() == "ended jobs are written to the ledger again"
    assert [json.loads(line)["job_id"] for line in _lines(path) if line.endswith("}")] == list("abcd")


async def test_jobs_that_wait_for_the_disk_are_bounded(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trainfleet_exporter.job_ledger.file._MOST_WAITING", 3)
    caplog.set_level(logging.INFO, logger="trainfleet_exporter.job_ledger")
    with _open(path) as file:
        os.mkdir(path)  # noqa: PTH102
        for number in range(5):
            file.add(ended(f"j{number}"))
            await _written()
        os.rmdir(path)  # noqa: PTH106
        file.add(ended("j5"))
        await _written()
        assert _ids(path) == ["j3", "j4", "j5"]
    assert [line_of(record, without=("file",)) for record in caplog.records] == [
        'cannot write ended jobs to the ledger; the next write retries waiting=1 lost=0 error="Is a directory"',
        "ended jobs are lost: too many wait for the ledger waiting=3 lost=1",
        "ended jobs are written to the ledger again waiting=0 lost=3",
    ]


async def test_what_cannot_be_written_at_the_end_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkdir(path)  # noqa: PTH102
    with _open(path) as file:
        file.add(ended())
        await _written()
    assert caplog.records[-1].getMessage() == "ended jobs are not in the ledger"


async def test_a_disk_that_hangs_does_not_hold_up_the_end(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr("trainfleet_exporter.job_ledger.file._LAST_LINES_SECONDS", 0.05)
    monkeypatch.setattr("trainfleet_exporter.job_ledger.file.os.write", lambda descriptor, data: hanging.wait(10))
    with _open(path) as file:
        file.add(ended())
        file.close()
        hanging.set()
    assert "ended jobs are not in the ledger" in [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".", "Is a directory"),
        ("none/ledger.jsonl", "No such file or directory"),
        ("fifo", "it is not a regular file"),
        ("link", "it is a symlink"),
        ("link-to-nothing", "it is a symlink"),
    ],
)
def test_an_unusable_file_is_refused_at_the_start(tmp_path: Path, name: str, reason: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "link-to-nothing").symlink_to("new")
    with pytest.raises(StartError) as caught:
        check_writable(tmp_path / name)
    assert str(caught.value) == (
        f"cannot write the ledger {tmp_path / name}: {reason}; "
        "name a file that the exporter may write in --ledger or global.ledger_file"
    )


async def test_a_symlink_in_place_of_the_file_is_not_followed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another user plants the link while the exporter runs."""
    target = path.with_name("target")
    target.write_text("precious", encoding="utf-8")
    target.with_suffix(".link").symlink_to(target)
    with _open(path) as file:
        file.add(ended("a"))
        await _written()
        os.replace(target.with_suffix(".link"), path)  # noqa: PTH105
        file.add(ended("b"))
        await _written()
    assert target.read_text(encoding="utf-8") == "precious"
    assert 'error="it is a symlink"' in line_of(caplog.records[0])
