"""Jobs that ended are forgotten: soon, nothing of the exporter holds their ids. Three simulated clouds."""

from __future__ import annotations

import asyncio
import gc
import re
import types
from pathlib import Path
from typing import Any

import pytest

from tests.support.configs import exporter_of
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.exposition import Format
from trainfleet_exporter.fleet.histories import JobHistories
from trainfleet_exporter.job_ledger.use import UseWatch
from trainfleet_exporter.polling import Schedule
from trainfleet_simulator import Simulator

SKIPPED = (
    types.ModuleType,
    type,
    types.BuiltinFunctionType,
    asyncio.AbstractEventLoop,
    asyncio.Task,
    types.CoroutineType,
)
REMEMBERING = (JobHistories, UseWatch)
"""The first remembers for a day which ends it has counted, the second what jobs without an end used."""


def texts_of(root: object) -> set[str]:
    """All texts that can be reached from an object, but for those of modules, of running tasks and of REMEMBERING."""
    left, seen, found = [root], set[int](), set[str]()
    while left:
        here: Any = left.pop()
        if isinstance(here, str):
            found.add(here)
        elif id(here) not in seen and not isinstance(here, (*SKIPPED, *REMEMBERING)):
            seen.add(id(here))
            is_function = isinstance(here, types.FunctionType)
            left += [*(here.__closure__ or ()), here.__defaults__] if is_function else gc.get_referents(here)
            left += [getattr(here, name) for name in getattr(type(here), "__struct_fields__", ())]
    return found


@pytest.mark.long
async def test_jobs_that_ended_are_forgotten(tmp_path: Path) -> None:
    simulator = Simulator(seed=1, clouds=CLOUDS)
    async with simulator.serve() as url:
        text = re.sub(r"interval: [0-9]+s", "interval: 180s", simulator.config_yaml(url))
        text = text.replace("poll_timeout: 8s", "poll_timeout: 30s\n  finished_job_retention: 1m")
        (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
        exporter = exporter_of(tmp_path / "config.yaml")
        schedule = Schedule(exporter.runners)
        schedule.start()
        await asyncio.sleep(1200)
        before = _jobs(exporter)
        await asyncio.sleep(3600)
        ended = before - _jobs(exporter)
        assert len(ended) > 50
        assert ended & texts_of([exporter, schedule]) == set()
        await schedule.stop()
        await exporter.aclose()


def _jobs(exporter: Exporter) -> set[str]:
    page = exporter.page_store.current().body(Format.TEXT, b"", gzip=False).joined().decode()
    return set(re.findall(r'job_id="([^"]+)"', page))
