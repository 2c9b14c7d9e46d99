"""An exporter on a scripted cloud. The test writes the responses; transport and signatures are real."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.support.configs import exporter_of, written
from tests.support.logs import texts_of
from trainfleet_exporter.exposition import Format
from trainfleet_exporter.polling import Runner, Schedule
from trainfleet_exporter.providers import registry
from trainfleet_exporter.transport import Transport


class Fleet:
    """An exporter on a scripted cloud. Use inside stepped time: `async with Fleet(...) as fleet`."""

    def __init__(
        self,
        cloud: Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        *,
        config: str,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._caplog = caplog
        monkeypatch.setattr(
            registry,
            "Transport",
            partial(
                Transport,
                send=httpx.MockTransport(cloud),  # type: ignore[arg-type]  # a handler may be async
            ),
        )
        self.exporter = exporter_of(written(tmp_path, config), environ)
        self.schedule = Schedule(self.exporter.runners)

    @property
    def log(self) -> list[str]:
        """All messages in the log so far, of all loggers and levels."""
        return texts_of(self._caplog.records)

    def runner(self, collector: str) -> Runner:
        """Return the runner of a collector."""
        return next(runner for runner in self.exporter.runners if runner.state.collector == collector)

    async def __aenter__(self) -> Fleet:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.schedule.stop()
        await self.exporter.aclose()

    async def lines(self, *prefixes: str) -> list[str]:
        """Return the published samples whose names begin with `trainfleet_` and one of the prefixes."""
        text = self.exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
        wanted = tuple(f"trainfleet_{prefix}" for prefix in prefixes)
        return [line for line in text.splitlines() if line.startswith(wanted)]

    async def value(self, series: str) -> float | None:
        """Return the value of a series, or None. `series` has neither `trainfleet_` nor the label `provider`."""
        name, _, labels = series.partition("{")
        wanted = f'trainfleet_{name}{{provider="p"' + (f",{labels}" if labels else "}")
        found = [line for line in await self.lines(name) if line.startswith(wanted + " ")]
        assert len(found) <= 1
        return float(found[0].rpartition(" ")[2]) if found else None

    def own(self, name: str, **labels: str) -> float | None:
        """Return the value of one of the exporter's own series of this provider, or None."""
        labels = {"provider": "p", **labels}
        return self.exporter.telemetry.registry.get_sample_value(f"trainfleet_exporter_{name}", labels)
