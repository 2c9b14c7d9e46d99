"""Unexpected errors are logged with Python's traceback; no exception, warning or library's record shows a secret."""

from __future__ import annotations

import binascii
import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from tests.support.planted import Planted
from trainfleet_exporter.errors import AccessDenied
from trainfleet_exporter.process.logs import fields, format_traceback, set_up_logs
from trainfleet_exporter.process.redaction import KNOWN, remember

PLANTED = Planted()
SECRET = PLANTED.plant("what went wrong", special=False)
HARD = PLANTED.plant("what went wrong, with special characters")
log = logging.getLogger("trainfleet_exporter.test")


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two secrets are known, and none that other tests of this process used."""
    monkeypatch.setattr(KNOWN, "_configured", {})
    monkeypatch.setattr(KNOWN, "_used", {})
    remember(SECRET, HARD)


class _Model(BaseModel):
    number: int


def _note() -> None:
    error = RuntimeError("x")
    error.add_note(SECRET)
    raise error


def _cause() -> None:
    try:
        int(SECRET)
    except ValueError as error:
        raise KeyError(HARD) from error


def _context() -> None:
    try:
        dict[str, str]()[SECRET]
    except KeyError:
        raise RuntimeError(HARD)  # noqa: B904 - the implicit context is what is under test


def _group() -> None:
    raise ExceptionGroup(SECRET, [ValueError(HARD), ExceptionGroup(HARD, [KeyError(SECRET)])])


def _of_ours() -> None:
    try:
        int(SECRET)
    except ValueError as error:
        raise AccessDenied("no permission") from error


def _deep(left: int = 200) -> None:
    if left == 0:
        raise ValueError(SECRET)
    _deep(left - 1)


CRASHES: dict[str, Callable[[], object]] = {
    "int": lambda: int(SECRET),
    "float": lambda: float(HARD),
    "key": lambda: dict[str, str]()[HARD],
    "attribute": lambda: getattr(object(), SECRET),
    "json": lambda: json.loads(f'{{"key": {SECRET}'),
    "base64": lambda: binascii.a2b_base64(f"{SECRET}{HARD}=", strict_mode=True),
    "unicode": f"\ud800{SECRET}".encode,
    "pydantic": lambda: _Model(number=SECRET),  # type: ignore[arg-type]  # that is its fault
    "a file": lambda: open(f"/nowhere/{SECRET}"),  # noqa: PTH123, SIM115 - never opened
    "an address": lambda: httpx.URL(f"https://host:{SECRET}/"),
    "a note": _note,
    "a cause": _cause,
    "a context": _context,
    "a group": _group,
    "one of ours with a cause": _of_ours,
    "deep": _deep,
    "an os error of its own words": lambda: (_ for _ in ()).throw(OSError(SECRET)),
    "an os error of another kind": lambda: (_ for _ in ()).throw(httpx.ConnectError(HARD)),
}


@pytest.fixture(params=["logfmt", "json"])
def stream(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """Where the log goes, at its most talkative; the hooks of the process are put back afterwards."""
    hook = sys.excepthook
    written = io.StringIO()
    set_up_logs("debug", request.param, written)
    yield written
    sys.excepthook = hook


def _clean(stream: io.StringIO, *, lines: int = 1) -> str:
    text = stream.getvalue()
    assert len(text.splitlines()) == lines, text
    assert PLANTED.hits({"log": text}) == []
    return text


@pytest.mark.parametrize("kind", CRASHES)
def test_crash_is_logged_without_secrets(kind: str, stream: io.StringIO) -> None:
    try:
        CRASHES[kind]()
    except Exception as error:
        raised = type(error).__name__
        log.exception("a fault of the exporter's own")
    text = _clean(stream)
    assert raised in text
    assert "Traceback (most recent call last):" in text
    assert "test_crashes.py" in text
    assert "CRASHES[kind]()" in text  # the line of the source


def test_endless_recursion_is_logged_briefly_and_to_its_end() -> None:
    def ping(number: int) -> None:
        pong(number + 1)

    def pong(number: int) -> None:
        ping(number + 1)

    try:
        ping(0)
    except RecursionError as error:
        trace = format_traceback(error)
    assert trace.splitlines()[-1].startswith("RecursionError: ")
    assert len(trace) < 64 * 1024


def test_an_exception_among_the_arguments_or_fields_is_described(stream: io.StringIO) -> None:
    error = ValueError(SECRET)
    log.warning("failed: %s", error, extra=fields(why=error))
    log.warning("failed: %(why)s", {"why": error})
    log.warning("failed", extra=fields(error=AccessDenied("no permission")))
    text = _clean(stream, lines=3)
    assert text.count("failed: <secret>") == 2
    assert text.count("ValueError: <secret>") == 1
    assert "no permission" in text


class _Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError(SECRET)


def test_unwritable_log_record_is_logged_without_arguments(stream: io.StringIO) -> None:
    root = logging.getLogger()
    # Not pytest's, which lets such errors through.
    root.handlers[:] = [handler for handler in root.handlers if getattr(handler, "stream", None) is stream]
    log.warning("one %s", _Unprintable())
    log.warning("%d", SECRET)
    logging.getLogger("asyncio").warning("%d", SECRET)
    text = _clean(stream, lines=3)
    assert text.count("cannot write a log record") == 3


@pytest.mark.parametrize(
    ("logger", "message", "arguments", "shown"),
    [
        ("asyncio", "Task exception was never retrieved", (), "Task exception was never retrieved"),
        ("asyncio", f"Exception in print('{SECRET}')\nhandle: <H>", (), "Exception in print('<secret>')\nhandle: <H>"),
        ("asyncio", "Executing %s took %.3f seconds", (SECRET, 0.2), "Executing <secret> took 0.200 seconds"),
        ("aiohttp.client", "Can not load cookies: %s", (f"a={SECRET}; b=c",), "Can not load cookies: a=<secret>; b=c"),
        ("apscheduler.executors.default", 'Job "%s" raised an exception', ("x",), 'Job "x" raised an exception'),
        ("uvicorn.error", "Invalid HTTP request received.", (), "Invalid HTTP request received."),
        ("of.somebody", f"token {SECRET}", (), "token <secret>"),
        ("of.somebody", "%s %r", (HARD, HARD), "<secret> '<secret>'"),
        ("of.somebody", "https://me:unknown-1@host/", (), "https://<secret>@host/"),
        ("of.somebody", "{'Authorization': 'Basic dXNlcjpwYXNzd29yZA=='}", (), "{'Authorization': 'Basic <secret>'}"),
        ("of.somebody", "user: $2b$12$abcdefghijklmnopqrstuv0123456789abcdefghijklmnopqrstu", (), "user: <secret>"),
        ("of.somebody", "GET /?Signature=c2lnbmF0dXJlLW9mLW9uZQ%3D&x=1", (), "GET /?Signature=<secret>&x=1"),
        ("of.somebody", "-----BEGIN PRIVATE KEY-----\nMIIE\n", (), "<secret>"),
    ],
)
def test_libraries_records_are_redacted(logger: str, message: str, arguments: tuple[Any, ...], shown: str) -> None:
    written = io.StringIO()
    set_up_logs("debug", "json", written)
    logging.getLogger(logger).error(message, *arguments)
    record = json.loads(_clean(written))
    assert (record["msg"], record["logger"], record["level"]) == (shown, logger, "error")
    assert record["place"].startswith("test_crashes:")


_PROCESS = """
import asyncio, logging, sys, threading, warnings
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.process.redaction import remember
SECRET, HARD = {secrets}
remember(SECRET, HARD)
set_up_logs("debug", "json")

