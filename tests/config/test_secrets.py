"""Secrets do not show, and those of files follow their files."""

from __future__ import annotations

import os
import threading
import traceback
from pathlib import Path

import pytest

from trainfleet_exporter.config import Secret
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process import files

TEXT = "hunter2"


@pytest.fixture(params=["text", "file"])
def secret(request: pytest.FixtureRequest, tmp_path: Path) -> Secret:
    if request.param == "text":
        return Secret(TEXT)
    (tmp_path / "secret").write_text(TEXT)
    return Secret.from_file(tmp_path / "secret")


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_the_newline_at_the_end_of_a_file_is_not_part_of_it(tmp_path: Path, ending: str) -> None:
    (tmp_path / "key").write_bytes(f"{TEXT} {TEXT}{ending}".encode())
    assert Secret.from_file(tmp_path / "key").reveal() == f"{TEXT} {TEXT}"


def test_a_byte_order_mark_is_not_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert Secret.from_file(tmp_path / "key").reveal() == TEXT


@pytest.mark.parametrize("end", [" ", "\u00a0", "\u200b", "\u2060", "\u3000", "\ufeff", "\u00ad", "\u2800"])
def test_an_invisible_character_at_an_end_is_refused(tmp_path: Path, end: str) -> None:
    path = tmp_path / "key"
    for place, text in (("begins", end + TEXT), ("ends", TEXT + end)):
        path.write_text("\ufeff" * (place == "begins") + text, encoding="utf-8")
        with pytest.raises(AccessDenied) as caught:
            Secret.from_file(path)
        assert f"it {place} with the invisible character U+{ord(end):04X} (" in str(caught.value)
        assert TEXT not in str(caught.value)


def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    with pytest.raises(AccessDenied, match="cannot be used: it is not a regular file"):
        Secret.from_file(tmp_path / "key")


def test_a_file_that_does_not_respond_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file server that is down blocks the read for good."""
    release = threading.Event()
    for name, value in {"READ_SECONDS": 0.01, "_hanging": {}, "_read": lambda *given: release.wait(60)}.items():
        monkeypatch.setattr(files, name, value)
    with pytest.raises(AccessDenied, match=r"it could not be read within 0\.01 seconds"):
        Secret.from_file(tmp_path / "key")
    release.set()


def test_old_text_serves_while_its_file_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(TEXT)
    secret = Secret.from_file(tmp_path / "key")
    begun, release, attempts = threading.Event(), threading.Event(), list[Path]()

    def hang(path: Path, *given: object) -> None:
        attempts.append(path)
        begun.set()
        release.wait(60)

    for name, value in {"READ_SECONDS": 0.01, "NEXT_SECONDS": 0.02, "_hanging": {}, "_read": hang}.items():
        monkeypatch.setattr(files, name, value)
    assert [secret.reveal() for _ in range(3)] == [TEXT] * 3
    assert begun.wait(60)  # its thread may begin late
    assert attempts == [tmp_path / "key"]
    with pytest.raises(AccessDenied, match=r"within 0\.02 seconds"):  # another one delays its reader less
        Secret.from_file(tmp_path / "other")
    release.set()


def test_a_link_that_turns_is_followed_as_kubernetes_turns_them(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name)
    (tmp_path / "data").symlink_to("first")
    secret = Secret.from_file(tmp_path / "data" / "key")
    (tmp_path / "next").symlink_to("second")
    (tmp_path / "next").replace(tmp_path / "data")
    assert secret.reveal() == "second"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"hunter2\nhunter2", "it contains a line break or another control character"),
        ("hunter2\u2028".encode(), "it contains a line break or another control character"),
        (b"hunter2\xff", "it is not UTF-8"),
        (b"hunter2" * 10_000, "it is longer than 65536 bytes"),
    ],
)
def test_a_file_that_goes_bad_leaves_the_old_content_in_use(
    tmp_path: Path, content: bytes | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    os.utime(path, ns=(1, 1))
    secret = Secret.from_file(path)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert [secret.reveal(), secret.reveal()] == ["first", "first"]
    (record,) = caplog.records
    assert vars(record)["fields"] == {"file": path, "reason": reason}
    with pytest.raises(AccessDenied) as caught:
        Secret.from_file(path)
    assert str(caught.value) == f"the secret file {path} cannot be used: {reason}"
    assert TEXT not in "".join(traceback.format_exception(caught.value))
    path.write_text("second")
    assert secret.reveal() == "second"
