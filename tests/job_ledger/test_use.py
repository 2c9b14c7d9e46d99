"""Mean and peak use of accelerators: of what was shown, for as long as it was."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from tests.support.clock import run_stepped
from trainfleet_exporter.job_ledger import UseWatch
from trainfleet_exporter.job_ledger.line import AcceleratorUse
from trainfleet_exporter.model import JobUsage, PodUsage, Readings, Subject, UsageValues
from trainfleet_exporter.page import PageStore

FIELD = "values.accelerator_utilization"


def _column(**values: float) -> Readings:
    return Readings(JobUsage, FIELD, [Subject((job_id,)) for job_id in values], array("d", values.values()))


def _job(job_id: str, value: float | None) -> JobUsage:
    return JobUsage(job_id, UsageValues(cpu=0.5, accelerator_utilization=value))


def test_mean_is_weighted_by_time() -> None:
    async def main() -> None:
        watch = UseWatch(PageStore())
        watch.put("part", {}, provider="p", objects=[_column(a=0.9, b=0.1)])
        await asyncio.sleep(300)
        watch.put("part", {}, provider="p", objects=[_column(a=0.3)])
        await asyncio.sleep(100)
        watch.put("part", {}, provider="p", objects=[_column(a=0.3)])
        assert watch.take("p", "a") == AcceleratorUse(mean=0.75, peak=0.9, seen_seconds=400)
        assert watch.take("p", "b") == AcceleratorUse(mean=0.1, peak=0.1, seen_seconds=300)
        assert watch.take("p", "a") is None
        assert watch.take("q", "b") is None

    run_stepped(main)


def test_time_without_readings_does_not_count() -> None:
    async def main() -> None:
        watch = UseWatch(PageStore())
        for _ in range(2):
            watch.put("part", {}, provider="p", objects=[_job("a", 0.5), _job("idle", 0.0), _job("cpu", None)])
            await asyncio.sleep(60)
            watch.drop("part")
            await asyncio.sleep(1000)
        assert watch.take("p", "a") == AcceleratorUse(mean=0.5, peak=0.5, seen_seconds=120)
        assert watch.take("p", "idle") == AcceleratorUse(mean=0.0, peak=0.0, seen_seconds=120)
        assert watch.take("p", "cpu") is None

    run_stepped(main)


def test_readings_of_pods_and_of_other_fields_do_not_count() -> None:
    async def main() -> None:
        watch = UseWatch(PageStore())
        other = Readings(JobUsage, "values.cpu", [Subject(("a",))], array("d", [0.5]))
        pods = Readings(PodUsage, FIELD, [Subject(("a", "a-0"))], array("d", [0.5]))
        watch.put("part", {}, provider="p", objects=[other, pods])
        await asyncio.sleep(60)
        watch.drop("part")
        assert watch.take("p", "a") is None

    run_stepped(main)


def test_jobs_whose_end_was_not_seen_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        watch = UseWatch(PageStore())
        watch.put("part", {}, provider="p", objects=[_column(a=0.5)])
        for _ in range(30):
            await asyncio.sleep(3600)
            watch.put("part", {}, provider="p", objects=[_column(b=0.5)])
        assert watch.take("p", "a") is None
        assert watch.take("p", "b") is not None

    run_stepped(main)
