"""Secrets do not show, and those of files follow their files."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import logging
import os
import pickle
import pprint
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


def test_reveals_on_demand(secret: Secret) -> None:
    assert secret.reveal() == TEXT


def test_shows_as_a_placeholder(secret: Secret) -> None:
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>8}",
        f"{secret:^20}".strip(),
        "%s" % secret,  # noqa: UP031 -- this way of formatting is what is under test
        str([secret])[1:-1],
        pprint.pformat(secret),
    ]
    assert shown == ["<secret>"] * len(shown)


def test_a_log_does_not_show_it(secret: Secret) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error("key %s, keys %r", secret, {"a": secret}, extra={"key": secret})
    assert stream.getvalue() == "key <secret>, keys {'a': <secret>}\n"


def test_json_refuses_it_or_shows_the_placeholder(secret: Secret) -> None:
    with pytest.raises(TypeError) as caught:
        json.dumps({"key": secret})
    assert TEXT not in str(caught.value)
    assert json.dumps({"key": secret}, default=str) == '{"key": "<secret>"}'


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_does_not_hold_it(secret: Secret, protocol: int) -> None:
    pickled = pickle.dumps(secret, protocol)
    assert TEXT.encode() not in pickled
    assert pickle.loads(pickled) == "<secret>"


def test_a_copy_is_the_secret_itself(secret: Secret) -> None:
    assert copy.deepcopy({"key": [secret]})["key"][0].reveal() == TEXT


def test_it_has_no_dictionary_to_dump(secret: Secret) -> None:
    with pytest.raises(TypeError):
        vars(secret)


def test_a_traceback_with_locals_does_not_show_it(secret: Secret) -> None:
    def use(key: Secret) -> None:
        raise RuntimeError(f"cannot sign with {key}")

    with pytest.raises(RuntimeError) as caught:
        use(secret)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "cannot sign with <secret>" in shown
    assert TEXT not in shown


def test_equality_goes_by_text_or_by_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(TEXT)
    a, again, b = (Secret.from_file(tmp_path / name) for name in ("a", "a", "b"))
    assert a == again
    assert hash(a) == hash(again)
    assert a != b
    assert a != Secret(TEXT)
    assert Secret(TEXT) == Secret(TEXT)
    assert hash(Secret(TEXT)) == hash(Secret(TEXT))
    assert Secret(TEXT) != Secret("other")
    assert Secret(TEXT) != TEXT


def test_it_says_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(TEXT)
    assert Secret(TEXT).source == "config file"
    assert Secret.from_file(tmp_path / "key").source == f"file {tmp_path / 'key'}"


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
    monkeypatch.setattr(files, "READ_SECONDS", 0.01)
    monkeypatch.setattr(files, "_read", lambda *given: release.wait(60))
    with pytest.raises(AccessDenied, match=r"it could not be read within 0\.01 seconds"):
        Secret.from_file(tmp_path / "key")
    release.set()


def test_old_text_serves_while_its_file_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(TEXT)
    secret = Secret.from_file(tmp_path / "key")
    release, attempts = threading.Event(), list[Path]()

    def hang(path: Path, *given: object) -> None:
        attempts.append(path)
        release.wait(60)

    monkeypatch.setattr(files, "LOOP_SECONDS", 0.01)
    monkeypatch.setattr(files, "_read", hang)

    async def reveal() -> list[str]:
        return [secret.reveal() for _ in range(3)]

    assert asyncio.run(reveal()) == [TEXT] * 3
    assert attempts == [tmp_path / "key"]
    release.set()


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    secret = Secret.from_file(path)
    path.write_text("the second one")  # another size
    assert secret.reveal() == "the second one"


def test_a_change_of_time_alone_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    os.utime(path, ns=(1, 1))
    secret = Secret.from_file(path)
    path.write_text("other")
    os.utime(path, ns=(2, 2))
    assert secret.reveal() == "other"


def test_a_file_put_in_its_place_is_seen_by_its_inode(tmp_path: Path) -> None:
    path, new = tmp_path / "key", tmp_path / "new"
    path.write_text("first")
    new.write_text("other")
    for file in (path, new):
        os.utime(file, ns=(1, 1))
    secret = Secret.from_file(path)
    new.replace(path)
    assert secret.reveal() == "other"


def test_a_link_that_turns_is_followed_as_kubernetes_turns_them(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(name)
    (tmp_path / "data").symlink_to("first")
    secret = Secret.from_file(tmp_path / "data" / "key")
    (tmp_path / "next").symlink_to("second")
    (tmp_path / "next").replace(tmp_path / "data")
    assert secret.reveal() == "second"


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    os.utime(path, ns=(1, 1))
    secret = Secret.from_file(path)
    path.write_text("other")  # the same inode and size, and below the same time: nothing distinguishes them
    os.utime(path, ns=(1, 1))
    assert secret.reveal() == "first"


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
