"""Paired timings: two ways of doing the same, in turn, so that a machine whose speed drifts slows both alike."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable
from time import perf_counter

Work = Callable[[], Awaitable[object]]


async def compare(title: str, ours: Work, theirs: Work, *, rounds: int = 11) -> str:
    """Time both in turn after a warm-up, and report medians and the median of the pairwise ratios."""
    await ours()
    await theirs()
    pairs = [(await _seconds(ours), await _seconds(theirs)) for _ in range(rounds)]
    ratios = [other / own for own, other in pairs]
    own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    return (
        f"{title:<58} {own * 1e3:>9.2f} ms {other * 1e3:>9.2f} ms"
        f" {statistics.median(ratios):>7.2f} x  ({min(ratios):.2f} to {max(ratios):.2f})"
    )


async def _seconds(work: Work) -> float:
    started = perf_counter()
    await work()
    return perf_counter() - started
