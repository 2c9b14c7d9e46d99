from __future__ import annotations

import asyncio

import pytest

from trainfleet_exporter.lease import elector


@pytest.fixture(autouse=True)
def _stepped_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases use the clock of the loop."""
    monkeypatch.setattr(elector, "steady_clock", lambda: asyncio.get_running_loop().time())
