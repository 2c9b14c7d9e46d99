"""One event loop for all inputs: a new loop for each would take longer than most inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine, as `asyncio.run` does."""
    return _runner().run(work)
