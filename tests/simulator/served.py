"""A simulator in a thread with its own loop, because the calls of the vendors' clients block."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from trainfleet_simulator import Simulator


@contextlib.contextmanager
def served(simulator: Simulator) -> Iterator[str]:
    """Serve the simulator; yield its base URL."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(simulator.serve()) as base_url:
        yield base_url


def sdk(module: str) -> Any:
    """Import a module of a vendor's package; skip the test if it is not installed here."""
    if os.environ.get("CI"):
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"the vendor's package {module} is not installed")
