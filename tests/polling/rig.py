"""A runner around a collector that a test scripts, on a real page store and real telemetry."""

from __future__ import annotations

from trainfleet_conformance.page import check
from trainfleet_exporter.exposition import Format, PageStore, Renderer, RenderSettings
from trainfleet_exporter.model import JobCount, Status
from trainfleet_exporter.pacing import Pace
from trainfleet_exporter.polling import Collector, Runner
from trainfleet_exporter.telemetry import Telemetry


class Rig:
    """One provider `p` with one collector, keeping last good parts for `keep` intervals."""

    def __init__(
        self, collector: Collector, *, keep: int = 3, poll_timeout: float = 50.0, pace: Pace | None = None
    ) -> None:
        self.page_store = PageStore()
        self.telemetry = Telemetry()
        self.runner = Runner(
            "p",
            collector,
            telemetry=self.telemetry,
            page_store=self.page_store,
            renderer=Renderer(RenderSettings(deny=(), job_labels=())),
            keep_polls=keep,
            poll_timeout=poll_timeout,
            pace=pace,
        )

    async def shown(self) -> dict[str, float]:
        """The published samples by their text."""
        text = self.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
        check(text)
        rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    async def parts(self) -> set[str]:
        """The parts that are shown, by the workspace that `count` named."""
        return {name.partition('workspace_id="')[2].partition('"')[0] for name in await self.shown()}

    def own(self, name: str, **labels: str) -> float | None:
        """One of the exporter's own samples."""
        return self.telemetry.registry.get_sample_value(
            f"trainfleet_exporter_{name}", {"provider": "p", "collector": self.runner.state.collector, **labels}
        )


def count(part: str, value: int = 1) -> list[object]:
    """An object to publish for a part."""
    return [JobCount(part, Status.RUNNING, "Running", value)]
