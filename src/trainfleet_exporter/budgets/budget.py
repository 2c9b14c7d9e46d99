"""The calls of one API that an account may still make in the billing month.

If the spent calls of a month are unknown, the elapsed share of the budget counts as spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from trainfleet_exporter.budgets.billing import BillingPeriod, Month
from trainfleet_exporter.budgets.clock import BudgetClock
from trainfleet_exporter.errors import BudgetSpent


class Budget:
    """The calls of one API that one account may make in a month.

    `known` has the spent calls by month that are on record. `save` writes `bounds` to where they survive a crash,
    and if its argument is True, it does so before it returns. `calls` may change; spent calls stay spent.
    """

    def __init__(
        self,
        api: str,
        calls: int,
        *,
        billing: BillingPeriod | None = None,
        clock: BudgetClock | None = None,
        known: Mapping[str, int] | None = None,
        save: Callable[[bool], None] | None = None,
    ) -> None:
        self.api = api
        self.calls = calls
        self.billing = BillingPeriod() if billing is None else billing
        self.record: dict[str, int] = dict(known or {})
        """Spent calls by month, with the assumed share. The ledger holds and changes this very object."""
        self._clock = BudgetClock() if clock is None else clock
        self._assumed: dict[str, int] = {}
        """By month, the elapsed share that `record` contains because nothing was known."""
        self._counted: Counter[str] = Counter()
        """By month, the calls that this process has made."""
        self._month: Month | None = None
        """The month at the last look, if it was certain."""
        self._latest = self._certain = ""
        """The latest month that the clock showed at the last look, and the one that had begun for certain."""
        self.saved_by(save)
        self._look()  # what was spent before is what was spent before this moment

    @property
    def remaining(self) -> int:
        """The remaining calls of this month."""
        return min(self._remaining(month) for _, month in self._look())

    @property
    def now(self) -> float:
        """The Unix time that decides the month."""
        return self._look()[0][0]

    @property
    def month(self) -> Month:
        """The current month."""
        return self._look()[0][1]

    @property
    def left(self) -> float:
        """Seconds to the month's end, above 0."""
        time, month = self._look()[0]
        return month.left(time)

    @property
    def rate(self) -> float:
        """The calls per second that spend exactly the remaining calls by the month's end."""
        return min(self._remaining(month) / month.left(time) for time, month in self._look())

    @property
    def whole_rate(self) -> float:
        """The calls per second that spend the whole budget in the whole month."""
        return self.calls / self.month.seconds

    @property
    def spent(self) -> dict[str, int]:
        """Spent calls by month, as a state file may contain them."""
        self._look()
        return {name: self._on_record(name) for name in self.record}

    @property
    def bounds(self) -> dict[str, int]:
        """The same, with the calls that may be made before the next writing."""
        months, bounds = self._look(), self.spent
        for _, month in months:
            spent = bounds[month.name]
            bounds[month.name] = max(spent, min(self.calls, spent + self._ahead))
        return bounds

    def check(self) -> None:
        """Raise BudgetSpent if no call is left."""
        self._refuse_if_spent(self._look())

    def take(self) -> None:
        """Count an attempt before it is made, or raise BudgetSpent."""
        months = self._look()
        self._refuse_if_spent(months)
        for _, month in months:
            self.record[month.name] += 1
            self._counted[month.name] += 1
        if self._save is not None:
            # Soon when half of the calls written ahead are used up, at once when all are.
            covered = [self._safe.get(month.name, 0) - self._on_record(month.name) for _, month in months]
            if min(covered) <= self._ahead // 2:
                self._save(min(covered) < 0)

    def saved(self, bounds: Mapping[str, int]) -> None:
        """These bounds have been written."""
        self._safe.update(bounds)

    def saved_by(self, save: Callable[[bool], None] | None) -> None:
        """Change the writer of the bounds to one that has written nothing yet, or to none."""
        self._save = save
        self._safe: dict[str, int] = {}

    def know(self, months: Mapping[str, int]) -> None:
        """Merge another record of these months: the larger count stays.

        Its counts are certain: they stay if an assumed share is removed later.
        """
        self._look()
        for name, calls in months.items():
            certain = max(calls, self.record.get(name, 0) - self._assumed.get(name, 0))
            self.record[name] = max(calls, self.record.get(name, 0))
            self._assumed[name] = self.record[name] - certain

    def assume_nothing(self) -> None:
        """Remove the assumed shares, because the real earlier calls are about to be added to the record."""
        self._look()
        for name in list(self._assumed):
            self._take_back(name)

    def _refuse_if_spent(self, months: list[tuple[float, Month]]) -> None:
        for time, month in months:
            if self._remaining(month) == 0:
                raise BudgetSpent(
                    f"{self.api}: not tried: the month's {self.calls} calls (limits.monthly_calls) are spent; "
                    f"the month of {month.name} ends in {_span(month.left(time))}"
                )

    @property
    def _ahead(self) -> int:
        """The number of calls by which the state file is written ahead: those of some minutes.

        A crash may waste them.
        """
        return max(1, min(10, self.calls // 100), self.calls // 5000) if self._counted else 0

    def _remaining(self, month: Month) -> int:
        return max(0, self.calls - self.record[month.name])

    def _on_record(self, name: str) -> int:
        """Spent calls of a month without the share of one that has not begun for certain.

        A wrong clock may have shown it, and the state file would spend that share when the month begins.
        """
        return self.record[name] - (self._assumed.get(name, 0) if name > self._certain else 0)

    def _look(self) -> list[tuple[float, Month]]:
        """The present time with its month; a second one if the clock was set and that is another month."""
        look = self._clock.look()
        if self._month is not None and look.times == (look.certain,) and self._month.contains(look.certain):
            return [(look.certain, self._month)]
        months = [(time, self.billing.month(time)) for time in look.times]
        if len(months) > 1 and months[0][1] == months[1][1]:
            del months[1]
        self._month = months[0][1] if len(months) == 1 else None
        names = [month.name for _, month in months]
        # This process counted when the month began, so it knows all calls of the month.
        is_new = len(names) == 1 and "" < self._latest < names[0]
        for time, month in months:
            if is_new:
                self._take_back(month.name)
                self.record.setdefault(month.name, 0)
            elif month.name not in self.record:
                self.record[month.name] = self._assumed[month.name] = month.elapsed_share(self.calls, time)
        self._latest = max(names)
        self._certain = self.billing.month(look.certain).name
        self._carry_back()
        return months

    def _take_back(self, name: str) -> None:
        if name in self._assumed:
            self.record[name] = max(0, self.record[name] - self._assumed.pop(name))

    def _carry_back(self) -> None:
        """Move calls counted in months that have not begun to this one: the clock was ahead."""
        later = sum(calls for name, calls in self._counted.items() if name > self._certain)
        if later > self._counted[self._certain]:
            self.record[self._certain] += later - self._counted[self._certain]
            self._counted[self._certain] = later


def _span(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 86400 else f"{seconds / 3600:.1f} hours"
