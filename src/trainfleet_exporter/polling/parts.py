"""The parts of one collector: replaced completely or not at all, kept for a while when polls fail, then dropped.

    answer ──publish──► shown ──fail──► shown, failing ──keep_polls intervals──► gone
                          ▲                   │
                          └─────publish───────┘

A part may hold dated readings: at `stale_at` it is rebuilt without those that became too old. Times are loop times.
`read_at` and `stale_at` are Unix seconds, as in the clouds' answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainfleet_exporter.exposition import Renderer
from trainfleet_exporter.telemetry import CollectorState

# Rebuilds a part's objects for a Unix time, and returns when that has to happen next.
Rebuild = Callable[[float], tuple[Sequence[object], float | None]]


class LineStore(Protocol):
    """The store that shows parts (exposition.PageStore)."""

    def put(
        self, part: Hashable, lines: Mapping[str, Sequence[bytes]], *, provider: str, objects: Sequence[object]
    ) -> None: ...
    def drop(self, part: Hashable) -> None: ...


@dataclass(slots=True)
class _Shown:
    read_at: float
    published: float
    stale_at: float | None
    rebuild: Rebuild | None
    series: int = 0
    failing_since: float | None = None


class PartStore:
    """All parts of one provider's collector. Updates the part figures of the collector's state."""

    def __init__(
        self,
        state: CollectorState,
        *,
        page_store: LineStore,
        renderer: Renderer,
        keep_polls: int,
        poll_timeout: float,
        expired: Callable[[str], None] = lambda key: None,
    ) -> None:
        self.missed: set[str] = set()
        """Parts whose object a call did not find, since it was last found or listed."""
        self._state = state
        self._expired = expired
        self._page_store = page_store
        self._renderer = renderer
        self._keep_polls = keep_polls
        self._poll_timeout = poll_timeout
        self._shown: dict[str, _Shown] = {}
        self._failed: set[str] = set()
        self._closed = False

    def __contains__(self, key: str) -> bool:
        return key in self._shown

    def publish(
        self, key: str, objects: Sequence[object], *, stale_at: float | None = None, rebuild: Rebuild | None = None
    ) -> int:
        """Replace a part by a complete new response. Return how many of its texts were too long for a label."""
        if self._closed:
            return 0
        shown = _Shown(time.time(), _now(), stale_at, rebuild, self._shown[key].series if key in self._shown else 0)
        too_long = self._show(key, shown, objects)
        self._shown[key] = shown
        self.missed.discard(key)
        self.forgive(key)
        return too_long

    def fail(self, key: str) -> None:
        """The poll of a part ("": of all) failed. Good values stay `keep_polls` intervals from the first failure on."""
        self._failed.add(key)
        shown = self._shown.get(key)
        for each in self._shown.values() if key == "" else filter(None, [shown]):
            each.stale_at = 0.0  # objects of a dated part may have been deleted
        if shown is not None and shown.failing_since is None:
            shown.failing_since = _now()
            if self._is_expired(shown):
                self._expire(key)
        self._note_figures()

    def forgive(self, key: str) -> None:
        """Clear a failure of a part, or of something that is not a shown part (a collector as a whole)."""
        self._failed.discard(key)
        self._note_figures()

    def keep_only(self, keys: Collection[str]) -> None:
        """Drop every part that no longer exists (a deleted workspace, a finished job)."""
        self.keep_if(keys.__contains__)

    def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Drop every part for which `alive` is false."""
        for key in [key for key in self._shown if not alive(key)]:
            self._drop(key)
        self._failed = {key for key in self._failed if alive(key)}
        self.missed = {key for key in self.missed if alive(key)}
        self._note_figures()

    def close(self) -> None:
        """Drop every part and show none after that, even if a poll ends later."""
        self._closed = True
        self.keep_only(())

    def expire(self) -> None:
        """Drop expired parts, and rebuild dated parts without stale readings.

        A part that cannot be rebuilt stays due, and the others continue. Then the first such error is raised.
        """
        wall = time.time()
        first_error: Exception | None = None
        for key, shown in list(self._shown.items()):
            if self._is_expired(shown):
                self._expire(key)
            elif shown.stale_at is not None and wall >= shown.stale_at and shown.rebuild is not None:
                try:
                    objects, stale_at = shown.rebuild(wall)
                    self._show(key, shown, objects)
                    shown.stale_at = stale_at
                except Exception as error:  # noqa: BLE001 - raised below
                    first_error = first_error or error
        self.account()
        if first_error is not None:
            raise first_error

    def account(self) -> None:
        """Record the age of the oldest part, too. Separate from the other figures, because it reads all parts."""
        self._note_figures()
        self._state.oldest_part = min((shown.read_at for shown in self._shown.values()), default=None)

    def _show(self, key: str, shown: _Shown, objects: Sequence[object]) -> int:
        rendered = self._renderer.render(self._state.provider, objects)
        self._page_store.put(self._page_key(key), rendered.lines, provider=self._state.provider, objects=objects)
        self._state.series += rendered.series - shown.series
        shown.series = rendered.series
        return rendered.too_long

    def _is_expired(self, shown: _Shown) -> bool:
        # Use the current interval: a longer cycle must not drop parts that it has not read again yet.
        interval, now = self._state.interval, _now()
        if shown.failing_since is not None and now >= shown.failing_since + self._keep_polls * interval:
            return True
        # A part must not outlive a collector that stopped. A rolling one reads an object again within two intervals.
        return now >= shown.published + (max(1, self._keep_polls) + 1) * interval + self._poll_timeout

    def _expire(self, key: str) -> None:
        self._drop(key)
        self._expired(key)

    def _drop(self, key: str) -> None:
        self._state.series -= self._shown.pop(key).series
        self._page_store.drop(self._page_key(key))

    def _page_key(self, key: str) -> Hashable:
        return (self._state.provider, self._state.collector, key)

    def _note_figures(self) -> None:
        self._state.parts, self._state.parts_failed = len(self._shown), len(self._failed)


def _now() -> float:
    return asyncio.get_running_loop().time()
