"""The past of each cloud: lives by rows, odd responses, sources, filters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from msgspec import convert
from msgspec.structs import replace

from tests.backfill.rig import EVENING, MIDNIGHT, PROVIDERS, samples, simulated
from tests.providers.alibaba_pai.cloud import Cloud, metric
from tests.providers.alibaba_pai.worlds import MONITORED
from tests.support.clock import run_stepped
from tests.support.configs import loaded, written
from tests.support.payloads import payload
from trainfleet_exporter.backfill.command import backfill
from trainfleet_exporter.backfill.series import Namer, records
from trainfleet_exporter.backfill.work import Flags, Unfinished
from trainfleet_exporter.config import Global
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.fleet.past import Asked, PastReadings
from trainfleet_exporter.model import Accelerators, Job, JobUsage, PodUsage, Readings, Status
from trainfleet_exporter.providers import registry
from trainfleet_exporter.providers.alibaba_pai import past as pai
from trainfleet_exporter.providers.alibaba_pai.history import StatusTransition
from trainfleet_exporter.providers.alibaba_pai.jobs import JobRow
from trainfleet_exporter.providers.alibaba_pai.metrics import JOB_FAMILIES, MetricMeta, feeds
from trainfleet_exporter.providers.alibaba_pai.usage import quota_of, readings
from trainfleet_exporter.providers.aws_sagemaker import jobs as sagemaker
from trainfleet_exporter.providers.huawei_modelarts import jobs as modelarts_jobs
from trainfleet_exporter.providers.huawei_modelarts import past as modelarts
from trainfleet_exporter.providers.huawei_modelarts import usage as modelarts_usage
from trainfleet_exporter.providers.huawei_modelarts.api import Api
from trainfleet_exporter.providers.huawei_modelarts.metrics import Query, plans
from trainfleet_exporter.providers.past import DAY, Life, Range, Track
from trainfleet_exporter.transport import Transport
from trainfleet_simulator import Fault
from trainfleet_simulator.modelarts import aom
from trainfleet_simulator.server import ACCESS_KEY_SECRET
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

BEGINS = MIDNIGHT


def _history(items: list[Any]) -> list[StatusTransition | None] | None:
    return payload({"StatusHistory": items}, JobRow).status_history


def _proven(life: Life) -> dict[str, tuple[float, int]]:
    """By family, what is written last of a job on its day, and from when on (seconds of that day)."""
    day, namer = Range(MIDNIGHT, MIDNIGHT + DAY), Namer("p", Global(), {})
    return {
        FAMILIES[series.family].name.removeprefix("trainfleet_job_"): (values[0], times[0] - MIDNIGHT)
        for series, times, values in records(life, day, namer, step=60, retention=3600.0, is_last=False)
    }


def test_stages_of_a_spot_job_prove_its_life() -> None:
    words = ("Starting", "Downloading", "Training", "Interrupted", "Starting", "Training", "Uploading", "Completed")
    stages = [{"Status": word, "StartTime": MIDNIGHT + 10 * place} for place, word in enumerate(words)]
    row: dict[str, Any] = {"TrainingJobName": "a", "TrainingJobStatus": "Completed", "SecondaryStatus": "Completed"}
    row |= {"SecondaryStatusTransitions": stages, "CreationTime": MIDNIGHT}
    row |= {"TrainingStartTime": MIDNIGHT + 10, "TrainingEndTime": MIDNIGHT + 70}
    life = sagemaker.job_life(payload(row, sagemaker.TrainingJob), ())
    assert life is not None
    assert tuple(spell.platform_status for spell in life.spells) == words
    assert [spell.start - MIDNIGHT for spell in life.spells] == [*range(0, 80, 10)]
    assert [spell.holds_resources for spell in life.spells] == [False, True, True, False, False, True, True, False]
    phases = {each.phase: each.seconds for each in life.phases}
    assert phases == {"preparing": 20, "running": 20, "queued": 20, "finishing": 10}
    assert _proven(life)["phase_seconds"][1] == 70
    for state, kept, held in ("Reused", 30, [True, False]), ("Terminated", None, [None]), ("Available", None, [True]):
        row["WarmPoolStatus"] = {"Status": state, "ResourceRetainedBillableTimeInSeconds": kept}
        life = sagemaker.job_life(payload(row, sagemaker.TrainingJob), ())
        assert life is not None
        assert [each.holds_resources for each in life.spells[7:]] == held
        assert life.until == (None if state == "Available" else MIDNIGHT + 70 + (kept or 0))
        assert life.ceased == MIDNIGHT + 70


def _pai(**row: Any) -> Life:
    given = {"JobId": "j", "JobSpecs": [{"Type": "Worker", "PodCount": 2, "EcsSpec": "m"}], **row}
    life = pai.job_life(payload(given, JobRow), "", {}, {}, ("team",))
    assert life is not None
    return life


def test_row_of_an_ended_job_has_its_request() -> None:
    row = {
        "Status": "Failed",
        "RequestGPU": "8",
        "GmtCreateTime": "2026-01-02T00:00:00Z",
        "GmtRunningTime": "2026-01-02T01:00:00Z",
        "GmtFailedTime": "2026-01-02T02:00:00Z",
        "GmtFinishTime": "2026-01-02T03:00:00Z",
        "Settings": {"Tags": {"team": "a", "token": "secret"}},
    }
    life = _pai(**row)
    assert life.job.accelerators[0].count == 8
    assert life.job.tags == (("team", "a"),)
    assert (life.since, life.ceased, life.until) == (MIDNIGHT, MIDNIGHT + 7200, MIDNIGHT + 10800)
    assert life.pods == 2
    assert [(spell.start, spell.end, spell.status) for spell in life.spells] == [
        (MIDNIGHT + 10800, None, Status.FAILED)
    ]
    assert life.runs(Range(MIDNIGHT, MIDNIGHT + DAY)) == Range(MIDNIGHT + 3600, MIDNIGHT + 7201)


def test_reserving_job_still_holds_resources() -> None:
    life = _pai(
        Status="SucceededReserving", GmtRunningTime="2026-01-02T01:00:00Z", GmtSuccessedTime="2026-01-02T02:00:00Z"
    )
    assert life.until is None
    assert life.ceased == MIDNIGHT + 7200
    assert life.spells == ()
    assert _proven(life)["finished_timestamp_seconds"] == (MIDNIGHT + 7200, 7200)
    words = zip((2, 3), ("SucceededReserving", "Succeeded"), strict=True)
    history = [{"Status": word, "StartTime": f"2026-01-02T0{hour}:00:00Z"} for hour, word in words]
    life = _pai(Status="Succeeded", GmtFinishTime="2026-01-02T02:00:00Z", StatusHistory=history)
    assert (life.ceased, life.ended, life.until) == (MIDNIGHT + 7200, MIDNIGHT + 7200, MIDNIGHT + 10800)
    past: Any = SimpleNamespace(_detail=print)
    assert len([*pai.PaiPast.details(past, [life])]) == 1  # the history of a row has no restarts


def test_unknown_end_is_not_shown() -> None:
    life = _pai(Status="Stopped", GmtCreateTime="2026-01-02T00:00:00Z")
    assert life.until == MIDNIGHT
    assert life.spells == ()
    assert life.runs(Range(MIDNIGHT, MIDNIGHT + DAY)).empty
    assert life.ended is None
    assert _proven(life).keys() == {"info", "created_timestamp_seconds"}
    life = _modelarts("Terminated", start_time=0)  # it was stopped while it waited
    assert (life.until, life.ended, life.spells) == (MIDNIGHT, None, ())
    assert _proven(life).keys() == {"info", "created_timestamp_seconds"}
    life = _modelarts("Terminated", start_time=(MIDNIGHT + 60) * 1000)
    assert (life.until, life.ended, life.spells) == (MIDNIGHT + 60, None, ())
    assert _proven(life).keys() == {"info", "created_timestamp_seconds", "started_timestamp_seconds"}


def test_no_status_outlasts_the_end_in_the_list() -> None:
    row = {
        "Status": "Succeeded",
        "GmtCreateTime": "2026-01-02T00:00:00Z",
        "GmtRunningTime": "2026-01-02T01:00:00Z",
        "GmtFinishTime": "2026-01-02T02:00:00Z",
    }
    history: list[dict[str, Any]] = [
        {"Status": "Queuing", "StartTime": "2026-01-02T00:00:00Z"},
        {"Status": "Running", "StartTime": "2026-01-02T01:00:00Z", "EndTime": None},
    ]
    expected = [("Queuing", 0, 3600), ("Running", 3600, 7200), ("Succeeded", 7200, None)]

    def found(life: Life) -> list[tuple[str, float, float | None]]:
        ends = [None if spell.end is None else spell.end - MIDNIGHT for spell in life.spells]
        spells = zip(life.spells, ends, strict=True)
        return [(spell.platform_status, spell.start - MIDNIGHT, end) for spell, end in spells]

    assert found(pai.with_spells(_pai(**row), _history(history))) == expected
    assert found(_pai(**row, StatusHistory=history)) == expected
    history[1]["EndTime"] = "2026-01-02T02:30:00Z"
    assert found(pai.with_spells(_pai(**row), _history(history))) == expected
    history.append({"Status": "Running", "StartTime": "2026-01-02T02:30:00Z", "EndTime": None})
    assert found(pai.with_spells(_pai(**row), _history(history))) == expected
    # If the end is unknown, so is whether the job still ran then.
    ran = [("Queuing", 0, 3600), ("Running", 3600, 9000)]
    assert found(pai.with_spells(_pai(Status="Stopped"), _history(history))) == ran
    live = pai.with_spells(_pai(Status="Running"), _history(history))
    assert found(live)[-1] == ("Running", 9000, None)
    assert found(pai.with_spells(live, _history(history))) == found(live)
    later = replace(live, job=replace(live.job, started=MIDNIGHT + 9000.0))  # which may be that of the last run
    assert later.runs(Range(MIDNIGHT, MIDNIGHT + DAY)).start == MIDNIGHT + 3600


def test_a_status_whose_end_is_not_set_lasts() -> None:
    history = [
        {"Status": "Queuing", "StartTime": "2026-01-02T00:00:00Z", "EndTime": "1970-01-01T00:00:00Z"},
        {"Status": "Bidding", "StartTime": "0001-01-01T00:00:00Z", "EndTime": "0001-01-01T00:00:00Z"},
        {"Status": "Running", "StartTime": "2026-01-02T01:00:00Z", "EndTime": "0001-01-01T00:00:00Z"},
    ]
    life = _pai(Status="Running", StatusHistory=history, GmtSubmittedTime="0001-01-01T00:00:00Z")
    assert [(spell.platform_status, spell.start - MIDNIGHT, spell.end) for spell in life.spells] == [
        ("Queuing", 0, MIDNIGHT + 3600),
        ("Running", 3600, None),
    ]


def test_end_of_the_present_status_ends_the_usage() -> None:
    times = {"GmtRunningTime": "2026-01-02T01:00:00Z", "GmtFailedTime": "2026-01-02T02:00:00Z"}
    assert _pai(Status="Running", **times).ceased is _pai(Status="Stopping", **times).ceased is None
    assert _pai(Status="Running", **times).runs(Range(MIDNIGHT, MIDNIGHT + DAY)).end == MIDNIGHT + DAY
    life = _pai(Status="Succeeded", GmtSuccessedTime="2026-01-02T05:00:00Z", **times)
    assert (life.ceased, life.until) == (MIDNIGHT + 18000, MIDNIGHT + 18000)
    life = _pai(Status="Succeeded", GmtFinishTime="2026-01-02T05:00:00Z", **times)
    assert (life.ceased, life.until) == (MIDNIGHT + 18000, MIDNIGHT + 18000)
    life = _pai(Status="SucceededReserving", GmtFinishTime="2026-01-02T05:00:00Z", **times)
    assert (life.ceased, life.until) == (MIDNIGHT + 18000, None)


def _shown(tracks: Iterable[Track]) -> list[tuple[Readings, Sequence[int]]]:
    return [(track.shown, track.times) for track in tracks if isinstance(track.shown, Readings)]


def test_unusable_point_loses_one_minute_of_a_sum() -> None:
    name = "POD_NETWORK_RECEIVE_RATE"
    (feed,) = feeds({name: MetricMeta(name, "B/s")}, JOB_FAMILIES, {})[0].values()
    assert {family.level for family in feed.targets} == {"job", "pod"}
    runs = Range(MIDNIGHT, MIDNIGHT + DAY)

    def read(**odd: Any) -> tuple[list[int], dict[str, int]]:
        """The minutes in which two pods have a sum, if one has such a point in place of its tenth."""
        past = PastReadings(feed.level, Asked({"j": runs}, 0, 60))
        for pod in ("a", "b"):
            for minute in range(20):
                point = {"timestamp": (MIDNIGHT + 60 * minute) * 1000, "jobId": "j", "podId": pod, "Average": 1.0}
                given = {**point, **odd} if (pod, minute) == ("b", 10) else point
                for reading in zip(*(readings(feed, json.dumps([given]), quota_of({}, "")) or ()), strict=True):
                    past.put(*reading)
        of_job = [times for shown, times in _shown(past.tracks(feed.targets)) if shown.of is JobUsage]
        return [(time - MIDNIGHT) // 60 for times in of_job for time in times], +past.dropped

    others = [minute for minute in range(20) if minute != 10]
    assert read() == (list(range(20)), {})
    assert read(Average=None) == read(Average="x") == (others, {"malformed": 1})
    assert read(Average=-1.0) == (others, {"out_of_range": 1})
    assert read(podId="") == read(timestamp=None) == ([], {"malformed": 1})
    # A point that is missing is not worse than one that is late: the one before it counts for three minutes.
    assert read(jobId="other") == (list(range(20)), {"unlisted": 1})
    assert read(timestamp=(MIDNIGHT + 540) * 1000) == (list(range(20)), {"duplicate": 1})


def test_quotas_of_other_regions_and_lives_have_no_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud, noon = Cloud(), MIDNIGHT + DAY // 2
    cloud.quotas = [{"QuotaId": "q1", "QuotaName": "one", "GmtCreatedTime": "2026-01-02T12:00:00Z"}]
    cloud.catalogue = [metric("QUOTA_CPU_UTIL", "%", Dimensions="regionId,quotaName")]
    given = [(noon - 60, 10, "cn-hangzhou"), (noon + 60, 50, "cn-hangzhou"), (noon + 120, 90, "cn-beijing")]
    points = [{"timestamp": at * 1000, "Average": n, "quotaName": "one", "regionId": region} for at, n, region in given]
    answer = {"Code": "200", "Success": True, "Datapoints": json.dumps(points)}
    cloud.operations["DescribeMetricList"] = lambda query: answer
    monkeypatch.setattr(registry, "Transport", partial(Transport, send=httpx.MockTransport(cloud)))
    flags = Flags(provider="a/b c", wanted=Range(MIDNIGHT, MIDNIGHT + DAY), out=tmp_path)
    config = loaded(written(tmp_path, MONITORED.replace("name: p\n", "name: a/b c\n")))
    run = partial(backfill, flags, config, registry.installed_platforms(), say=print)
    outcome, words = run_stepped(run, start=MIDNIGHT + 40 * DAY)
    (path,) = outcome.files
    assert f"for file in '{tmp_path}/a%2Fb c-'????-??-??.om; do" in words
    shown = [found[1:] for found in samples(path) if found[0] == "trainfleet_pool_cpu_utilization_ratio"]
    assert shown == [({"provider": "a/b c", "pool_id": "q1"}, "0.5", noon + 60)]
    (asked,) = cloud.called("DescribeMetricList")
    assert json.loads(asked["Dimensions"]) == [{"quotaName": "one"}]
    assert (asked["Period"], asked["EndTime"]) == ("300", str((MIDNIGHT + DAY) * 1000 - 1))


def _modelarts(phase: str, **status: Any) -> Life:
    row = {"metadata": {"id": "j", "create_time": MIDNIGHT * 1000}, "status": {"phase": phase, **status}}
    life = modelarts.job_life(payload(row, modelarts_jobs.JobRow), shown_tags=())
    assert life is not None
    return life


def test_running_records_prove_when_a_job_ran() -> None:
    records = [
        {"start_at": MIDNIGHT + 100, "end_at": MIDNIGHT + 200, "xpu_start_at": MIDNIGHT + 150},
        {"start_at": MIDNIGHT + 250, "end_at": MIDNIGHT + 250},
        {"start_at": MIDNIGHT + 260, "end_at": MIDNIGHT + 400, "start_type": "restarted"},
    ]
    life = _modelarts("Completed", start_time=(MIDNIGHT + 100) * 1000, running_records=records, tasks=["worker-0"])
    assert [(spell.start - MIDNIGHT, spell.end, spell.status) for spell in life.spells] == [
        (100, MIDNIGHT + 150, Status.RUNNING),
        (150, MIDNIGHT + 200, Status.RUNNING),
        (260, MIDNIGHT + 400, Status.RUNNING),
        (400, None, Status.SUCCEEDED),
    ]
    assert (life.until, life.tasks) == (MIDNIGHT + 400, ("worker-0",))


def test_a_run_whose_end_is_not_set_lasts() -> None:
    records = [
        {"start_at": MIDNIGHT + 100, "end_at": -62135596800},
        {"start_at": 0, "end_at": 0},
        {"start_at": MIDNIGHT + 260, "end_at": 0},
    ]
    life = _modelarts("Running", start_time=0, running_records=records)
    assert [(spell.start - MIDNIGHT, spell.end) for spell in life.spells] == [(100, MIDNIGHT + 260), (260, None)]


def test_without_records_start_and_duration_do() -> None:
    life = _modelarts("Terminated", start_time=(MIDNIGHT + 100) * 1000, duration=60_000)
    assert [(spell.start - MIDNIGHT, spell.status) for spell in life.spells] == [
        (100, Status.RUNNING),
        (160, Status.STOPPED),
    ]
    assert _modelarts("Pending", start_time=0).spells == ()


@pytest.mark.parametrize("odd", ["j.1", "a|b", "a\\b", "x(y)[z]{1}*+?^$"])
def test_names_of_jobs_are_quoted_in_promql(odd: str) -> None:
    read = aom.read_query(Query("m").text(120, ["plain-1", odd]))
    label, wanted = read.matchers[-1]
    assert (label, read.window) == ("service_id", 120)
    assert [bool(wanted.fullmatch(name)) for name in ("plain-1", odd, "a", "jx1")] == [True, True, False, False]
    assert r',service_id=~"a\"b"}' in Query("m").text(120, ['a"b'])


async def test_cards_have_no_sum_while_one_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def query_rows(_: object, promql: str, *__: object, **___: object) -> list[modelarts_usage.Series]:
        watts = {"ma-job-ps-0": "1 " * 30, "ma-job-ps-1": "1 " * 10 + "-5"} if "npu_p" in promql else {}
        dated = {pod: [(MIDNIGHT + 60.0 * at, each) for at, each in enumerate(watts[pod].split())] for pod in watts}
        rows = [{"metric": {"service_id": "j", "pod_name": pod, "npu_id": "0"}, "values": dated[pod]} for pod in dated]
        return convert(rows, list[modelarts_usage.Series])

    monkeypatch.setattr(modelarts_usage, "query_rows", query_rows)
    asked = Job(job_id="j", started=1.0 * MIDNIGHT, accelerators=(Accelerators("npu", "", 2.0),))
    life = replace(_modelarts("Running", tasks=["ps-0", "ps-1"]), job=asked)
    (plan,) = (each for each in plans(None, {}) if each.key == "accelerator_power_watts")
    past: Any = SimpleNamespace(_plans=[plan], _api=None, job_id="j", dropped=Counter())
    hour = Range(MIDNIGHT, MIDNIGHT + 3600)
    tracks = _shown([track async for track in modelarts.ModelArtsPast._read(past, plan, hour, {"j": life}, 0.0)])
    assert [len(times) for shown, times in tracks if shown.of is JobUsage] == [10]
    assert {shown.subjects[0].keys[1] for shown, _ in tracks if shown.of is PodUsage} == {"ps-0", "ps-1"}
    assert +past.dropped == {"out_of_range": 1}


def _values(out: Path, family: str) -> dict[tuple[str, ...], dict[int, float]]:
    found: dict[tuple[str, ...], dict[int, float]] = {}
    for path in out.glob("*.om"):
        for name, labels, value, at in samples(path):
            if name == f"trainfleet_{family}":
                key = tuple(labels[label] for label in ("job_id", "pod_id", "device", "pool_id") if label in labels)
                found.setdefault(key, {})[at] = float(value)
    return found


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


def _of_two(text: str) -> str:
    jobs = "    jobs:\n      include: {name: ['gpu-steady', 'ascend-.*']}\n"
    return text.replace("    collectors:\n", f"{jobs}    collectors:\n", 1)


@pytest.mark.long
@pytest.mark.parametrize("cloud", PROVIDERS)
async def test_one_job_alone(cloud: str, tmp_path: Path) -> None:
    async with simulated(cloud, tmp_path) as rig:
        await rig.backfill(tmp_path / "all", EVENING)
        job = next(job for job in rig.jobs() if job.running and job.running < EVENING.start and job.live)
        job_id = rig.id_of(job)
        await rig.backfill(tmp_path / "one", EVENING, job_id=job_id)
        everything = _values(tmp_path / "all", "job_cpu_utilization_ratio")
        assert _values(tmp_path / "one", "job_cpu_utilization_ratio") == {(job_id,): everything[job_id,]}
        assert not _values(tmp_path / "one", "pool_accelerator_power_watts")
        assert bool(_values(tmp_path / "all", "pool_accelerator_power_watts")) is (cloud == "pai")
        for _ in range(2):  # the same command comes to the same end
            with pytest.raises(StartError, match=r"^--job: sim-.* had no 'dlc-that-never-was' in that time"):
                await rig.backfill(tmp_path / "none", EVENING, job_id="dlc-that-never-was")
        assert not list((tmp_path / "none").glob("*.om"))
        assert not any("were deleted in the cloud" in line for line in rig.printed)


async def test_config_filters_apply(tmp_path: Path) -> None:
    def change(text: str) -> str:
        text = text.replace(
            "    job_labels:", "    deny: [trainfleet_device_*, trainfleet_job_status]\n    job_labels:"
        )
        return text.replace("    collectors:\n", "    jobs:\n      include: {name: ['asr-.*']}\n    collectors:\n", 1)

    async with simulated("pai", tmp_path, change=change) as rig:
        await rig.backfill(tmp_path / "out", EVENING)
        names = {job.job_id: job.draft.name for job in rig.jobs()}
        shown = {names[key[0]] for key in _values(tmp_path / "out", "job_info")}
        assert {"asr-hangs", "asr-steady"} <= shown
        assert all(name.startswith("asr-") for name in shown)
        assert not _values(tmp_path / "out", "device_utilization_ratio")
        assert not _values(tmp_path / "out", "job_status")
        assert _values(tmp_path / "out", "job_platform_status")


async def test_without_aom_jobs_have_no_usage(tmp_path: Path) -> None:
    """Task metrics have no dates. An AOM that denies is no reason: its usage may be read later."""
    async with simulated("modelarts", tmp_path) as rig:
        rig.simulator.faults.add(Fault({"api": "aom"}, kind="denied"))
        with pytest.raises(Unfinished):
            await rig.backfill(tmp_path / "out", EVENING)
        rig.simulator.faults.clear()
        rig.simulator.faults.add(Fault({"api": "aom"}, kind="not_found"))
        await rig.backfill(tmp_path / "out", EVENING)
        assert any("usage from task metrics is left out" in line for line in rig.printed)
        running = {job.job_id for job in rig.jobs() if job.running and job.running < EVENING.end - 900 and job.live}
        assert len(running) >= 7
        assert {ids[0] for ids in _values(tmp_path / "out", "job_info")} >= running
        for family in ("job_usage_info", "job_cpu_utilization_ratio", "pod_cpu_utilization_ratio"):
            assert not _values(tmp_path / "out", family)


@pytest.mark.parametrize("narrowed", ["by a filter", "to one job", "not"])
async def test_aom_queries_name_a_few_wanted_jobs(
    narrowed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = modelarts_usage.query_rows
    returned: set[str] = set()
    asked: list[str] = []

    async def query_rows(api: Api, promql: str, within: Range | None, *, deadline: float) -> Any:
        asked.append(promql)
        series = list(await real(api, promql, within, deadline=deadline))
        returned.update(one.metric.service_id for one in series if one is not None and one.metric is not None)
        return series

    change: Callable[[str], str] = _of_two if narrowed == "by a filter" else lambda text: text
    async with simulated("modelarts", tmp_path, change=change) as rig:
        monkeypatch.setattr(modelarts_usage, "query_rows", query_rows)
        one = next(job for job in rig.jobs() if job.draft.name == "gpu-steady")
        chosen: dict[str, Any] = {"job_id": one.job_id} if narrowed == "to one job" else {}
        await rig.backfill(tmp_path / "some", Range(EVENING.end - 1200, EVENING.end), **chosen)
        (some,) = (tmp_path / "some").glob("*.om")
        with_aom = {job_id for job_id, source in _sources(some).items() if source == "aom"}
        if narrowed == "not":
            assert returned >= with_aom
            assert not any("=~" in promql for promql in asked)
            return
        assert returned == with_aom
        family = "trainfleet_pod_accelerator_utilization_ratio"
        kinds = {labels["accelerator"] for name, labels, *_ in samples(some) if name == family}
        assert (kinds, len(with_aom)) == (({"gpu", "npu"}, 2) if narrowed == "by a filter" else ({"gpu"}, 1))


@pytest.mark.parametrize("cloud", PROVIDERS)
async def test_no_secret_is_written(cloud: str, tmp_path: Path) -> None:
    async with simulated(cloud, tmp_path) as rig:
        await rig.backfill(tmp_path / "out", Range(EVENING.start, EVENING.start + 600))
        assert (tmp_path / "out" / f".backfill-{rig.provider}.state").stat().st_size > 1_000
        written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
        for secret in (*PLANTED_SECRETS, ACCESS_KEY_SECRET):
            assert secret.encode() not in written
