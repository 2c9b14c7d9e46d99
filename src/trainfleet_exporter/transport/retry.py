"""When to try again: full-jitter backoff, bounded by a budget that every call pays into."""

from __future__ import annotations

import math
from random import Random

MAX_ATTEMPTS = 3
_BACKOFF_BASE = 0.2
_BACKOFF_CAP = 10.0
_LONGEST_HINT = 3600.0


class RetryBudget:
    """Lets retries be a tenth of all calls at most, so that a failing service is never hit by many times its load.

    Counted in whole tenths: 0.1 has no exact float, and the bound must hold exactly.
    """

    _PRICE = 10
    _MOST = 10 * _PRICE

    def __init__(self) -> None:
        self._tenths = 0

    def earn(self) -> None:
        """A call made its first attempt: a tenth of a retry is saved up, to ten retries at most."""
        self._tenths = min(self._MOST, self._tenths + 1)

    def spend(self) -> bool:
        """Take one retry; False if there is none to take."""
        if self._tenths < self._PRICE:
            return False
        self._tenths -= self._PRICE
        return True


def backoff(failures: int, random: Random) -> float:
    """Seconds to wait after so many failures in a row (1 or more), by full jitter.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    exponent = min(failures - 1, 16)  # far above the cap already; keeps the power small
    return random.uniform(0, min(_BACKOFF_CAP, _BACKOFF_BASE * 2.0**exponent))


def wait_hint(retry_after: float | None) -> float | None:
    """A service's hint in seconds if it is one to obey, else None.

    An hour is believed at most: one mistaken header must not silence a host permanently.
    """
    if retry_after is None or not math.isfinite(retry_after) or retry_after <= 0:
        return None
    return min(retry_after, _LONGEST_HINT)
