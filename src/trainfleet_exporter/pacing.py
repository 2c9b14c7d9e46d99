"""Longer intervals, so that an API gets at most `limits.monthly_calls` in 30 days, at a steady pace.

Nothing is stored. The pace follows from the calls of the latest polls, so no restart and no clock can spoil it. The
spent calls are in Prometheus: `increase(trainfleet_exporter_api_requests_total[30d])`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

MONTH_SECONDS = 30 * 86400.0
_LATEST_WEIGHT = 0.2
"""The weight of the latest poll in the mean. Intervals are proportional to the mean, so the pace is exact on average,
even if a few polls cost much more than others."""


def stretch(allowed: int, plans: Iterable[tuple[float, float]]) -> float:
    """Return the factor for all intervals.

    `plans` are the calls of a poll and its configured interval in seconds, of each collector that shares the `allowed`
    calls of 30 days.
    """
    return max(1.0, MONTH_SECONDS * sum(calls / interval for calls, interval in plans) / allowed)


class Pace:
    """The pace of one collector. `configured` is its interval in seconds; `monthly_calls` are its account's, by API;
    `peers` returns all paces of the account, including this one.
    """

    def __init__(
        self, configured: float, monthly_calls: Mapping[str, int], peers: Callable[[], Iterable[Pace]]
    ) -> None:
        self.configured = configured
        self.calls: dict[str, float] = {}
        """By API, the mean calls of a poll."""
        self._monthly_calls = monthly_calls
        self._peers = peers

    @property
    def interval(self) -> float:
        """Seconds from the start of a poll to the start of the next."""
        limited = [api for api in self._monthly_calls if self.calls.get(api)]
        if not limited:
            return self.configured
        peers = list(self._peers())
        return self.configured * max(
            stretch(self._monthly_calls[api], [(peer.calls.get(api, 0.0), peer.configured) for peer in peers])
            for api in limited
        )

    def polled(self, calls: Mapping[str, int]) -> None:
        """Note the calls of a poll that has ended, by API."""
        for api in {*self.calls, *calls}:
            latest = calls.get(api, 0)
            self.calls[api] = (1 - _LATEST_WEIGHT) * self.calls.get(api, latest) + _LATEST_WEIGHT * latest
