"""A simulator in a thread with its own loop, because the calls of the vendors' clients block."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from trainfleet_simulator import Simulator


@contextlib.contextmanager
def served(simulator: Simulator) -> Iterator[str]:
    """Serve the simulator; yield its base URL."""
    started, stop = threading.Event(), threading.Event()
    where: list[str] = []

    async def serve() -> None:
        async with simulator.serve() as base_url:
            where.append(base_url)
            started.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert started.wait(10)
        yield where[0]
    finally:
        stop.set()
        thread.join(10)


def sdk(module: str) -> Any:
    """Import a module of a vendor's package; skip the test if it is not installed here."""
    if os.environ.get("CI"):
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"the vendor's package {module} is not installed")
