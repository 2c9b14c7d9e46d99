"""Values that are easily wrong: a fake SageMaker in, the page out."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.providers.aws_sagemaker.cloud import CONFIG, Cloud, FleetOf, Row, failed, job, plan_arn, stage
from tests.support.clock import START
from tests.support.fleet import Fleet

_SUCCEEDED = 'jobs_finished_total{workspace_id="default",status="succeeded"}'
_GPU = 'accelerator="gpu"'


def _end(row: Row, at: float) -> None:
    row["SecondaryStatusTransitions"][-1]["EndTime"] = START + at
    row["SecondaryStatusTransitions"].append(stage("Completed", at, at))
    row |= {"TrainingJobStatus": "Completed", "SecondaryStatus": "Completed"}
    row |= {"TrainingEndTime": START + at, "LastModifiedTime": START + at}


def _phases(lines: list[str]) -> dict[str, float]:
    return {line.split('phase="')[1].split('"')[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_a_name_that_is_used_again_is_a_new_job(fleet_of: FleetOf, tmp_path: Path) -> None:
    cloud, ledger = Cloud(), tmp_path / "ledger.jsonl"
    stages = [stage("Starting", 10, 20), stage("Pending", 20, 50), stage("Training", 50, 70)]
    stages += [stage("Interrupted", 70, 90), stage("Starting", 90, 100), stage("Training", 100, None)]
    born = {"CreationTime": START + 10, "TrainingStartTime": START + 50}
    cloud.jobs = [job("nightly", SecondaryStatusTransitions=stages) | born]
    async with fleet_of(cloud, f"global: {{ledger_file: {ledger}}}\n{CONFIG}") as fleet:
        jobs, usage = fleet.runner("jobs"), fleet.runner("usage")
        first, cloud.jobs = cloud.jobs, []
        await jobs.tick()
        await asyncio.sleep(130)
        cloud.jobs = first
        await jobs.tick()
        faults = 'job_faults_total{job_id="nightly",cause="preempted",platform_cause="Interrupted"}'
        assert await fleet.value(faults) == 1
        assert await fleet.value('job_queue_wait_seconds_sum{pool_id=""}') == 30
        cloud.points["nightly/algo-1", "GPUUtilization"] = [(START + 120, 400.0)]
        await usage.tick()
        assert await fleet.value(f'job_accelerator_utilization_ratio{{job_id="nightly",{_GPU}}}') == 0.5
        await asyncio.sleep(70)
        _end(cloud.jobs[0], 160)
        await jobs.tick()
        assert await fleet.value(_SUCCEEDED) == 1
        # Deleted and created again, while the first life is still shown.
        stages = [stage("Starting", 210, 220), stage("Pending", 220, 225), stage("Training", 225, None)]
        born = {"CreationTime": START + 210, "TrainingStartTime": START + 225}
        cloud.jobs = [job("nightly", SecondaryStatusTransitions=stages) | born]
        await asyncio.sleep(60)
        await jobs.tick()
        await usage.tick()
        assert await fleet.value('job_status{job_id="nightly",status="running"}') == 1
        assert len(await fleet.lines("job_info")) == 1
        assert await fleet.lines("job_faults_total", "job_recoveries_total") == []
        assert await fleet.value('job_recovery_seconds_total{job_id="nightly"}') == 0
        assert _phases(await fleet.lines("job_phase_seconds")) == {"preparing": 10, "queued": 5, "running": 35}
        assert await fleet.value('job_queue_wait_seconds_count{pool_id=""}') == 2
        assert await fleet.value('job_queue_wait_seconds_sum{pool_id=""}') == 35
        assert await fleet.lines("job_accelerator_utilization_ratio", "job_usage") == []
        assert fleet.own("dropped_readings_total", collector="usage", reason="stale") == 1
        await asyncio.sleep(60)
        _end(cloud.jobs[0], 300)
        await jobs.tick()
        assert await fleet.value(_SUCCEEDED) == 2
    ended = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [(line["faults"], line["recoveries"]) for line in ended] == [({"preempted": 1}, 1), ({}, 0)]
    # A launch holds nothing, although it is preparation.
    assert [(line["held_seconds"], line["lost_seconds"]) for line in ended] == [(80.0, 0.0), (75.0, 0.0)]


async def test_a_name_used_again_between_two_polls_is_a_new_job(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    interrupted = [stage("Training", 10, 20), stage("Interrupted", 20, 30), stage("Training", 30, None)]
    cloud.jobs = [job("a", CreationTime=START + 1, SecondaryStatusTransitions=interrupted)]
    async with fleet_of(cloud) as fleet:
        await asyncio.sleep(50)
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_recoveries_total{job_id="a",strategy="restart",result="success"}') == 1
        cloud.jobs = [job("a", CreationTime=START + 60, SecondaryStatusTransitions=[stage("Training", 65, None)])]
        await asyncio.sleep(50)
        await fleet.runner("jobs").tick()
        assert await fleet.lines("job_faults_total", "job_recoveries_total") == []
        assert _phases(await fleet.lines("job_phase_seconds")) == {"running": 35}
        for ended in (1, 2):  # no answer says how the first lives ended
            at = 100 * ended
            cloud.jobs = [job("a", CreationTime=START + at, SecondaryStatusTransitions=[stage("Training", at, None)])]
            _end(cloud.jobs[0], at + 20)
            await asyncio.sleep(100)
            await fleet.runner("jobs").tick()
            assert await fleet.value(_SUCCEEDED) == ended
        await asyncio.sleep(4000)  # the latest life is shown no more, and its end is still known
        cloud.jobs = [job("a", CreationTime=START + 4200, SecondaryStatusTransitions=[stage("Training", 4205, None)])]
        _end(cloud.jobs[0], START + 4220)
        await fleet.runner("jobs").tick()
        assert await fleet.value(_SUCCEEDED) == 3


async def test_a_list_of_ends_that_is_too_long_for_a_poll_is_read_in_several(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.page, ended = 10, range(-20_000, -2_000, 30)
    cloud.jobs = [job(f"old{at}", "Completed", "Completed", LastModifiedTime=START + at) for at in ended]
    cloud.jobs.append(job("a"))

    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(1)
        return cloud(request)

    async with fleet_of(slow) as fleet:
        for succeeded, is_whole in ((0, 0), (1, 0), (1, 1)):  # a job that was live is looked up meanwhile
            await fleet.runner("jobs").tick()
            assert await fleet.value(_SUCCEEDED) == succeeded
            assert fleet.own("collector_success", collector="jobs") == is_whole
            if not succeeded:
                _end(cloud.jobs[-1], 55)
            await asyncio.sleep(20)


@pytest.mark.parametrize(("status", "holds"), [("Available", 1), ("InUse", 1), ("Reused", None), ("Terminated", None)])
async def test_a_warm_pool_from_before_the_exporter_is_held(
    fleet_of: FleetOf, status: str, holds: float | None
) -> None:
    cloud, hours = Cloud(), 5.9 * 3600
    cloud.jobs = [job("a", "Completed", "Completed", WarmPoolStatus={"Status": status}, CreationTime=START - 9e5)]
    cloud.jobs[0] |= {"TrainingEndTime": START - hours, "LastModifiedTime": START - hours}
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        kind = 'accelerator="gpu",accelerator_model="H100"'
        assert await fleet.value('job_holds_resources{job_id="a"}') == holds
        assert await fleet.value(f'job_requested_accelerators{{job_id="a",{kind}}}') == (16 if holds else None)
        assert await fleet.value('job_status{job_id="a",status="succeeded"}') == holds
        series = [line.rpartition(" ")[0] for line in await fleet.lines("")]
        assert [each for each, count in Counter(series).items() if count > 1] == []
        live = [line for line in await fleet.lines("jobs{") if 'platform_status="Completed"' not in line]
        assert sum(float(line.rpartition(" ")[2]) for line in live) == 0
        assert await fleet.value(_SUCCEEDED) == 0
        assert cloud.called("GetMetricData") == []


async def test_a_spot_job_that_waits_again_holds_nothing(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    stages = [stage("Starting", -600, -500), stage("Training", -500, 10), stage("Interrupted", 10, None)]
    cloud.jobs = [job("a", "Interrupted", SecondaryStatusTransitions=stages, EnableManagedSpotTraining=True)]
    cloud.points["a/algo-1", "MemoryUtilization"] = points = [(START, 50.0)]  # of instances that are taken away

    async def step(fleet: Fleet, word: str, at: float) -> tuple[float | None, float | None, dict[str, float]]:
        stages[-1]["EndTime"] = START + at
        stages.append(stage(word, at, None))
        cloud.jobs[0]["SecondaryStatus"] = word
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        await fleet.runner("usage").tick()
        phases = _phases(await fleet.lines("job_phase_seconds"))
        started = await fleet.value('job_started_timestamp_seconds{job_id="a"}')
        return await fleet.value('job_holds_resources{job_id="a"}'), started, phases

    async with fleet_of(cloud) as fleet:
        await asyncio.sleep(30)
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_status{job_id="a",status="restarting"}') == 1
        assert await fleet.value('job_holds_resources{job_id="a"}') == 0
        before = {"preparing": 100, "running": 510}
        assert _phases(await fleet.lines("job_phase_seconds")) == {**before, "queued": 20}
        await fleet.runner("usage").tick()
        assert cloud.called("GetMetricData") == []  # it holds nothing
        assert await step(fleet, "Starting", 50) == (0, START - 500, {**before, "queued": 80})
        assert await fleet.value('job_status{job_id="a",status="starting"}') == 1
        assert await step(fleet, "Downloading", 110) == (1, START - 500, {**before, "queued": 100, "preparing": 140})
        after = {"queued": 100, "preparing": 160, "running": 550}
        assert await step(fleet, "Training", 170) == (1, START - 500, after)
        assert await fleet.value('job_recovery_seconds_total{job_id="a"}') == 160
        assert await fleet.value('job_restarts_total{job_id="a"}') == 1
        assert await fleet.lines("job_memory_utilization_ratio", "job_usage") == []
        assert 'resource_type="ml.p5.48xlarge",payment_type="Spot"' in (await fleet.lines("job_info"))[0]
        points.append((START + 180, 60.0))
        stages[0]["StartTime"] = 0  # a time that is not set
        await step(fleet, "Training", 200)
        assert await fleet.value('job_restarts_total{job_id="a"}') is None
        assert await fleet.value('job_memory_utilization_ratio{job_id="a"}') == 0.6


@pytest.mark.parametrize(
    ("word", "status", "phase", "holds"),
    [
        ("Pending", "queued", "queued", 0),
        ("Uploading", "running", "finishing", 1),
        ("Updating", "running", "running", 1),
        ("Restarting", "restarting", "recovering", 1),
        ("Downloading", "starting", "preparing", 1),
    ],
)
async def test_words_of_a_job_in_progress(fleet_of: FleetOf, word: str, status: str, phase: str, holds: float) -> None:
    cloud = Cloud()
    cloud.jobs = [job("a", word, SecondaryStatusTransitions=[stage("Starting", -9, -5), stage(word, -5, None)])]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert await fleet.value(f'job_status{{job_id="a",status="{status}"}}') == 1
        assert await fleet.value(f'jobs{{workspace_id="default",status="{status}",platform_status="{word}"}}') == 1
        assert await fleet.value('job_holds_resources{job_id="a"}') == holds
        assert _phases(await fleet.lines("job_phase_seconds")) == Counter({phase: 65.0}) + Counter({"preparing": 4.0})


async def test_a_job_holds_its_instances_when_its_last_stage_is_unreadable(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.is_of_models = False
    stages = [stage("Starting", -9, -5), {"Status": "Restarting"}]
    cloud.jobs = [job("a", "Restarting", SecondaryStatusTransitions=stages, TrainingStartTime=START - 5)]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_holds_resources{job_id="a"}') == 1


async def test_a_job_that_never_waited_is_observed_with_0(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        stages = [stage("Starting", 5, 20), stage("Training", 20, None)]
        cloud.jobs = [job("a", SecondaryStatusTransitions=stages, CreationTime=START + 5)]
        await asyncio.sleep(60)
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_queue_wait_seconds_count{pool_id=""}') == 1
        assert await fleet.value('job_queue_wait_seconds_sum{pool_id=""}') == 0
        assert await fleet.value('job_startup_seconds_sum{pool_id=""}') == 15


def _group(name: str, **fields: object) -> Row:
    return {"InstanceGroupName": name, "CurrentCount": 4, "Status": "InService", **fields}


def _node(instance: str, **fields: object) -> Row:
    found = {"InstanceGroupName": "g", "InstanceId": instance, "InstanceType": "ml.p5.48xlarge", "LaunchTime": START}
    return {**found, "InstanceStatus": {"Status": "Running"}, **fields}


async def test_capacity_of_flexible_and_restricted_groups(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.is_of_models = False  # a cluster may have restricted groups alone, which the models do not know
    details = [
        {"InstanceType": kind, "CurrentCount": count}
        for kind, count in (("ml.p5.48xlarge", 3), ("ml.p4d.24xlarge", 1), ("ml.m5.xlarge", 2))
    ]
    cloud.clusters = {
        "flexible": (
            [
                _group("mixed", CurrentCount=6, InstanceTypeDetails=details),
                _group("odd", InstanceTypeDetails=[None, details[0]]),
            ],
            [],
        ),
        "restricted": ([], []),
    }
    cloud.restricted = {"restricted": [_group("nova", InstanceType="ml.p5.48xlarge", TargetCount=4)]}
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        assert fleet.own("collector_success", collector="pools") == 1
        capacity = {
            line.split('pool_id="')[1].split('"')[0] + "/" + line.split('model="')[1].split('"')[0]: line.split()[-1]
            for line in await fleet.lines("pool_capacity_accelerators")
        }
        assert capacity == {"flexible/mixed/H100": "24", "flexible/mixed/A100": "8", "restricted/nova/H100": "32"}
        assert await fleet.value('pool_capacity_cpu_cores{pool_id="flexible/mixed"}') == 3 * 192 + 96 + 2 * 4
        assert fleet.own("dropped_readings_total", collector="pools", reason="no_data") == 0
        assert fleet.own("dropped_readings_total", collector="pools", reason="malformed") == 1
        assert await fleet.value('pool_status{pool_id="flexible/odd",status="ready"}') == 1


async def test_threads_that_are_off_are_no_cores(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    details = [
        {"InstanceType": kind, "CurrentCount": 1, "ThreadsPerCore": 1} for kind in ("ml.p5.48xlarge", "ml.c8g.large")
    ]
    groups = [_group(f"g{number}", InstanceType="ml.p5.48xlarge", ThreadsPerCore=number) for number in (1, 2)]
    groups.append(_group("flexible", CurrentCount=2, InstanceTypeDetails=details))
    nodes = [_node(f"i-{number}", InstanceGroupName=f"g{number}") for number in (1, 2)]
    cloud.clusters = {"c": (groups, nodes)}
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        await fleet.runner("nodes").tick()
        for pool_id, cores in (("c/g1", 4 * 96), ("c/g2", 4 * 192), ("c/flexible", 96 + 2)):
            assert await fleet.value(f'pool_capacity_cpu_cores{{pool_id="{pool_id}"}}') == cores
        for number, cores in ((1, 96), (2, 192)):
            series = f'node_capacity_cpu_cores{{pool_id="c/g{number}",node_name="i-{number}"}}'
            assert await fleet.value(series) == cores


def _plan(**fields: object) -> Row:
    return {"TrainingPlanArn": plan_arn("p"), "TrainingPlanName": "p", "Status": "Active", **fields}


async def test_a_plan_with_several_instance_types_has_capacity(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    parts = [("ml.p5.48xlarge", 3, "Active"), ("ml.trn2.48xlarge", 2, "Active"), ("ml.p5e.48xlarge", 4, "Scheduled")]
    summaries = [
        {
            "ReservedCapacityArn": f"arn:aws:sagemaker:us-east-1:123456789012:reserved-capacity/{kind}",
            "InstanceType": kind,
            "TotalInstanceCount": count,
            "Status": status,
        }
        for kind, count, status in parts
    ]
    cloud.plans = [_plan(TotalInstanceCount=9, InUseInstanceCount=1, ReservedCapacitySummaries=summaries)]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        capacity = [line.partition(",accelerator=")[2] for line in await fleet.lines("pool_capacity_accelerators")]
        assert capacity == ['"gpu",accelerator_model="H100"} 24', '"npu",accelerator_model="Trainium2"} 32']
        assert await fleet.value('pool_capacity_cpu_cores{pool_id="p"}') == 5 * 192
        assert await fleet.lines("pool_allocated_accelerators") == []  # of which type the one is, nothing says


async def test_nodes_keep_their_end_while_plans_fail(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    group = _group("g", InstanceType="ml.p5.48xlarge", TrainingPlanArn=plan_arn("p"))
    cloud.clusters = {"c": ([group], [_node("i-1")])}
    cloud.plans = [_plan(EndTime=START + 86400)]
    async with fleet_of(cloud) as fleet:
        for minute in range(8):
            fleet.runner("pools").expire()
            await asyncio.gather(fleet.runner("pools").tick(), fleet.runner("nodes").tick())
            parents = [line.split('parent_pool_id="')[1] for line in await fleet.lines("pool_info")]
            assert parents == (['"} 1', 'p"} 1'] if minute < 4 else ['p"} 1'])  # its ARN names the plan
            assert len(await fleet.lines("node_expiry_timestamp_seconds")) == 1
            cloud.answer = lambda operation, asked: failed("Oops") if operation == "ListTrainingPlans" else None
            await asyncio.sleep(60)
        cloud.answer, cloud.plans = lambda operation, asked: None, []
        await asyncio.gather(fleet.runner("pools").tick(), fleet.runner("nodes").tick())
        assert await fleet.lines("node_expiry_timestamp_seconds") == []


async def test_a_plan_without_its_arn_is_no_parent_of_other_groups(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.is_of_models = False
    cloud.clusters = {"c": ([_group("g", InstanceType="ml.p5.48xlarge")], [])}
    cloud.plans = [_plan() | {"TrainingPlanArn": None}]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("pools").tick()
        parents = [line.split('parent_pool_id="')[1] for line in await fleet.lines("pool_info")]
        assert parents == ['"} 1', '"} 1']


@pytest.mark.parametrize(
    ("chosen", "pool", "payment"), [("ml.p4d.24xlarge", "p", "TrainingPlan"), ("ml.p5.48xlarge", "", "OnDemand")]
)
async def test_the_plan_of_the_chosen_type_is_the_pool(fleet_of: FleetOf, chosen: str, pool: str, payment: str) -> None:
    cloud = Cloud()
    cloud.is_of_models = False
    wanted = [
        {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1},
        {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "TrainingPlanArns": [None, plan_arn("p")]},
    ]
    config = {"InstancePreferences": wanted, "SelectedInstanceType": chosen, "SelectedInstanceCount": 2}
    cloud.jobs = [job("a", ResourceConfig={**config, "VolumeSizeInGB": 30})]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        (info,) = await fleet.lines("job_info")
        assert f'pool_id="{pool}"' in info
        assert f'resource_type="{chosen}",payment_type="{payment}"' in info


async def test_a_stage_ends_when_it_says_so(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    undated = {"Status": "Uploading", "EndTime": START - 50}
    stages = [stage("Starting", -600, -500), stage("Training", -500, -90), undated, stage("Restarting", -50, None)]
    cloud.jobs = [job("a", "Restarting", SecondaryStatusTransitions=stages)]
    cloud.is_of_models = False
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        expected = {"preparing": 100, "running": 410, "recovering": 50}
        assert _phases(await fleet.lines("job_phase_seconds")) == expected


async def test_unknown_instance_types_are_counted_and_logged_once(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.is_of_models = False
    cloud.jobs = [job(name, ResourceConfig={"InstanceType": "ml.z9.big", "InstanceCount": 1}) for name in "ab"]
    cloud.clusters = {"c": ([_group("g", InstanceType="ml.z9.big")], [_node("i-1", InstanceType="ml.z9.big")])}
    async with fleet_of(cloud) as fleet:
        for _ in range(2):
            assert await fleet.exporter.poll_once()
        for name, count in (("jobs", 4), ("pools", 2), ("nodes", 2)):
            assert fleet.own("dropped_readings_total", collector=name, reason="no_data") == count
        assert await fleet.lines("job_requested_accelerators", "pool_capacity", "node_capacity_acc") == []
        (line,) = [line for line in fleet.log if "unknown instance type" in line]
        assert "ml.z9.big" in line


async def test_what_has_no_accelerators_has_no_series_of_them(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    cloud.jobs = [job("cpu", ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2})]
    cloud.clusters = {
        "c": ([_group("head", InstanceType="ml.m5.large"), _group("gpu", InstanceType="ml.g5.xlarge")], [])
    }
    cloud.clusters["c"][0][1]["CurrentCount"] = 0
    async with fleet_of(cloud) as fleet:
        await fleet.exporter.poll_once()
        assert await fleet.lines("job_requested_accelerators") == []
        assert await fleet.value('job_requested_cpu_cores{job_id="cpu"}') == 4
        (capacity,) = await fleet.lines("pool_capacity_accelerators")
        assert capacity.endswith('pool_id="c/gpu",accelerator="gpu",accelerator_model="A10G"} 0')


@pytest.mark.parametrize("word", ["Deleting", "Hibernating"])
async def test_a_job_with_an_unknown_status_has_its_series(fleet_of: FleetOf, word: str) -> None:
    cloud = Cloud()
    cloud.is_of_models = False
    cloud.jobs = [job("a", "Stopped", word, LastModifiedTime=START - 9e5), job("b")]
    async with fleet_of(cloud) as fleet:
        for _ in range(3):
            await fleet.runner("jobs").tick()
            assert await fleet.value('job_status{job_id="a",status="unknown"}') == 1
            assert await fleet.value('job_status{job_id="b",status="running"}') == 1
            assert await fleet.value(f'job_platform_status{{job_id="a",platform_status="{word}"}}') == 1
            assert await fleet.value('job_holds_resources{job_id="a"}') is None
            assert (await fleet.value('job_requested_nodes{job_id="a"}') is None) == (word == "Deleting")
            series = f'jobs{{workspace_id="default",status="unknown",platform_status="{word}"}}'
            assert await fleet.value(series) == 1
            await asyncio.sleep(3000)
        assert cloud.called("DescribeTrainingJob") == []
        cloud.jobs.clear()
        await fleet.runner("jobs").tick()
        gone = await fleet.value(series)
        assert gone == (0 if word == "Deleting" else None)


async def test_nodes_have_their_expiry_at_the_first_poll(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    nodes = [_node(f"i-{number}") for number in range(3)]
    group = _group("g", InstanceType="ml.p5.48xlarge", TrainingPlanArn=plan_arn("p"))
    cloud.clusters = {f"c{number}": ([group], nodes) for number in range(9)}
    cloud.plans = [_plan(EndTime=START + 86400)]
    async with fleet_of(cloud) as fleet:
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("node_expiry_timestamp_seconds")) == 27


@pytest.mark.parametrize(("operation", "pools"), [("DescribeCluster", 0), ("ListTrainingPlans", 1)])
async def test_a_hanging_call_takes_no_others_along(fleet_of: FleetOf, operation: str, pools: int) -> None:
    cloud = Cloud()
    cloud.clusters = {"c": ([_group("g", InstanceType="ml.p5.48xlarge")], [_node("i-1")])}

    async def hanging(request: object) -> object:
        if request.headers["x-amz-target"].endswith(operation):  # type: ignore[attr-defined]
            await asyncio.sleep(600)
        return cloud(request)  # type: ignore[arg-type]

    async with fleet_of(hanging, "global: {poll_timeout: 20s}\n" + CONFIG) as fleet:
        await asyncio.gather(fleet.runner("pools").tick(), fleet.runner("nodes").tick())
        assert fleet.own("collector_success", collector="pools") == 0
        assert fleet.own("collector_success", collector="nodes") == 1
        assert len(await fleet.lines("node_info")) == 1
        assert len(await fleet.lines("pool_info")) == pools


@pytest.mark.parametrize("operation", ["DescribeCluster", "ListClusterNodes"])
async def test_a_cluster_that_is_deleted_while_it_is_read_is_gone(fleet_of: FleetOf, operation: str) -> None:
    cloud = Cloud()
    cloud.clusters = {key: ([_group("g", InstanceType="ml.p5.48xlarge")], [_node(f"i-{key}")]) for key in "ab"}
    gone = failed("ResourceNotFound", "Cluster with name a was not found.")
    async with fleet_of(cloud) as fleet:
        for pools in (["a/g", "b/g"], ["b/g"]):
            await asyncio.gather(fleet.runner("pools").tick(), fleet.runner("nodes").tick())
            assert [line.split('pool_id="')[1].split('"')[0] for line in await fleet.lines("pool_info")] == pools
            assert fleet.own("collector_success", collector="pools") == 1
            assert fleet.own("collector_success", collector="nodes") == 1
            cloud.answer = lambda name, asked: gone if (name, asked.get("ClusterName")) == (operation, "a") else None
        assert len(await fleet.lines("node_info")) == (1 if operation == "ListClusterNodes" else 2)


async def test_a_spot_job_ends_when_it_waits_no_longer(fleet_of: FleetOf) -> None:
    cloud = Cloud()
    stages = [stage("Training", -500, -400), stage("Interrupted", -400, -100), stage("MaxWaitTimeExceeded", -100, -100)]
    ended = {"TrainingEndTime": START - 400, "LastModifiedTime": START - 100, "SecondaryStatusTransitions": stages}
    cloud.jobs = [job("a", "MaxWaitTimeExceeded", "Stopped", **ended)]
    async with fleet_of(cloud) as fleet:
        await fleet.runner("jobs").tick()
        assert await fleet.value('job_finished_timestamp_seconds{job_id="a"}') == START - 100
        assert _phases(await fleet.lines("job_phase_seconds")) == {"running": 100, "queued": 300}


@pytest.mark.parametrize("old", [0, 5_000])
async def test_old_jobs_cost_no_calls(fleet_of: FleetOf, old: int) -> None:
    cloud = Cloud()
    cloud.jobs = [job(f"live{number}") for number in range(150)]
    ended = {"TrainingEndTime": START - 9e5, "LastModifiedTime": START - 9e5, "CreationTime": START - 1e6}
    cloud.jobs += [job(f"old{number}", "Completed", "Completed", **ended) for number in range(old)]
    async with fleet_of(cloud) as fleet:
        for _ in range(3):
            cloud.calls.clear()
            assert await fleet.exporter.poll_once()
            # Two pages of live jobs, one of ended ones, and three counts.
            expected = {"Search": 6, "GetMetricData": 3, "ListTrainingPlans": 1, "ListClusters": 1}
            assert Counter(name for name, _ in cloud.calls) == expected
            await asyncio.sleep(60)
        assert len(await fleet.lines("job_info")) == 150
