"""The data and actions of the endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainfleet_exporter.lease import Role
from trainfleet_exporter.page import PageStore
from trainfleet_exporter.polling.poll import LastError
from trainfleet_exporter.telemetry import Telemetry


class ReloadResult(Protocol):
    """The result of a reload (app.reload.ReloadOutcome)."""

    @property
    def success(self) -> bool: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Pages:
    """The data and actions of the endpoints. `waiting_for` names the collectors whose first poll has not ended."""

    page_store: PageStore
    telemetry: Telemetry
    waiting_for: Callable[[], list[str]]
    config_text: Callable[[], str]
    telemetry_path: str = "/metrics"
    last_errors: Callable[[], Mapping[tuple[str, str], LastError | None]] = dict
    """By provider and collector."""
    denied: Callable[[], Sequence[str]] = tuple
    """`metrics.deny`: globs of families that are not published."""
    notice: Callable[[], str] = str
    """Returns a warning for the top of the status page, or an empty text."""
    role: Callable[[], Role] = lambda: Role.LEADER
    """Returns whether this exporter polls, another one does, or that is not certain yet."""
    may_take: Callable[[], bool] = lambda: True
    """Returns whether this exporter may take the lease when its holder is lost."""
    reload: Callable[[], Awaitable[ReloadResult]] | None = None
    """Reloads the config; None if requests may not do that."""