class Broken:
    def __repr__(self): return SECRET
    def __del__(self): raise ValueError(SECRET)

{code}
"""
_EXITS = "internal error; the program exits"
_SLOW = """
def slow(what): import time; time.sleep(0.15)
async def main():
    asyncio.get_running_loop().call_soon(slow, SECRET)
    await asyncio.sleep(0.01)
asyncio.run(main(), debug=True)"""
_CODE = {
    "uncaught": ("try: int(SECRET)\nexcept ValueError as error: raise KeyError(HARD) from error", 1, _EXITS),
    "uncaught group": ("raise ExceptionGroup(SECRET, [ValueError(HARD)])", 1, _EXITS),
    "thread": ("t = threading.Thread(target=int, args=[SECRET]); t.start(); t.join()", 0, "internal error in a thread"),
    "finalizer": ("broken = Broken(); del broken", 0, "internal error in a finalizer"),
    "warning": ("warnings.warn(f'odd value {SECRET}')", 0, "Python warning"),
    "task": ("async def fail(): raise ValueError(HARD)\nasyncio.run(fail())", 1, _EXITS),
    "interrupt": ("raise KeyboardInterrupt(SECRET)", -2, "interrupted"),
    "asyncio's debugging": (_SLOW, 0, "Executing"),
}


@pytest.mark.parametrize("kind", _CODE)
def test_uncaught_errors_end_in_the_log(kind: str) -> None:
    code, status, reported = _CODE[kind]
    script = _PROCESS.format(secrets=(SECRET, HARD), code=code)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert PLANTED.hits({"stdout": ended.stdout, "stderr": ended.stderr}) == []
    assert (ended.returncode, ended.stdout) == (status, b""), ended.stderr
    records = [json.loads(line) for line in ended.stderr.splitlines()]
    assert any(record["msg"].startswith(reported) for record in records)
