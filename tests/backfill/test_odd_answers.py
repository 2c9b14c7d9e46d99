"""Answers about the past that are odd: they lack a job, a day, an end, a point, or tell more than was asked for."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backfill.rig import MIDNIGHT, Rig, samples, simulated
from trainfleet_exporter.errors import RequestRefused
from trainfleet_exporter.fleet.past import Asked, PastReadings
from trainfleet_exporter.model import Job, JobUsage
from trainfleet_exporter.providers.alibaba_pai import jobs
from trainfleet_exporter.providers.alibaba_pai.metrics import JOB_FAMILIES, MetricMeta, feeds
from trainfleet_exporter.providers.alibaba_pai.usage import job_of, readings
from trainfleet_exporter.providers.history import DAY, Life, Range
from trainfleet_exporter.providers.huawei_modelarts.client import ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.payloads import Metrics, MetricValues, Series
from trainfleet_exporter.providers.huawei_modelarts.usage.aom import AomApi
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import Query, plans
from trainfleet_exporter.providers.huawei_modelarts.usage.past import MOST_MINUTES, Steps
from trainfleet_exporter.transport.payload import decode_value
from trainfleet_simulator.modelarts import promql

EVENING = Range(MIDNIGHT + DAY - 3600, MIDNIGHT + DAY)


# ModelArts: AOM, and task metrics in its place.


def _sources(path: Path) -> dict[str, str]:
    """By job that has CPU readings in a file, where its readings are from."""
    found: dict[str, str] = {}
    with_cpu = set()
    for name, labels, _, _ in samples(path):
        if name == "trainfleet_job_usage_info":
            assert found.setdefault(labels["job_id"], labels["source"]) == labels["source"]
        with_cpu |= {labels["job_id"]} if name == "trainfleet_job_cpu_utilization_ratio" else set()
    assert found.keys() == with_cpu
    return found


@pytest.mark.long
def test_aom_is_used_on_days_without_task_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModelArtsClient.task_metrics
    started: dict[str, float] = {}

    async def of_the_first_day(self: ModelArtsClient, job_id: str, task: str, *, deadline: float) -> Metrics:
        answer = await real(self, job_id, task, deadline=deadline)
        minutes = min(max(0, int(MIDNIGHT + DAY - started[job_id]) // 60 - 1), MOST_MINUTES - 1)
        rows = [MetricValues(row.metric, (row.value or [])[:minutes]) for row in answer.metrics or ()]
        return Metrics([row for row in rows if row.value])

    async def nothing(self: ModelArtsClient, job_id: str, task: str, *, deadline: float) -> Metrics:
        return Metrics()

    async def work(rig: Rig) -> None:
        at_midnight = Range(EVENING.end - 1200, EVENING.end + 1200)
        started.update({job.job_id: job.running for job in rig.jobs() if job.running})
        await rig.backfill(tmp_path / "all", at_midnight)
        everything = [_sources(path) for path in sorted((tmp_path / "all").glob("*.om"))]
        of_aom = [{job_id for job_id, source in day.items() if source == "aom"} for day in everything]
        assert all(len(jobs) >= 4 for jobs in of_aom)
        rig.simulator.aom.hidden.add("ma_container_npu_util")
        monkeypatch.setattr(ModelArtsClient, "task_metrics", nothing)
        await rig.backfill(tmp_path / "nothing", at_midnight)
        found = [_sources(path) for path in sorted((tmp_path / "nothing").glob("*.om"))]
        assert found == [dict.fromkeys(jobs, "aom") for jobs in of_aom]
        monkeypatch.setattr(ModelArtsClient, "task_metrics", of_the_first_day)
        await rig.backfill(tmp_path / "one", at_midnight)
        first, second = [_sources(path) for path in sorted((tmp_path / "one").glob("*.om"))]
        assert first.keys() == everything[0].keys()
        assert sorted(first.values()).count("task_metrics") > sorted(everything[0].values()).count("task_metrics")
        assert second == dict.fromkeys(of_aom[1], "aom")

    simulated("modelarts", work, tmp_path)


def _steps(*job_ids: str) -> tuple[Steps, Query]:
    (plan,) = plans(["ma_container_cpu_util"], {})
    lives = {job_id: Life(job=Job(job_id=job_id, started=float(MIDNIGHT))) for job_id in job_ids}
    return Steps(plan, lives, Range(MIDNIGHT, MIDNIGHT + DAY)), plan.queries[0]


def _series(job_id: str, *values: list[Any]) -> Series | None:
    row = {"metric": {"service_id": job_id, "pod": "p"}, "values": [*values]}
    return decode_value(json.dumps(row).encode(), Series)


def test_jobs_that_are_not_wanted_are_not_held() -> None:
    steps, query = _steps("a")
    pairs = [[MIDNIGHT + 60 * minute, "50"] for minute in range(10)]
    steps.add(query, [_series("a", *pairs), _series("b", *pairs), _series("", *pairs)])
    assert dict(steps.dropped) == {"unlisted": 10, "malformed": 10}
    assert all(len(rows) == 1 for rows in steps._samples.values())
    tracks = asyncio.run(steps.tracks(names_source=True))
    assert {track.keys[0] for track in tracks} == {"a"}
    assert dict(steps.dropped) == {"unlisted": 10, "malformed": 10}


def test_a_time_that_is_no_number_costs_its_pair_alone() -> None:
    steps, query = _steps("a")
    odd: list[list[Any]] = [
        [math.nan, "50"],
        [math.inf, "50"],
        [-math.inf, "50"],
        ["0", "50"],
        [True, "50"],
        [10**400, ""],
    ]
    steps.add(query, [_series("a", *odd, [MIDNIGHT + 60, "50"])])
    assert dict(steps.dropped) == {"malformed": 5}
    tracks = asyncio.run(steps.tracks(names_source=False))
    (track,) = [track for track in tracks if track.of is JobUsage]
    assert list(zip(track.times, track.values, strict=True)) == [(MIDNIGHT + 60, 0.5)]


@pytest.mark.parametrize("odd", ["j.1", "a|b", "a\\b", "x(y)[z]{1}*+?^$"])
def test_jobs_are_named_as_they_are(odd: str) -> None:
    read = promql.read(Query("m", 1.0, frozenset({"pod"})).text("pod", 120, ["plain-1", odd]))
    matcher = read.matchers[-1]
    assert matcher.label == "service_id"
    assert matcher.fits("plain-1")
    assert matcher.fits(odd)
    assert not matcher.fits("a")
    assert not matcher.fits("jx1")
    assert r',service_id=~"a\"b"}' in Query("m", 1.0, frozenset({"pod"})).text("pod", 120, ['a"b'])


def _of_two(text: str) -> str:
    return text.replace(
        "    collectors:\n", "    jobs:\n      include: {name: ['gpu-steady', 'ascend-.*']}\n    collectors:\n", 1
    )


@pytest.mark.parametrize("narrowed", ["by a filter", "to one job", "not"])
def test_aom_is_asked_for_those_jobs_alone_that_are_wanted(
    narrowed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = AomApi.query_range
    told: set[str] = set()
    names = 0
    refuses = False

    async def query_range(self: AomApi, promql: str, *, start: int, end: int, step: int, deadline: float) -> Any:
        nonlocal names
        names += "=~" in promql
        if refuses and "=~" in promql:
            raise RequestRefused("parse error", status=400, code="bad_data")
        series = list(await real(self, promql, start=start, end=end, step=step, deadline=deadline))
        told.update(one.metric.service_id for one in series if one is not None and one.metric is not None)
        return series

    async def work(rig: Rig) -> None:
        nonlocal refuses
        monkeypatch.setattr(AomApi, "query_range", query_range)
        short = Range(EVENING.end - 1200, EVENING.end)
        one = next(job for job in rig.jobs() if job.draft.name == "gpu-steady")
        chosen: dict[str, Any] = {"job_id": one.job_id} if narrowed == "to one job" else {}
        await rig.backfill(tmp_path / "some", short, **chosen)
        (some,) = (tmp_path / "some").glob("*.om")
        with_aom = {job_id for job_id, source in _sources(some).items() if source == "aom"}
        if narrowed == "not":
            assert told >= with_aom
            assert not names
            return
        assert told == with_aom
        assert len(with_aom) == (2 if narrowed == "by a filter" else 1)
        refuses = True
        await rig.backfill(tmp_path / "refused", short, **chosen)
        (refused,) = (tmp_path / "refused").glob("*.om")
        assert told > with_aom
        assert refused.read_bytes() == some.read_bytes()

    change: Callable[[str], str] = _of_two if narrowed == "by a filter" else lambda text: text
    simulated("modelarts", work, tmp_path, change=change)


# PAI: one job, points, periods.


def test_one_job_is_looked_for_in_each_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.list_jobs
    asked: list[str] = []

    async def list_jobs(api: Any, workspace_id: str, query: dict[str, str], **more: Any) -> Any:
        assert query["JobIds"]
        asked.append(workspace_id)  # always sent: what an answer without it holds is not proven
        return await real(api, workspace_id, query, **more)

    async def work(rig: Rig) -> None:
        monkeypatch.setattr(jobs, "list_jobs", list_jobs)
        job = next(job for job in rig.jobs() if job.draft.name == "asr-steady")
        short = Range(EVENING.end - 600, EVENING.end)
        await rig.backfill(tmp_path / "out", short, job_id=job.job_id)
        assert len(asked) == len(set(asked)) >= 3
        (path,) = (tmp_path / "out").glob("*.om")
        found = list(samples(path))
        assert {labels.get("job_id") for _, labels, _, _ in found} == {job.job_id}

    simulated("pai", work, tmp_path)


def test_point_without_value_loses_one_minute_of_a_sum() -> None:
    name = "POD_NETWORK_RECEIVE_RATE"
    found, _ = feeds({name: MetricMeta(name, "B/s")}, JOB_FAMILIES, {})
    (feed,) = found.values()
    assert {family.level for family in feed.targets} == {"job", "pod"}
    runs = Range(MIDNIGHT, MIDNIGHT + DAY)

    def read(**odd: Any) -> tuple[list[int], dict[str, int]]:
        """The minutes in which two pods have a sum, if one has such a point in place of its tenth."""
        past = PastReadings(feed.level, Asked({"j": runs}, 0, 60))
        for pod in ("a", "b"):
            for minute in range(20):
                point = {"timestamp": (MIDNIGHT + 60 * minute) * 1000, "jobId": "j", "podId": pod, "Average": 1.0}
                given = {**point, **odd} if (pod, minute) == ("b", 10) else point
                for reading in readings(feed, [given], job_of):
                    past.put(*reading)
        tracks = list(past.tracks(feed.targets, "cloudmonitor"))
        minutes = [(time - MIDNIGHT) // 60 for track in tracks if track.of is JobUsage for time in track.times]
        return minutes, +past.dropped

    others = [minute for minute in range(20) if minute != 10]
    assert read() == (list(range(20)), {})
    assert read(Average=None) == (others, {"malformed": 1})
    assert read(Average="x") == (others, {"malformed": 1})
    assert read(Average=-1.0) == (others, {"out_of_range": 1})
    assert read(podId="") == ([], {"malformed": 1})
    assert read(timestamp=None) == ([], {"malformed": 1})
    assert read(jobId="other") == (others, {"unlisted": 1})
    assert read(timestamp=(MIDNIGHT + 540) * 1000) == (others, {"duplicate": 1})
