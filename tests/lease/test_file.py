"""The lease as the name of a file."""

from __future__ import annotations

import asyncio
import errno
import re
import threading
from pathlib import Path

import pytest

from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable
from trainfleet_exporter.lease import FileLease, Record, identity, open_lease


def test_a_record_is_one_file_that_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "lease"

    async def main() -> str:
        lease = FileLease(path)
        assert await lease.read() == Record()
        await lease.create()
        empty = await lease.read()
        assert (empty.holder, empty.term) == ("", 0)
        first = await lease.write(empty, "pod-1.example_0a", 1)
        assert await lease.read() == first == Record("pod-1.example_0a", 1, first.version)
        second = await lease.write(first, "", 1)
        assert await lease.read() == second == Record("", 1, second.version)
        return second.version

    version = asyncio.run(main())
    assert [file.name for file in path.iterdir()] == [version]
    assert [file.name for file in tmp_path.iterdir()] == ["lease"]


def test_only_the_first_of_two_writers_succeeds(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = FileLease(tmp_path / "lease"), FileLease(tmp_path / "lease")
        await one.create()
        with pytest.raises(LeaseConflict):
            await other.create()
        seen = await one.read()
        await other.write(seen, "other", 1)
        with pytest.raises(LeaseConflict):
            await one.write(seen, "one", 1)
        assert (await one.read()).holder == "other"

    asyncio.run(main())
    assert [file.name for file in tmp_path.iterdir()] == ["lease"]


def test_a_new_record_is_never_an_earlier_one(tmp_path: Path) -> None:
    async def main() -> None:
        lease = FileLease(tmp_path / "lease")
        await lease.create()
        seen = await lease.read()
        (tmp_path / "lease" / seen.version).unlink()
        assert await lease.read() == Record()
        await lease.create()
        with pytest.raises(LeaseConflict):
            await lease.write(seen, "a", 1)

    asyncio.run(main())


def test_many_writers_in_threads_lose_no_write(tmp_path: Path) -> None:
    """Each write that succeeds has exactly one predecessor."""

    async def writer(name: str, done: list[tuple[str, str]]) -> None:
        lease = FileLease(tmp_path / "lease")
        for _ in range(40):
            seen = await lease.read()
            try:
                done.append((seen.version, (await lease.write(seen, name, seen.term + 1)).version))
            except LeaseConflict:
                continue

    async def main() -> None:
        await FileLease(tmp_path / "lease").create()
        done: list[tuple[str, str]] = []
        await asyncio.gather(*(writer(name, done) for name in "abcd"))
        assert len(done) >= 40
        assert len({before for before, _ in done}) == len({after for _, after in done}) == len(done)

    asyncio.run(main())


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    async def main() -> None:
        with pytest.raises(LeaseUnavailable, match="Not a directory"):
            await FileLease(tmp_path / "file" / "lease").create()
        with pytest.raises(LeaseUnavailable, match="No such file"):
            await FileLease(tmp_path / "missing" / "lease").create()

    asyncio.run(main())


def test_a_folder_with_other_files_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "lease" / "lost+found").mkdir(parents=True)
    with pytest.raises(LeaseUnavailable, match="is a mount point or has other files; name a new folder in it"):
        asyncio.run(FileLease(tmp_path / "lease").create())
    assert [file.name for file in tmp_path.iterdir()] == ["lease"]


def test_a_mount_point_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(path: Path, target: Path) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(LeaseUnavailable, match="is a mount point"):
        asyncio.run(FileLease(tmp_path / "lease").create())
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_hangs_holds_back_the_next(tmp_path: Path) -> None:
    release, running = threading.Event(), []

    async def run(work: object) -> Record:
        running.append(work)
        await asyncio.get_running_loop().run_in_executor(None, release.wait, 5)
        return Record()

    async def main() -> None:
        lease = FileLease(tmp_path / "lease", run)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await lease.read()
        assert len(running) == 1
        release.set()
        await lease.read()

    asyncio.run(main())


def test_each_shard_has_a_lease(tmp_path: Path) -> None:
    lease = open_lease(f"file:{tmp_path}/lease", shard=3)

    async def main() -> None:
        await lease.create()
        await lease.aclose()

    asyncio.run(main())
    assert [file.name for file in tmp_path.iterdir()] == ["lease-3"]


def test_identities_differ_and_fit_into_a_file_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "pod/1 ä." + 300 * "x")
    first, second = identity(), identity()
    assert first != second
    assert re.fullmatch("[A-Za-z0-9_.-]{10,80}", first)
