"""A clock that can be set, budgets that are spent, and ledgers of processes that crash."""

from __future__ import annotations

from pathlib import Path

from trainfleet_exporter.budgets import BillingPeriod, Budget, BudgetClock, Ledger, StateFile
from trainfleet_exporter.config import AccountKey
from trainfleet_exporter.errors import BudgetSpent

HOUR = 3600.0
DAY = 24 * HOUR
MAIN = AccountKey("account", "main")
month = BillingPeriod().named
JANUARY = month("2026-01")


class Clock:
    """A wall clock that can be set, and a steady one that cannot."""

    def __init__(self, wall: float) -> None:
        self.wall = wall
        self.steady = 0.0

    def watched(self) -> BudgetClock:
        """What a process sees of it."""
        return BudgetClock(wall=lambda: self.wall, steady=lambda: self.steady)

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class _Unlocked(StateFile):
    """Of a process that may have crashed: its lock blocks no other."""

    def _acquire(self, path: Path) -> None:
        pass


def opened(path: Path | None, clock: Clock | None = None, *, owned: bool = True, part: str = "") -> Ledger:
    """The ledger of a new process."""
    return Ledger(file(path, owned=owned), clock=None if clock is None else clock.watched(), part=part)


def file(path: Path | None, *, owned: bool = True) -> StateFile:
    """A state file without a lock."""
    found = _Unlocked(path)
    found.owned = owned
    return found


def spend(budget: Budget, calls: int) -> int:
    """Try so many calls; how many were allowed."""
    for made in range(calls):
        try:
            budget.take()
        except BudgetSpent:
            return made
    return calls
