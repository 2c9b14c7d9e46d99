"""All budgets, and the small file in which they survive a restart.

The file says at least what was spent: it is written ahead of the calls, and exactly when the exporter stops. One
process at a time keeps it; another that runs beside it (`once`, `diagnose`) only reads what was spent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainfleet_exporter.transport.budget import Budget
from trainfleet_exporter.transport.calendar import Calendar, Month

log = logging.getLogger(__name__)

_VERSION = 1
_KEPT_AFTER_MONTH = 86400.0
"""Seconds for which a month that is over stays on record, should the clock be set back by some hours."""
_LARGEST = 1_000_000
"""Bytes of a state file that are read at most."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose budget it is: an account's, or a provider's that belongs to no account."""

    kind: str
    name: str


Spent = dict[tuple[Holder, str], dict[Month, int]]


class Ledger:
    """The budgets of all accounts, kept at `path` where there is one and it is `owned`, else only read from it.

    A file that cannot be read is one warning, and then as if there were none; so is one that cannot be written.
    """

    def __init__(self, path: Path | None, *, owned: bool = True, calendar: Calendar | None = None) -> None:
        self._path = path if owned else None
        self._calendar = Calendar() if calendar is None else calendar
        self._budgets: dict[tuple[Holder, str], Budget] = {}
        self._known = {} if path is None else _read(path)
        if path is not None and not owned:
            log.warning("another exporter keeps the state file: calls of this one are not added to what was spent")
        self._writing = threading.Lock()
        self._number = 0
        self._written = 0
        self._under_way = False
        self._broken = False

    def budget(self, holder: Holder, api: str, calls: int) -> Budget:
        """The budget of one API; to be asked for once."""
        key = (holder, api)
        self._budgets[key] = Budget(
            api,
            calls,
            calendar=self._calendar,
            known=self._known.get(key),
            save=None if self._path is None else self._save,
        )
        return self._budgets[key]

    def close(self) -> None:
        """Write what was spent exactly, at a clean stop."""
        if self._path is not None and self._budgets:
            self._write_now(exact=True)

    def _save(self, at_once: bool) -> None:
        try:
            loop = None if at_once else asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is None:
            self._write_now(exact=False)
        elif not self._under_way:
            self._under_way = True
            bounds, data = self._page(exact=False)
            self._number += 1
            number = self._number
            done = loop.run_in_executor(None, self._write, number, data)
            done.add_done_callback(lambda future: self._end_writing(future, number, bounds))

    def _end_writing(self, future: asyncio.Future[str], number: int, bounds: Spent) -> None:
        self._under_way = False
        if number == self._number and not future.cancelled() and future.exception() is None:
            self._told(future.result(), bounds)  # else a later page has taken its place

    def _write_now(self, *, exact: bool) -> None:
        bounds, data = self._page(exact=exact)
        self._number += 1
        self._told(self._write(self._number, data), bounds)

    def _told(self, failure: str, bounds: Spent) -> None:
        """Take note of a writing, and warn of the first that failed; the next is due after as many calls."""
        if failure and not self._broken:
            log.warning("the state file cannot be written, so a restart may not know what was spent: %s", failure)
        self._broken = bool(failure)
        # Calls go on without the file, too, and do not try again one by one.
        for key, budget in self._budgets.items():
            budget.promised(bounds[key])

    def _page(self, *, exact: bool) -> tuple[Spent, bytes]:
        bounds = self._known | {key: budget.promise(exact=exact) for key, budget in self._budgets.items()}
        now = self._calendar.now()[0].time
        rows = [
            {holder.kind: holder.name, "api": api, "month": str(month), "calls": calls}
            for (holder, api), months in bounds.items()
            for month, calls in months.items()
            if month.ends + _KEPT_AFTER_MONTH > now
        ]
        return bounds, (json.dumps({"version": _VERSION, "spent": rows}, indent=1) + "\n").encode()

    def _write(self, number: int, data: bytes) -> str:
        """Replace the file whole, in the loop or in a thread; why it could not be, or nothing."""
        assert self._path is not None
        with self._writing:
            if number < self._written:  # a later one overtook it
                return ""
            try:
                _replace(self._path, data)
            except OSError as error:
                return error.strerror or type(error).__name__
            self._written = number
        return ""


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        draft.unlink()  # left by a crash, perhaps with other rights
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name survives a loss of power, too
    finally:
        os.close(folder)


def _read(path: Path) -> Spent:
    """What the file says was spent; nothing, with a warning, where it says nothing that can be relied on."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError("it is too large")
        return _spent(json.loads(data))
    except FileNotFoundError:
        return {}
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except (ValueError, RecursionError):  # all kinds of text that is no JSON, too
        reason = "it is not what the exporter wrote"
    log.warning(
        "the state file cannot be used; the month's elapsed share of each budget counts as spent: %s",
        reason,
        extra={"fields": {"file": str(path)}},
    )
    return {}


def _spent(page: Any) -> Spent:
    """The rows of a file; ValueError if any is not as it should be."""
    if not isinstance(page, dict) or page.get("version") != _VERSION or not isinstance(page.get("spent"), list):
        raise ValueError("not a state file")
    found: Spent = {}
    for row in page["spent"]:
        holder, api, month, calls = _row(row)
        found.setdefault((holder, api), {})[month] = calls
    return found


def _row(row: Any) -> tuple[Holder, str, Month, int]:
    if not isinstance(row, Mapping):
        raise ValueError("not a row")
    (kind,) = row.keys() & {"account", "provider"} or ("",)
    api, month, calls = row.get("api"), row.get("month"), row.get("calls")
    name = row.get(kind)
    if not isinstance(name, str) or not isinstance(api, str) or not isinstance(month, str):
        raise ValueError("not a row")
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 0:
        raise ValueError("not a number of calls")
    return Holder(kind, name), api, Month.parse(month), calls
