"""How many calls of one API an account may still make this month.

A month is the calendar month in UTC+8, China Standard Time, by which both clouds bill. What was spent before the
exporter knew is taken to be the month's elapsed share of the calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainfleet_exporter.errors import BudgetSpent
from trainfleet_exporter.transport.calendar import Calendar, Moment, Month, elapsed

_AHEAD = 60.0
"""For so many seconds' calls, or some times as many, the state file is written ahead."""
_LEAST_MOST = 10
"""Calls that it is written ahead at most, or a fiftieth of the budget: so many a crash may waste."""


@dataclass(slots=True)
class _Line:
    """What is known of one month. `safe` is what the state file says at least."""

    before: int
    assumed: int = 0
    """The elapsed share, where nothing is known of what was spent before."""
    counted: int = 0
    safe: int = 0

    @property
    def spent(self) -> int:
        return self.before + self.assumed + self.counted


class Budget:
    """The calls of one API that one account may make in a month.

    `known` is what was spent by month, where that is on record. `save` has the bounds of `promise` written where they
    survive a crash; at once if it is told so, because the attempt that is about to be made exceeds them. `calls` may
    be set anew: what was spent stays spent.
    """

    def __init__(
        self,
        api: str,
        calls: int,
        *,
        calendar: Calendar | None = None,
        known: Mapping[Month, int] | None = None,
        save: Callable[[bool], None] | None = None,
    ) -> None:
        self.api = api
        self.calls = calls
        self._calendar = Calendar() if calendar is None else calendar
        self._known = dict(known or {})
        self._save = save
        self._lines: dict[Month, _Line] = {}
        self._last: Moment | None = None
        self._ahead = 0
        self._saved_at = -math.inf
        self._asked = False
        self._now()  # what was spent before is what was spent before this moment

    @property
    def remaining(self) -> int:
        """How many calls are left in this month."""
        return min(self._remaining(moment) for moment in self._now())

    @property
    def now(self) -> float:
        """The Unix time by which the month goes."""
        return self._now()[0].time

    @property
    def left(self) -> float:
        """Seconds to the month's end, above 0."""
        return self._now()[0].left

    @property
    def rate(self) -> float:
        """Calls a second that would spend exactly the rest by the month's end."""
        return min(self._remaining(moment) / moment.left for moment in self._now())

    @property
    def whole_rate(self) -> float:
        """Calls a second that would spend the whole budget in the whole month."""
        return self.calls / self._now()[0].month.seconds

    @property
    def spent(self) -> dict[Month, int]:
        """What is on record as spent, by month."""
        return self.promise(exact=True)

    def check(self) -> None:
        """BudgetSpent if no call is left."""
        self._refuse_if_spent(self._now())

    def _refuse_if_spent(self, moments: tuple[Moment, ...]) -> None:
        for moment in moments:
            if self._remaining(moment) == 0:
                raise BudgetSpent(
                    f"{self.api}: not tried: the month's {self.calls} calls (limits.monthly_calls) are spent; "
                    f"the month of {moment.month} ends in {_span(moment.left)}"
                )

    def take(self) -> None:
        """Count an attempt that is about to be made, or BudgetSpent."""
        moments = self._now()
        self._refuse_if_spent(moments)
        for moment in moments:
            self._lines[moment.month].counted += 1
        if self._save is not None:
            self._cover(self._save, moments)

    def promise(self, *, exact: bool) -> dict[Month, int]:
        """By month what has been spent; unless it is to be exact, with what may be spent before the next look."""
        moments = self._now()
        bounds = self._known | {month: self._on_record(month) for month in self._lines}
        for moment in () if exact else moments:
            spent = bounds[moment.month]
            bounds[moment.month] = max(spent, min(self.calls, spent + self._ahead))
        return bounds

    def promised(self, bounds: Mapping[Month, int]) -> None:
        """The bounds have been written."""
        self._asked = False
        for month, bound in bounds.items():
            if month in self._lines:
                self._lines[month].safe = bound

    def saved_by(self, save: Callable[[bool], None] | None) -> None:
        """Have the bounds written by somebody else from now on, who has nothing of them yet; or by nobody."""
        self._save = save
        self._asked, self._ahead, self._saved_at = False, 0, -math.inf
        for line in self._lines.values():
            line.safe = 0

    def assume_nothing(self) -> None:
        """What was spent before is about to be told by `add`: nothing is assumed of it."""
        self._now()
        for line in self._lines.values():
            line.before = line.assumed = 0

    def add(self, calls: Mapping[Month, int]) -> None:
        """Calls that were counted elsewhere by month (below 0: that were counted here and are not any more)."""
        self._set(
            {month: spent + calls.get(month, 0) for month, spent in ({**dict.fromkeys(calls, 0), **self.spent}).items()}
        )

    def at_least(self, calls: Mapping[Month, int]) -> None:
        """By month, what is known to have been spent at least."""
        self._set({month: max(calls.get(month, 0), spent) for month, spent in ({**calls, **self.spent}).items()})

    def _set(self, spent: Mapping[Month, int]) -> None:
        for month, calls in spent.items():
            if (line := self._lines.get(month)) is not None:
                line.before += max(0, calls) - self._on_record(month)
            else:
                self._known[month] = max(0, calls)

    def _cover(self, save: Callable[[bool], None], moments: tuple[Moment, ...]) -> None:
        """Have the state file stay ahead: in good time where half of what it allows is used up, else at once."""
        covered = min(self._lines[moment.month].safe - self._on_record(moment.month) for moment in moments)
        at = moments[0].time
        if covered >= 0 and (covered > self._ahead // 2 or self._asked):
            return
        # So many that one to ten minutes pass before the next writing, by how long the last ones lasted.
        lasted = abs(at - self._saved_at)
        if lasted < _AHEAD:
            self._ahead = min(max(_LEAST_MOST, self.calls // 50), max(1, self._ahead) * 2)
        elif lasted > 10 * _AHEAD:
            self._ahead = max(self._ahead // 2, math.ceil(self.whole_rate * _AHEAD))
        self._saved_at, self._asked = at, True
        save(covered < 0)

    def _remaining(self, moment: Moment) -> int:
        return max(0, self.calls - self._lines[moment.month].spent)

    def _on_record(self, month: Month) -> int:
        """What the state file may keep of a month: of one that a wrong clock may have shown, not the elapsed share.

        The file outlives the wrong clock, and would spend that share when the month begins.
        """
        line = self._lines[month]
        return line.spent if month <= self._begun else line.spent - line.assumed

    def _now(self) -> tuple[Moment, ...]:
        moments = self._calendar.now()
        self._begun = moments[-1].month  # the latest one that has begun for certain
        if self._last is None or moments[0].month != self._last.month or len(moments) > 1:
            self._turn_page(moments)
        self._last = moments[0]
        return moments

    def _turn_page(self, moments: tuple[Moment, ...]) -> None:
        """Open the lines of the months that it may be now."""
        current, steady = moments[0], moments[-1]
        for moment in moments:
            if moment.month not in self._lines:
                self._lines[moment.month] = self._line(moment)
        is_later = self._last is not None and self._last.month < steady.month
        if is_later and len(moments) == 1 and self._calendar.saw_begin(current):
            # The month began while we counted, so that nothing of it was spent without our knowing.
            line = self._lines[current.month]
            line.before, line.assumed = self._known.get(current.month, 0), 0
        earlier = current.month < steady.month or (self._last is not None and current.month < self._last.month)
        if earlier and self._calendar.young:
            self._begun = min(self._begun, current.month)
            self._carry_back(current.month)

    def _line(self, moment: Moment) -> _Line:
        known = self._known.get(moment.month)
        return _Line(before=0, assumed=elapsed(self.calls, moment)) if known is None else _Line(before=known)

    def _carry_back(self, month: Month) -> None:
        """The clock that we started by was ahead: what was counted in later months belongs to this one."""
        later = sum(line.counted for other, line in self._lines.items() if other > month)
        line = self._lines[month]
        line.counted = max(line.counted, later)


def _span(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 86400 else f"{seconds / 3600:.1f} hours"
