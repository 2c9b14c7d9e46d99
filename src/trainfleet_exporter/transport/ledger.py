"""All budgets, and the small file in which they survive a restart.

The file says at least what was spent: it is written ahead of the calls, and exactly when the exporter stops. One
process at a time keeps it; another that runs beside it (`once`, `diagnose`) only reads what was spent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from trainfleet_exporter.transport.budget import Budget
from trainfleet_exporter.transport.calendar import Calendar, Month
from trainfleet_exporter.transport.state_file import Holder, Spent, read_state, state_page

__all__ = ["KEPT_AFTER_MONTH", "Holder", "Ledger"]

log = logging.getLogger(__name__)

KEPT_AFTER_MONTH = 86400.0
"""Seconds for which a month that is over stays on record, should the clock be set back by some hours."""


class Ledger:
    """The budgets of all accounts, kept at `path` where there is one and it is `owned`, else only read from it.

    A file that cannot be read is one warning, and then as if there were none; so is one that cannot be written.
    Whoever had a budget once stays on record until the month is over. `part` says which part of the accounts is spent
    here, where several exporters share them: a file of another part counts as none.
    """

    def __init__(
        self, path: Path | None, *, owned: bool = True, calendar: Calendar | None = None, part: str = ""
    ) -> None:
        self._calendar = Calendar() if calendar is None else calendar
        self._part = part
        self._budgets: dict[tuple[Holder, str], Budget] = {}
        self._known: Spent = {} if path is None else read_state(path, part=part)
        self._file = _opened(path, owned)

    def budget(self, holder: Holder, api: str, calls: int) -> Budget:
        """The budget of one API, with this limit from now on."""
        budget = self.draft(holder, api, calls)
        self.adopt(holder, budget, calls)
        return budget

    def draft(self, holder: Holder, api: str, calls: int) -> Budget:
        """What `adopt` may put to use: the budget that there is, as it is, or a new one that nobody knows yet."""
        key = (holder, api)
        if key in self._budgets:
            return self._budgets[key]
        return Budget(api, calls, calendar=self._calendar, known=self._known.get(key))

    def adopt(self, holder: Holder, budget: Budget, calls: int) -> None:
        """Put a drafted budget to use, with this limit."""
        budget.calls = calls
        if self._budgets.get((holder, budget.api)) is not budget:
            self._budgets[holder, budget.api] = budget
            budget.saved_by(None if self._file is None else self._save)

    def spent(self, holder: Holder) -> dict[str, dict[Month, int]]:
        """By API and month, what is on record of a holder."""
        return {api: months for (whose, api), months in (self._known | self._exactly()).items() if whose == holder}

    def add(self, holder: Holder, api: str, calls: Mapping[Month, int]) -> None:
        """Calls by month that were counted as another's (below 0: as this one's, and belong to another)."""
        if (budget := self._budgets.get((holder, api))) is not None:
            budget.add(calls)
            return
        known = self._known.setdefault((holder, api), {})
        for month, count in calls.items():
            known[month] = max(0, known.get(month, 0) + count)

    def forget(self, holder: Holder) -> None:
        """Strike a holder off the record, because others took over what it spent."""
        for record in (self._known, self._budgets):
            for key in [key for key in record if key[0] == holder]:
                del record[key]

    def retire(self, used: Collection[tuple[Holder, str]]) -> None:
        """Of the budgets that nobody draws on any more keep the record alone, and none of months that are over."""
        for key in [key for key in self._budgets if key not in used]:
            budget = self._budgets.pop(key)
            budget.saved_by(None)
            self._known[key] = budget.spent
        since = self._since()
        for key, months in list(self._known.items()):
            self._known[key] = {month: calls for month, calls in months.items() if month.ends > since}
            if not self._known[key]:
                del self._known[key]

    def move(self, path: Path | None, known: Spent, *, owned: bool) -> Callable[[], None]:
        """Keep another file from now on, or none. Of what it said (`known`) and what we know the larger counts.

        Nothing is written before `write_soon`. What is returned writes the file that was kept until now for a last
        time: it waits for the disk, and may be called in a thread.
        """
        leave = self._last_page()
        for key, months in known.items():
            if (budget := self._budgets.get(key)) is not None:
                budget.at_least(months)
            ours = self._known.setdefault(key, {})
            ours.update({month: max(calls, ours.get(month, 0)) for month, calls in months.items()})
        self._file = _opened(path, owned)
        for budget in self._budgets.values():
            budget.saved_by(None if self._file is None else self._save)
        return leave

    def write_soon(self) -> None:
        """Have the file written without waiting for it, because what is on record has changed hands."""
        if self._file is not None and (self._budgets or self._known):
            self._save(False)

    def close(self) -> None:
        """Write what was spent exactly, at a clean stop."""
        self._last_page()()

    def _last_page(self) -> Callable[[], None]:
        file = self._file
        if file is None or not self._budgets:
            return lambda: None
        _, data = self._page(exact=True)
        number = file.next_number()
        return lambda: file.told(file.write(number, data))

    def _save(self, at_once: bool) -> None:
        file = self._file
        assert file is not None
        try:
            loop = None if at_once else asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if loop is not None and file.under_way:
            return
        bounds, data = self._page(exact=False)
        number = file.next_number()
        done = None
        if loop is not None:
            with suppress(RuntimeError):  # no thread is to be had
                done = loop.run_in_executor(None, file.write, number, data)
        if done is None:
            self._told(file, file.write(number, data), bounds)
            return
        file.under_way = True
        done.add_done_callback(lambda future: self._end_writing(future, file, number, bounds))

    def _end_writing(self, future: asyncio.Future[str], file: _File, number: int, bounds: Spent) -> None:
        file.under_way = False
        if number == file.number and not future.cancelled() and future.exception() is None:
            self._told(file, future.result(), bounds)  # else a later page has taken its place

    def _told(self, file: _File, failure: str, bounds: Spent) -> None:
        """Take note of a writing; the next is due after as many calls."""
        file.told(failure)
        if file is not self._file:  # which says nothing of the one that is kept by now
            return
        # Calls go on without the file, too, and do not try again one by one.
        for key, budget in self._budgets.items():
            if key in bounds:
                budget.promised(bounds[key])

    def _page(self, *, exact: bool) -> tuple[Spent, bytes]:
        bounds = self._known | {key: budget.promise(exact=exact) for key, budget in self._budgets.items()}
        return bounds, state_page(bounds, since=self._since(), part=self._part)

    def _since(self) -> float:
        """The Unix time before which a month has to end for nothing of it to be kept."""
        # The earlier time where two clocks differ: a clock that is ahead must not end the present month.
        return min(moment.time for moment in self._calendar.now()) - KEPT_AFTER_MONTH

    def _exactly(self) -> Spent:
        return {key: budget.spent for key, budget in self._budgets.items()}


class _File:
    """The file that is kept. Its pages are numbered: one that a later one overtook is not written any more."""

    def __init__(self, path: Path) -> None:
        self.number = 0
        self.under_way = False
        """Whether a thread is writing."""
        self._path = path
        self._writing = threading.Lock()
        self._written = 0
        self._broken = False

    def next_number(self) -> int:
        """The number of a new page."""
        self.number += 1
        return self.number

    def told(self, failure: str) -> None:
        """Warn of the first writing that failed."""
        if failure and not self._broken:
            log.warning("the state file cannot be written, so a restart may not know what was spent: %s", failure)
        self._broken = bool(failure)

    def write(self, number: int, data: bytes) -> str:
        """Replace the file whole, in the loop or in a thread; why it could not be, or nothing."""
        with self._writing:
            if number <= self._written:  # a later one overtook it, or it was written where no thread was to be had
                return ""
            try:
                _replace(self._path, data)
            except OSError as error:
                return error.strerror or type(error).__name__
            self._written = number
        return ""


def _opened(path: Path | None, owned: bool) -> _File | None:
    if path is None:
        return None
    if not owned:
        log.warning("another exporter keeps the state file: calls of this one are not added to what was spent")
        return None
    return _File(path)


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
