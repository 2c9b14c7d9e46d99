"""The data and actions of the endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from trainfleet_exporter.exposition import PageStore
from trainfleet_exporter.telemetry import Telemetry


class ReloadResult(Protocol):
    """The result of a reload (app.reload.ReloadOutcome)."""

    @property
    def success(self) -> bool: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Pages:
    """The data and actions of the endpoints. Pages of the store have a `Standing`."""

    page_store: PageStore
    telemetry: Telemetry
    telemetry_path: str = "/metrics"
    reload: Callable[[], Awaitable[ReloadResult]] | None = None
    """Reloads the config; None if requests may not do that."""
