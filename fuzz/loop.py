"""One event loop for all inputs, because creating one for each takes longer than most inputs."""

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
    """What `asyncio.run` gives."""
    return _runner().run(work)
