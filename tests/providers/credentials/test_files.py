"""Files that rotate together are read as one rotation, at whatever moment they are read."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import time_machine

from tests.support.clock import START
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process import files
from trainfleet_exporter.providers.credentials.credential import Keys
from trainfleet_exporter.providers.credentials.files import (
    LONGEST_ROTATION,
    SETTLE,
    FileCredential,
    RotatingFiles,
    read_secret,
)

NAMES = ("id", "secret", "token")


def read_text(path: Path) -> str:
    """The one line of a file."""
    return read_secret(path).reveal()


class Folder:
    """Files that are written step by step, while time passes only where a test says so."""

    def __init__(self, path: Path, clock: time_machine.Traveller, names: Sequence[str] = NAMES) -> None:
        self.path = path
        self.clock = clock
        self.names = tuple(names)
        self._ticks = itertools.count(1)
        for name in self.names:
            self.write(name, "1")
        self.files = RotatingFiles([path / name for name in self.names], read_text)
        assert self.read() == self.whole("1")

    def whole(self, number: str) -> tuple[str, ...]:
        """What the files hold after that rotation."""
        return tuple(f"{name}-{number}" for name in self.names)

    def write(self, name: str, number: str) -> None:
        self.put(name, f"{name}-{number}\n")

    def put(self, name: str, content: str) -> None:
        """Write a file in place. Every write has a time of its own: these follow faster than a disk's clock ticks."""
        (self.path / name).write_text(content)
        self._stamp(self.path / name)

    def replace(self, name: str, number: str) -> None:
        """Put another file in the place of one, at once."""
        (self.path / "new").write_text(f"{name}-{number}\n")
        self._stamp(self.path / "new")
        (self.path / "new").replace(self.path / name)

    def read(self) -> tuple[str, ...]:
        return self.files.current()

    def wait(self, seconds: float) -> None:
        self.clock.shift(seconds)

    def _stamp(self, path: Path) -> None:
        os.utime(path, ns=(next(self._ticks),) * 2)


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


def interleavings(steps: int) -> Iterator[tuple[str, ...]]:
    """Every order in which writers of the three files can take so many steps each."""
    yield from sorted(set(itertools.permutations(name for name in NAMES for _ in range(steps))))


@pytest.mark.parametrize("gap", [0.1, SETTLE + 1])
@pytest.mark.parametrize("order", list(interleavings(2)), ids="-".join)
def test_no_order_of_writes_in_place_shows_halves(
    tmp_path: Path, clock: time_machine.Traveller, order: tuple[str, ...], gap: float
) -> None:
    """Each file is emptied and then written, the three in any order, and read after every step."""
    folder = Folder(tmp_path, clock)
    begun: set[str] = set()
    for name in order:
        if name in begun:
            folder.write(name, "2")
        else:
            folder.put(name, "")
            begun.add(name)
        assert folder.read() in (folder.whole("1"), folder.whole("2"))
        folder.wait(gap)
        assert folder.read() in (folder.whole("1"), folder.whole("2"))
    folder.read()
    folder.wait(SETTLE)
    assert folder.read() == folder.whole("2")
    assert folder.files.edition == 2


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES)), ids="-".join)
@pytest.mark.parametrize("reads", list(itertools.product([False, True], repeat=3)), ids=str)
def test_no_order_of_replaced_files_shows_halves(
    tmp_path: Path, clock: time_machine.Traveller, order: tuple[str, ...], reads: tuple[bool, ...]
) -> None:
    """Whether or not a reading falls between two of them, and however long a rotation takes (within reason)."""
    folder = Folder(tmp_path, clock)
    for name, is_read in zip(order, reads, strict=True):
        folder.replace(name, "2")
        for seconds in (0, LONGEST_ROTATION / 3 - 1):
            folder.wait(seconds)
            if is_read:
                assert folder.read() in (folder.whole("1"), folder.whole("2"))
    folder.read()
    folder.wait(SETTLE)
    assert folder.read() == folder.whole("2")


@pytest.mark.parametrize("pieces", [("i", "id-", "id-2"), ("", "id-2\n", "id-2\n")])
def test_pieces_of_a_file_are_not_taken_for_it(
    tmp_path: Path, clock: time_machine.Traveller, pieces: Sequence[str]
) -> None:
    folder = Folder(tmp_path, clock)
    folder.write("secret", "2")
    folder.write("token", "2")
    for piece in pieces:
        folder.put("id", piece)
        assert folder.read() == folder.whole("1")
        folder.wait(SETTLE - 0.1)
    folder.wait(0.2)
    assert folder.read() == folder.whole("2")


def test_one_file_alone_is_taken_a_minute_later(tmp_path: Path, clock: time_machine.Traveller) -> None:
    """A secret was corrected: its id is the same as before."""
    folder = Folder(tmp_path, clock)
    folder.write("secret", "2")
    assert folder.read() == folder.whole("1")
    folder.wait(LONGEST_ROTATION - 0.1)
    assert folder.read() == folder.whole("1")
    folder.wait(0.1)
    assert folder.read() == ("id-1", "secret-2", "token-1")


def test_a_file_that_comes_back_unchanged_is_no_rotation(tmp_path: Path, clock: time_machine.Traveller) -> None:
    folder = Folder(tmp_path, clock, names=("id",))
    status = (tmp_path / "id").stat()
    folder.put("id", "")
    assert folder.read() == ("id-1",)
    (tmp_path / "id").write_text("id-1\n")
    os.utime(tmp_path / "id", ns=(status.st_mtime_ns,) * 2)
    assert folder.read() == ("id-1",)
    folder.wait(10 * LONGEST_ROTATION)
    folder.put("id", "")
    assert folder.read() == ("id-1",)  # the minute starts again


