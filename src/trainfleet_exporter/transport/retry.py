"""When to retry a call: at most twice, after a random wait or as the service asks."""

from __future__ import annotations

import math
from random import Random

MAX_ATTEMPTS = 3
_BACKOFF_BASE = 0.2
_LONGEST_HINT = 3600.0


def backoff(attempt: int, random: Random) -> float:
    """Return the seconds to wait after this attempt (1 or more), by full jitter.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    return random.uniform(0, _BACKOFF_BASE * 2.0 ** (attempt - 1))


def wait_hint(retry_after: float | None) -> float | None:
    """Return a service's hint in seconds if it is plausible, else None.

    The limit is an hour: a wrong header must not stop calls to a host permanently.
    """
    if retry_after is None or not math.isfinite(retry_after) or retry_after <= 0:
        return None
    return min(retry_after, _LONGEST_HINT)
