"""Makes intervals longer so that a budget lasts until the month ends: details first, counts by status last.

The calls that may be made in a second are the remaining calls divided by the remaining seconds. Each rank of collectors
gets a small part of them; the rest goes to the ranks in order, the most important first. Within a rank, all intervals
grow by the same factor. This is computed again for each poll, so calls that were too many or too few in one hour are
spread over the whole rest of the month.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from enum import IntEnum

from trainfleet_exporter.budgets.budget import Budget

_POLLS_LEARNT_FROM = 5
_LEAST_PART = 0.1
"""The smallest part of the allowed rate for each rank that wants that much."""
_LONGEST_SILENCE = 86400.0
"""Seconds before a month's end in which a spent budget is not a failure."""
_INTO_THE_MONTH = 1.0
"""Seconds after which a new month is sure to have begun, for clocks and timers that are a little early."""
_ROUNDING_ERROR = 1e-6


class Rank(IntEnum):
    """The lowest number slows down last."""

    COUNTS = 0
    LISTS = 1
    DETAIL = 2


_RANKS = {"job_counts": Rank.COUNTS} | dict.fromkeys(("usage", "pods", "nodes", "maintenance"), Rank.DETAIL)


class Throttle:
    """The limit on the polls of one collector. Made by Throttling.join.

    `budgets` are by API, and so is `sharing`: all throttles of a budget, of all providers of its account.
    """

    def __init__(
        self, configured: float, rank: Rank, budgets: Mapping[str, Budget], sharing: Mapping[str, list[Throttle]]
    ) -> None:
        self.configured = configured
        self.rank = rank
        self._budgets = budgets
        self._sharing = sharing
        self._began: dict[str, float] = {}
        self._running: Counter[str] = Counter()
        self._learnt: dict[str, deque[int]] = {api: deque(maxlen=_POLLS_LEARNT_FROM) for api in budgets}
        for throttles in sharing.values():
            throttles.append(self)

    @property
    def interval(self) -> float:
        """Seconds from the start of a poll to that of the next: the longest that any of its budgets needs."""
        return max([self.configured, *(self._interval(api, budget) for api, budget in self._budgets.items())])

    def calls(self, api: str) -> float:
        """About how many calls a poll makes; 0 before the first one has ended."""
        learnt = self._learnt[api]
        return max(sum(learnt) / len(learnt), self._running[api]) if learnt else 0.0

    def begin(self) -> None:
        """A poll begins."""
        self._began = {api: budget.now for api, budget in self._budgets.items()}

    def attempted(self, api: str) -> None:
        """The running poll made an attempt."""
        self._running[api] += 1

    def polled(self) -> None:
        """A poll (or cycle) has ended: the next ones are expected to make as many calls."""
        for api, budget in self._budgets.items():
            # A poll that a spent budget cut short would make polls look cheap.
            if budget.remaining > 0 or not self._learnt[api]:
                self._learnt[api].append(self._running[api])
        self._running.clear()

    def leave(self) -> None:
        """Leave the budgets."""
        for throttles in self._sharing.values():
            throttles.remove(self)
        # A poll of it may still be ending: its interval is the configured one then.
        self._budgets, self._sharing = {}, {}

    def _interval(self, api: str, budget: Budget) -> float:
        """Seconds between two polls that a budget allows; 0 if it sets no limit."""
        calls = self.calls(api)
        if not calls:
            return 0.0
        now, left, remaining = budget.now, budget.left, budget.remaining
        until_end = left + max(0.0, now - self._began.get(api, now))
        until_new_month = until_end + _INTO_THE_MONTH
        if remaining == 0:
            # Spent to the last call on time: the next poll is the new month's first. Spent long before: polls go on,
            # cost nothing and fail, so that users see it and old values expire.
            part, _ = self._part(api, budget.whole_rate)
            return until_new_month if left <= min(2 * self.configured / part, _LONGEST_SILENCE) else 0.0
        part, before = self._part(api, budget.rate)
        # The remaining calls, less those that more important ranks need, pay for so many whole polls, which are spread
        # evenly. A poll that they cannot pay for is the new month's first.
        polls = max(0, math.floor((remaining - before * left) / calls + _ROUNDING_ERROR))
        interval = max(self.configured / part, until_end / (polls + 1))
        return interval if interval < until_end else until_new_month

    def _part(self, api: str, rate: float) -> tuple[float, float]:
        """The part of its wanted calls that it gets, up to 1; calls a second that more important ranks get."""
        wanted = dict.fromkeys(Rank, 0.0)
        for other in self._sharing[api]:
            wanted[other.rank] += other.calls(api) / other.configured
        given = {rank: min(want, _LEAST_PART * rate) for rank, want in wanted.items()}
        rest = rate - sum(given.values())
        for rank, want in wanted.items():  # the most important first
            more = min(want - given[rank], rest)
            given[rank] += more
            rest -= more
        before = sum(given[rank] for rank in Rank if rank < self.rank)
        return given[self.rank] / wanted[self.rank], before


class Throttling:
    """The throttles of all collectors whose APIs have budgets."""

    def __init__(self) -> None:
        self._sharing: dict[Budget, list[Throttle]] = {}
        self._throttles: dict[tuple[str, str], Throttle] = {}

    def join(
        self, provider: str, collector: str, interval: float, budgets: Mapping[str, Budget], *, rolls: bool = False
    ) -> Throttle:
        """The throttle of one collector with its configured interval; `budgets` are its account's, by API.

        A collector that `rolls` over the jobs one by one is detail.
        """
        sharing = {api: self._sharing.setdefault(budget, []) for api, budget in budgets.items()}
        rank = _RANKS.get(collector, Rank.DETAIL if rolls else Rank.LISTS)
        throttle = self._throttles[provider, collector] = Throttle(interval, rank, budgets, sharing)
        return throttle

    def leave(self, provider: str) -> None:
        """Remove a provider's collectors: the others get their calls."""
        for key in [key for key in self._throttles if key[0] == provider]:
            self._throttles.pop(key).leave()
        self._sharing = {budget: throttles for budget, throttles in self._sharing.items() if throttles}

    def attempted(self, provider: str, collector: str, api: str) -> None:
        """A collector's poll made an attempt. One of no collector is counted by the budget alone."""
        if (throttle := self._throttles.get((provider, collector))) is not None:
            throttle.attempted(api)