def test_files_rewritten_with_equal_texts_are_one_edition(tmp_path: Path, clock: time_machine.Traveller) -> None:
    folder = Folder(tmp_path, clock)
    for name in NAMES:
        folder.write(name, "1")
    folder.read()
    folder.wait(SETTLE)
    assert folder.read() == folder.whole("1")
    assert folder.files.edition == 1


@pytest.mark.parametrize("content", [None, "", "two\nlines"])
def test_an_unusable_file_leaves_the_old_keys_in_use(
    tmp_path: Path, clock: time_machine.Traveller, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path, clock)
    if content is None:
        (tmp_path / "secret").unlink()
    else:
        folder.put("secret", content)
    assert folder.read() == folder.whole("1")
    folder.wait(LONGEST_ROTATION)
    for _ in range(2):
        assert folder.read() == folder.whole("1")
        folder.wait(1)
    (record,) = caplog.records  # not one for each call
    assert re.fullmatch("the secret file .*/secret cannot be used: [^/]+", str(vars(record)["fields"]["error"]))
    for name in NAMES:
        folder.write(name, "2")
    assert folder.read() == folder.whole("2")


def test_a_clock_that_is_set_back_ends_the_wait(tmp_path: Path, clock: time_machine.Traveller) -> None:
    folder = Folder(tmp_path, clock)
    for name in NAMES:
        folder.write(name, "2")
    assert folder.read() == folder.whole("1")
    folder.wait(-86400)
    assert folder.read() == folder.whole("2")


def test_a_refusal_takes_the_files_at_once(tmp_path: Path, clock: time_machine.Traveller) -> None:
    folder = Folder(tmp_path, clock)
    assert not folder.files.take_now()  # nothing changed: nothing else to try
    folder.write("id", "2")
    folder.put("secret", "")
    assert not folder.files.take_now()
    assert folder.read() == folder.whole("1")
    folder.write("secret", "2")
    folder.write("token", "2")
    assert folder.files.take_now()
    assert folder.read() == folder.whole("2")
    assert not folder.files.take_now()


def _mount(path: Path, number: str, *, link: str = "..data") -> None:
    """Write a rotation as Kubernetes does: a new folder, and one link that is turned to it."""
    folder = path / f"..{number}"
    folder.mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_text(f"{name}-{number}\n")
    (path / "next").symlink_to(folder.name)
    (path / "next").replace(path / link)


def _mounted(path: Path) -> RotatingFiles[str]:
    _mount(path, "1")
    for name in NAMES:
        (path / name).symlink_to(f"..data/{name}")
    return RotatingFiles([path / name for name in NAMES], read_text)


def test_a_swapped_mount_is_followed_at_once(tmp_path: Path, clock: time_machine.Traveller) -> None:
    files = _mounted(tmp_path)
    assert files.current() == ("id-1", "secret-1", "token-1")
    _mount(tmp_path, "2")
    assert files.current() == ("id-2", "secret-2", "token-2")
    assert files.edition == 2


def test_a_mount_swapped_while_it_is_read_is_read_whole(tmp_path: Path, clock: time_machine.Traveller) -> None:
    _mounted(tmp_path)
    numbers = iter(["2", "3"])

    def read_slowly(path: Path) -> str:
        if path.name == "secret" and (number := next(numbers, None)):
            _mount(tmp_path, number)
        return read_text(path)

    files = RotatingFiles([tmp_path / name for name in NAMES], read_slowly)
    assert files.current() == ("id-3", "secret-3", "token-3")


def test_files_that_never_rest_are_an_error(tmp_path: Path, clock: time_machine.Traveller) -> None:
    names = itertools.count(1)
    _mounted(tmp_path)

    def read_slowly(path: Path) -> str:
        _mount(tmp_path, f"again-{next(names)}")
        return read_text(path)

    files = RotatingFiles([tmp_path / "id"], read_slowly)
    with pytest.raises(AccessDenied, match="kept changing while they were read"):
        files.current()


def test_a_rotation_within_a_rotation_ends_with_the_last(tmp_path: Path, clock: time_machine.Traveller) -> None:
    folder = Folder(tmp_path, clock)
    for number in ("2", "3"):
        for name in NAMES:
            folder.write(name, number)
            assert folder.read() == folder.whole("1")
            folder.wait(SETTLE / 4)
    folder.wait(SETTLE)
    assert folder.read() == folder.whole("3")


def test_keys_in_use_serve_while_files_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    credential = FileCredential("", RotatingFiles([path], read_secret), lambda read: Keys(read[0].reveal(), "s"))
    mark = asyncio.run(credential.prepare(0.0))
    release = threading.Event()
    monkeypatch.setattr(files, "LOOP_SECONDS", 0.01)
    monkeypatch.setattr(os, "stat", lambda *given, **more: release.wait(60))

    async def use() -> tuple[object, str, object, bool]:
        edition = await credential.prepare(0.0)
        return edition, credential.current().access_key_id, credential.edition, credential.refused(mark)

    assert asyncio.run(use()) == (mark, "first", mark, False)
    release.set()


def test_files_that_hang_at_first_use_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("first")
    credential = FileCredential("", RotatingFiles([tmp_path / "key"], read_secret), lambda read: Keys("id", "s"))
    release = threading.Event()
    monkeypatch.setattr(files, "LOOP_SECONDS", 0.01)
    monkeypatch.setattr(files, "_read", lambda *given: release.wait(60))
    with pytest.raises(AccessDenied, match=r"could not be read within 0\.01 seconds"):
        asyncio.run(credential.prepare(0.0))
    release.set()
