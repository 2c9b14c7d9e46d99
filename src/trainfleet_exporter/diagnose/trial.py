"""The trial poll of a diagnosis: records each call and series. Of a large cycle over jobs, it polls the first few."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config
from trainfleet_exporter.polling import Collector, Part, PerObjectCollector, Poll
from trainfleet_exporter.providers.registry import Platform
from trainfleet_exporter.sharding import WHOLE, Shard
from trainfleet_exporter.transport import Attempt

_TRIED = 20
"""Jobs to poll in each cycle. They show the cost of all; polling all would take a quarter of an hour."""
_PROGRESS_SECONDS = 3.0


class Trial:
    """The exporter of a config, polled once. `progress` receives lines for a person who waits."""

    def __init__(
        self,
        config: Config,
        platforms: Mapping[str, Platform],
        progress: Callable[[str], None],
        *,
        shard: Shard = WHOLE,
    ) -> None:
        self.attempts: list[tuple[str, Attempt]] = []
        self.units: dict[tuple[str, str], int] = {}
        """By provider and per-object collector, how many jobs a cycle polls."""
        self._progress = progress
        self.exporter = Exporter(
            config,
            platforms,
            observe=lambda provider, attempt: self.attempts.append((provider, attempt)),
            adapt=self._sampled,
            shard=shard,
        )

    async def run(self) -> None:
        """Poll everything once. An interruption ends it early and is not an error."""
        reporting = asyncio.create_task(self._report_on())
        try:
            await self.exporter.poll_once()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            self._progress("interrupted: the report covers the polls so far")
        finally:
            reporting.cancel()

    def scale(self, provider: str, collector: str) -> float:
        """The factor from the polled objects of a collector to all of them."""
        units = self.units.get((provider, collector), 0)
        return max(1.0, units / _TRIED)

    def tried(self, provider: str, collector: str) -> int:
        """Return the number of polled units of a collector."""
        return min(_TRIED, self.units.get((provider, collector), 0))

    def series(self, provider: str) -> dict[str, int]:
        """Return the expected number of series of a provider, by family."""
        found: Counter[str] = Counter()
        store = self.exporter.page_store
        for part in store.parts:
            assert isinstance(part, tuple)
            whose, collector, _ = part
            if whose == provider:
                factor = self.scale(provider, collector)
                for family, count in store.series(part).items():
                    found[family] += round(count * factor)
        return dict(found)

    def _sampled(self, provider: str, collector: Collector) -> Collector:
        if not isinstance(collector, PerObjectCollector):
            return collector
        return _Sample(collector, lambda count: self.units.update({(provider, collector.name): count}))

    async def _report_on(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            waiting = ", ".join(self.exporter.waiting_for()) or "the last responses"
            self._progress(f"{len(self.attempts)} calls made; waiting for {waiting}")


class _Sample(PerObjectCollector):
    """Polls only the first few objects of another collector; `note` gets the number of all."""

    def __init__(self, whole: PerObjectCollector, note: Callable[[int], None]) -> None:
        super().__init__(whole.name, whole.interval, workers=whole.workers)
        self._whole = whole
        self._note = note

    async def begin(self, poll: Poll) -> None:
        await self._whole.begin(poll)

    def objects(self) -> Sequence[str]:
        objects = self._whole.objects()
        self._note(len(objects))
        return objects[:_TRIED]

    def is_current(self, object_id: str) -> bool:
        return self._whole.is_current(object_id)

    def watch(self, callback: Callable[[], None]) -> None:
        self._whole.watch(callback)

    def calls(self, object_id: str) -> int:
        return self._whole.calls(object_id)

    async def poll(self, part: Part) -> None:
        await self._whole.poll(part)
