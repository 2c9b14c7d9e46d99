"""When to retry: full-jitter backoff, limited by a budget that grows with every call."""

from __future__ import annotations

import math
from random import Random

MAX_ATTEMPTS = 3
_BACKOFF_BASE = 0.2
_BACKOFF_CAP = 10.0
_LONGEST_HINT = 3600.0


class RetryBudget:
    """Limits retries to a tenth of all calls, so that a failing service does not get many times its load.

    Counted in whole tenths: 0.1 has no exact float, and the bound must hold exactly.
    """

    _PRICE = 10
    _MOST = 10 * _PRICE

    def __init__(self) -> None:
        self._tenths = 0

    def earn(self) -> None:
        """Record the first attempt of a call, which adds a tenth of a retry, up to ten retries."""
        self._tenths = min(self._MOST, self._tenths + 1)

    def spend(self) -> bool:
        """Take one retry. Return False if none is left."""
        if self._tenths < self._PRICE:
            return False
        self._tenths -= self._PRICE
        return True


def backoff(failures: int, random: Random) -> float:
    """Return the seconds to wait after this number of failures in a row (1 or more), by full jitter.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    exponent = min(failures - 1, 16)  # far above the cap already; keeps the power small
    return random.uniform(0, min(_BACKOFF_CAP, _BACKOFF_BASE * 2.0**exponent))


def wait_hint(retry_after: float | None) -> float | None:
    """Return a service's hint in seconds if it is plausible, else None.

    The limit is an hour: a wrong header must not stop calls to a host permanently.
    """
    if retry_after is None or not math.isfinite(retry_after) or retry_after <= 0:
        return None
    return min(retry_after, _LONGEST_HINT)
