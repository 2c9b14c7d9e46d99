"""From a poll to the log and the ledger: jobs that the exporter saw to end, and no others."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.rig import site
from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, at, job, metric, point
from tests.support.clock import START, run_stepped
from tests.support.fleet import Fleet
from tests.support.logs import line_of
from trainfleet_exporter.cli import _load, cli
from trainfleet_exporter.sharding import WHOLE

HEAD = "global: {ledger_file: ledger.jsonl, metrics: {job_labels: [team]}}\n"
GPUS: dict[str, Any] = {
    "RequestGPU": "8",
    "JobSpecs": [{"Type": "Worker", "PodCount": 1, "ResourceConfig": {"GPUType": "GU8T"}}],
}
FACTS = {
    "provider": "p",
    "platform": "alibaba_pai",
    "region": "cn-hangzhou",
    "workspace_id": "1",
    "pool_id": "quota1",
    "created": "2026-01-02T02:54:05Z",
    "ended": "2026-01-02T03:04:35Z",
    "seen": "2026-01-02T03:05:05Z",
    "faults": {},
    "recoveries": 0,
    "recovery_seconds": 0,
}
"""Of both jobs, if they ended half a minute after the start."""
Run = Callable[..., list[dict[str, Any]]]


def _detail(name: str, start: float, end: float | None) -> dict[str, str | None]:
    return {"Status": name, "StartTime": at(start), "EndTime": None if end is None else at(end)}


def _ended(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of the lines that say that a job ended."""
    found = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "job ended"]
    return [json.loads(json.dumps(fields)) for fields in found]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Run:
    """Run steps on a fleet of two jobs that run. Returns the lines of the ledger."""

    def run_steps(
        steps: Callable[[Cloud, Fleet], Awaitable[None]], config: str = HEAD + CONFIG
    ) -> list[dict[str, Any]]:
        async def main() -> None:
            cloud = Cloud()
            tags: dict[str, Any] = {"Settings": {"Tags": {"team": "llm", "note": "x"}}}
            cloud.jobs = [job("a", GmtRunningTime=at(-500), Username="alice", **GPUS, **tags), job("b")]
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                assert await fleet.exporter.poll_once()
                await steps(cloud, fleet)

        with caplog.at_level(logging.INFO):
            run_stepped(main)
        path = tmp_path / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    return run_steps


async def _poll_jobs(fleet: Fleet) -> None:
    await asyncio.sleep(60)
    await fleet.runner("jobs").tick()


