"""How polls stretch so that a month's budget lasts to the month's end: detail first, status counts last.

What may be spent in a second is what remains over the seconds that remain. It is dealt out by rank, the most important
first, after each rank has got a small part; within a rank all collectors stretch alike. As the rest is looked at anew
all the time, whatever was spent too fast or too slowly is spread over the whole rest of the month.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from enum import IntEnum

from trainfleet_exporter.transport.budget import Budget

_POLLS_LEARNT_FROM = 5
_LEAST_PART = 0.1
"""The part of the allowed rate that each rank gets at least, if it asks for so much."""
_LONGEST_SILENCE = 86400.0
"""Seconds before a month's end in which a budget may be spent without that being a failure."""
_INTO_THE_MONTH = 1.0
"""Seconds after which a new month is sure to have begun, for clocks and timers that are a little early."""
_ROUNDING = 1e-6


class Rank(IntEnum):
    """What stretches last has the lowest number."""

    COUNTS = 0
    LISTS = 1
    DETAIL = 2


_RANKS = {"job_counts": Rank.COUNTS} | dict.fromkeys(("usage", "pods", "nodes"), Rank.DETAIL)


class Pace:
    """How fast one collector may poll. Made by Pacing.join."""

    def __init__(self, configured: float, rank: Rank, shares: Mapping[str, Sharing]) -> None:
        self.configured = configured
        self.rank = rank
        self._shares = shares
        self._began: dict[str, float] = {}
        self._running: Counter[str] = Counter()
        self._learnt: dict[str, deque[int]] = {api: deque(maxlen=_POLLS_LEARNT_FROM) for api in shares}
        for sharing in shares.values():
            sharing.paces.append(self)

    @property
    def interval(self) -> float:
        """Seconds from the start of a poll to that of the next: the longest that one of its budgets asks for."""
        return max([self.configured, *(sharing.interval(self) for sharing in self._shares.values())])

    def calls(self, api: str) -> float:
        """About how many calls a poll makes; 0 before the first one has ended."""
        learnt = self._learnt[api]
        return max(sum(learnt) / len(learnt), self._running[api]) if learnt else 0.0

    def began(self, api: str) -> float:
        """The Unix time at which the latest poll began; now, before there was any."""
        return self._began.get(api, self._shares[api].now)

    def begin(self) -> None:
        """A poll begins."""
        self._began = {api: sharing.now for api, sharing in self._shares.items()}

    def attempted(self, api: str) -> None:
        """The running poll made an attempt."""
        self._running[api] += 1

    def polled(self) -> None:
        """A poll (or cycle) has ended: what it cost is what the next ones are expected to cost."""
        for api, sharing in self._shares.items():
            # A poll that was refused for the budget would tell that polls are cheap.
            if not sharing.is_spent or not self._learnt[api]:
                self._learnt[api].append(self._running[api])
        self._running.clear()

    def leave(self) -> None:
        """Ask nothing of the budgets any more."""
        for sharing in self._shares.values():
            sharing.paces.remove(self)
        self._shares = {}  # a poll of it may still be ending, whose interval is the configured one then


class Sharing:
    """One budget and all collectors, of all providers of its account, that draw on it."""

    def __init__(self, budget: Budget) -> None:
        self.paces: list[Pace] = []
        self._budget = budget

    @property
    def now(self) -> float:
        """The Unix time by which the month goes."""
        return self._budget.now

    @property
    def is_spent(self) -> bool:
        """Whether no call is left."""
        return self._budget.remaining == 0

    def interval(self, pace: Pace) -> float:
        """Seconds between two polls that this budget allows a collector; 0 where it does not mind."""
        calls = pace.calls(self._budget.api)
        if not calls:
            return 0.0
        left, remaining = self._budget.left, self._budget.remaining
        until_end = left + max(0.0, self.now - pace.began(self._budget.api))
        until_new_month = until_end + _INTO_THE_MONTH
        if remaining == 0:
            # Spent to the last call on time: the next poll is the new month's first. Spent long before: polls go on,
            # cost nothing and fail, so that everybody sees it and nothing old stays on show till then.
            part, _ = self._part(pace, self._budget.whole_rate)
            return until_new_month if left <= min(2 * pace.configured / part, _LONGEST_SILENCE) else 0.0
        part, before = self._part(pace, self._budget.rate)
        # As many whole polls as the rest can pay for, besides what the more important ones need of it, are spread
        # evenly; one that it cannot pay for is the new month's first.
        polls = max(0, math.floor((remaining - before * left) / calls + _ROUNDING))
        interval = max(pace.configured / part, until_end / (polls + 1))
        return interval if interval < until_end else until_new_month

    def _part(self, pace: Pace, rate: float) -> tuple[float, float]:
        """Which part of what a collector asks for it gets, up to 1, and what more important ranks get a second."""
        api = self._budget.api
        wanted = dict.fromkeys(Rank, 0.0)
        for other in self.paces:
            wanted[other.rank] += other.calls(api) / other.configured
        given = {rank: min(want, _LEAST_PART * rate) for rank, want in wanted.items()}
        rest = rate - sum(given.values())
        for rank, want in wanted.items():  # the most important first
            more = min(want - given[rank], rest)
            given[rank] += more
            rest -= more
        before = sum(given[rank] for rank in Rank if rank < pace.rank)
        return given[pace.rank] / wanted[pace.rank], before


class Pacing:
    """The paces of all collectors whose APIs have budgets."""

    def __init__(self) -> None:
        self._sharings: dict[Budget, Sharing] = {}
        self._paces: dict[tuple[str, str], Pace] = {}

    def join(
        self, provider: str, collector: str, interval: float, budgets: Mapping[str, Budget], *, rolls: bool = False
    ) -> Pace:
        """The pace of one collector with its configured interval; `budgets` are its account's, by API.

        What `rolls` over the jobs one by one is detail.
        """
        shares = {api: self._sharings.setdefault(budget, Sharing(budget)) for api, budget in budgets.items()}
        usual = Rank.DETAIL if rolls else Rank.LISTS
        pace = self._paces[provider, collector] = Pace(interval, _RANKS.get(collector, usual), shares)
        return pace

    def leave(self, provider: str) -> None:
        """A provider's collectors poll no more: what they asked of the budgets is for the others."""
        for key in [key for key in self._paces if key[0] == provider]:
            self._paces.pop(key).leave()
        self._sharings = {budget: sharing for budget, sharing in self._sharings.items() if sharing.paces}

    def attempted(self, provider: str, collector: str, api: str) -> None:
        """A collector's poll made an attempt. One that no collector made is nobody's, and only the budget counts it."""
        if (pace := self._paces.get((provider, collector))) is not None:
            pace.attempted(api)