def test_an_ended_job_is_one_line_of_the_log_and_of_the_ledger(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        statuses = [_detail("Creating", -600, -550), _detail("EnvPreparing", -550, -500), _detail("Running", -500, 30)]
        cloud.details["a"] = cloud.jobs[0] | {"StatusHistory": [*statuses, _detail("Succeeded", 30, None)]}
        cloud.jobs[0] |= {"Status": "Succeeded", "GmtFinishTime": at(30)}
        for _ in range(3):
            await _poll_jobs(fleet)

    (line,) = run(steps)
    assert _ended(caplog) == [line]
    assert line == {
        **FACTS,
        "job_id": "a",
        "job_name": "name-a",
        "user_name": "alice",
        "labels": {"team": "llm"},
        "status": "succeeded",
        "started": "2026-01-02T02:55:45Z",
        "phase_seconds": {"queued": 50, "preparing": 50, "running": 530},
        "held_seconds": 580,
        "lost_seconds": 50,
        "accelerators": [{"kind": "gpu", "model": "GU8T", "count": 8}],
        "accelerator_hours": pytest.approx(8 * 580 / 3600, abs=1e-6),
    }
    (logged,) = [line_of(record) for record in caplog.records if record.getMessage() == "job ended"]
    assert re.findall(r'(?:labels|phase_seconds|accelerators)=(".*?[^\\]") ', logged) == [
        r'"{\"team\":\"llm\"}"',
        r'"{\"preparing\":50.0,\"queued\":50.0,\"running\":530.0}"',
        r'"[{\"kind\":\"gpu\",\"model\":\"GU8T\",\"count\":8.0}]"',
    ]


def test_a_job_that_was_never_seen_live_has_its_accelerators(run: Run) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        times = {"GmtCreateTime": at(5), "GmtRunningTime": at(10), "GmtFinishTime": at(46)}
        cloud.jobs.append(job("c", "Failed", **times, **GPUS))
        await _poll_jobs(fleet)
        assert await fleet.lines('job_requested_accelerators{provider="p",job_id="c"') == []

    (line,) = run(steps)
    assert line["accelerators"] == [{"kind": "gpu", "model": "GU8T", "count": 8}]
    assert (line["held_seconds"], line["accelerator_hours"]) == (36, 0.08)


def test_use_is_the_mean_of_what_the_page_showed(run: Run) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        for minute, percent in enumerate((90, 30, 30)):
            value = {"Time": int((START + 60 * minute) * 1000), "Value": percent}
            cloud.metrics["a", "GpuCoreUsage"] = [{"PodId": "a-0", "Metrics": [value]}]
            cloud.metrics["a", "CpuCoreUsage"] = [{"PodId": "a-0", "Metrics": [{**value, "Value": 100}]}]
            await fleet.runner("job_metrics").tick()
            await asyncio.sleep(60)
        for row in cloud.jobs:
            row |= {"Status": "Succeeded", "GmtFinishTime": at(150)}
        await fleet.runner("jobs").tick()

    with_use, without = run(steps)
    # Polls last a minute, too: 90 % was shown for two minutes, and 30 % for four.
    assert with_use["accelerator_use"] == {"mean": 0.5, "peak": 0.9, "seen_seconds": 360}
    assert "accelerator_use" not in without


def test_use_counts_what_is_shown_when_the_job_ends(run: Run) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        cloud.catalogue = [metric("JOB_GPU_DUTY_CYCLE", "%")]
        cloud.points["JOB_GPU_DUTY_CYCLE"] = [point("a", 50), point("b", 70)]
        await asyncio.sleep(86400)
        cloud.points["JOB_GPU_DUTY_CYCLE"] = [point("a", 50, age=-86400), point("b", 70, age=-86400)]
        await fleet.runner("usage").tick()
        for number in (0, 1):
            await asyncio.sleep(60)
            cloud.jobs[number] |= {"Status": "Succeeded", "GmtFinishTime": at(86430 + 60 * number)}
            await fleet.runner("jobs").tick()

    lines = run(steps, (HEAD + CONFIG).replace("source: job_metrics", "source: cloudmonitor"))
    for line, (mean, seconds) in zip(lines, ((0.5, 60), (0.7, 120)), strict=True):
        assert line["accelerator_use"] == {"mean": mean, "peak": mean, "seen_seconds": seconds}


def test_what_ended_before_a_reload_is_recorded_after_it(run: Run) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        await asyncio.sleep(60)
        cloud.jobs[0] |= {"Status": "Succeeded", "GmtFinishTime": at(30)}
        config, ages = fleet.exporter.config, {"max_data_age": 1000.0}
        changed = config.model_copy(update={"global_": config.global_.model_copy(update=ages)})
        fleet.exporter.apply(fleet.exporter.plan(changed))
        assert await fleet.exporter.poll_once()
        assert await fleet.value('jobs_finished_total{workspace_id="1",status="succeeded"}') == 1

    assert [line["job_id"] for line in run(steps)] == ["a"]


def test_a_job_that_is_left_out_is_not_recorded(run: Run) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        for row in cloud.jobs:
            row |= {"Status": "Failed", "GmtFinishTime": at(30)}
        await _poll_jobs(fleet)

    config = (HEAD + CONFIG).replace("    collectors:", "    jobs: {exclude: {name: [name-a]}}\n    collectors:")
    assert "exclude" in config
    (line,) = run(steps, config)
    assert line == {**FACTS, "job_id": "b", "job_name": "name-b", "status": "failed"}  # nothing else is known


def test_what_ended_before_the_start_is_not_recorded(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs.append(job("old", "Failed", GmtFinishTime=at(-30)))
        await _poll_jobs(fleet)

    assert run(steps) == []
    assert _ended(caplog) == []


def test_without_a_ledger_the_log_has_it_all_the_same(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def steps(cloud: Cloud, fleet: Fleet) -> None:
        cloud.jobs[1] |= {"Status": "Stopped", "GmtFinishTime": at(30)}
        await _poll_jobs(fleet)

    assert run(steps, CONFIG) == []
    assert [fields["job_id"] for fields in _ended(caplog)] == ["b"]


SMALL = "providers: [{name: a, platform: small, region: any-1}]\n"


async def test_a_reload_changes_the_ledger_and_keeps_the_providers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, SMALL, caplog) as here:
        outcome = await here.reload("global: {ledger_file: new.jsonl}\n" + SMALL)
        assert outcome.success
        assert here.world.built == {"a": 1}
        assert here.exporter.config.global_.ledger_file == tmp_path / "new.jsonl"
        assert _exists(tmp_path / "new.jsonl")


async def test_a_reload_with_an_unusable_ledger_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, SMALL, caplog) as here:
        outcome = await here.reload(f"global: {{ledger_file: {'n' * 300}}}\n" + SMALL)  # longer than a name may be
        assert not outcome.success
        assert "cannot write the ledger" in outcome.text
        assert here.exporter.config.global_.ledger_file is None


def _exists(path: Path) -> bool:
    return path.exists()


def test_the_flag_overrides_the_config(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + CONFIG, encoding="utf-8")

    def ledger(*flags: str) -> Path | None:
        options = cli.make_context("", [f"--config.file={path}", *flags]).params
        return _load({**options, "shard": WHOLE}).global_.ledger_file

    assert ledger() == tmp_path / "ledger.jsonl"
    assert ledger("--ledger=other.jsonl") == Path("other.jsonl")
