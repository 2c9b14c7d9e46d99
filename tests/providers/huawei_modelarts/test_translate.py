"""Rows of ModelArts' lists to the model: what is absent, what is counted, and what a bad field takes along."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pytest

from tests.providers.huawei_modelarts.cloud import job
from tests.support.payloads import payload
from trainfleet_exporter.model import Accelerators, JobPods, NodeCount, Pod, PoolAmounts, Status
from trainfleet_exporter.providers.huawei_modelarts import past, payloads, translate
from trainfleet_exporter.providers.huawei_modelarts import translate_v1 as v1
from trainfleet_exporter.transport.json_fields import counting_unusable
from trainfleet_exporter.transport.payload import decode

_RETRIES = "fault-tolerance/job-retry-num"


def row(**status: Any) -> dict[str, Any]:
    found = job("a", **status)
    found["metadata"]["annotations"] = {_RETRIES: "3", "team": "vision"}
    return found


def read(given: dict[str, Any]) -> payloads.Job:
    return payload(given, payloads.Job)


def test_tasks_of_a_job_and_how_often_it_may_be_restarted() -> None:
    tasks = translate.tasks(read(row(tasks=["worker-0", "worker-1", "worker-0", ""])))
    assert tasks == translate.JobTasks(("worker-0", "worker-1"), 3)
    assert translate.details("a", tasks) == [
        Pod(job_id="a", pod_id="worker-0", role="worker"),
        Pod(job_id="a", pod_id="worker-1", role="worker"),
        JobPods(job_id="a", restarts_allowed=3),
    ]
    assert translate.details("a", translate.tasks(payloads.Job())) == []


def test_job_without_workspace_is_in_the_requested_one() -> None:
    nameless = row()
    del nameless["metadata"]["workspace_id"]
    found, named = translate.job(read(nameless), "w"), translate.job(read(row()), "w")
    assert found is not None
    assert named is not None
    assert (found.workspace_id, named.workspace_id) == ("w", "0")


def test_impossible_number_of_devices_is_absent_and_counted() -> None:
    given = row()
    given["spec"]["resource"] |= {
        "node_count": 2,
        "main_container_allocated_resources": {"accelerator_num": 1e300, "accelerator_type": "ascend-snt9b"},
    }
    with counting_unusable() as lost:
        found = translate.job(read(given))
    assert found is not None
    assert (found.accelerators, lost) == ((), {"out_of_range": 1})
    life = past.job_life(read(given), shown_tags=())
    assert life is not None
    assert (life.job.accelerators, life.cards) == ((), 0)


def test_each_field_that_cannot_be_used_is_counted_once() -> None:
    broken = row(duration=[], start_time="soon")
    broken["metadata"]["annotations"][_RETRIES] = "often"
    broken["spec"]["resource"]["node_count"] = -3
    with counting_unusable() as lost:
        given = read(broken)
        found = translate.job(given)
        translate.tasks(given)
    assert found is not None
    assert (found.duration, found.started, found.name) == (None, None, "name-a")
    assert lost["malformed"] == 3
    assert lost["out_of_range"] >= 1


@pytest.mark.parametrize("given", [{"metadata": "broken"}, {"metadata": {"id": ""}}, {"metadata": {"id": None}}, {}])
def test_a_row_without_an_id_is_no_job(given: dict[str, Any]) -> None:
    assert translate.job(read(given)) is None


def test_bad_rows_of_a_page_lose_only_themselves() -> None:
    good = json.dumps(row())
    odd = good.replace('"duration": 500000', '"duration": NaN').replace('"name-a"', '"half \\ud83d pair"')
    body = f'{{"total": 5, "items": [{good}, null, "x", {odd}, {{"metadata": []}}]}}'
    with counting_unusable() as lost:
        page = decode(body.encode(), payloads.JobsPage)
        jobs = [None if item is None else translate.job(item) for item in page.items or ()]
    first, second, third, fourth, fifth = jobs
    assert (second, third, fifth) == (None, None, None)
    assert first is not None
    assert fourth is not None
    assert (first.name, first.duration, first.status) == ("name-a", 500, Status.RUNNING)
    assert (fourth.name.startswith("half"), fourth.duration, fourth.started) == (True, None, first.started)
    assert lost == {"out_of_range": 1}


def _resource(**resource: Any) -> Any:
    found = translate.job(read(job("a", resource={"node_count": 2, **resource})))
    assert found is not None
    return found.cpu_cores, found.memory_bytes, found.accelerators


def test_what_a_job_asks_for() -> None:
    container = {"cpu_core_num": 192, "mem_size": "1536", "accelerator_num": 8, "accelerator_type": "ascend-snt9b"}
    flavor = {
        "cpu": {"core_num": 8},
        "memory": {"size": 64, "unit": "GB"},
        "npu": {"unit_num": "1", "product_name": "D"},
    }
    assert _resource(main_container_allocated_resources=container) == (
        384,
        3072 * 2**30,
        (Accelerators("npu", "ascend-snt9b", 16),),
    )
    assert _resource(flavor_detail={"flavor_type": "Ascend", "flavor_info": flavor}) == (
        16,
        128 * 2**30,
        (Accelerators("npu", "D", 2),),
    )
    assert _resource(flavor_detail={"flavor_type": "CPU"}) == (None, None, (Accelerators("gpu", "", 0),))
    assert _resource(flavor_detail={"flavor_info": {"memory": {"size": 64, "unit": "TB"}}}) == (None, None, ())
    assert _resource(main_container_allocated_resources={"accelerator_num": 8, "accelerator_type": "unheard of"}) == (
        None,
        None,
        (),
    )
    assert _resource(node_count=None, main_container_allocated_resources=container) == (None, None, ())


def test_roles_of_a_heterogeneous_job_add_up() -> None:
    given = job("a", tasks=["worker-0", "worker-1", "server-0"])
    gpu = {"main_container_allocated_resources": {"cpu_core_num": 8, "accelerator_num": 1, "accelerator_type": "GPU"}}
    cpu = {"flavor_type": "CPU", "flavor_info": {"cpu": {"core_num": 4}}}
    given["tasks"] = [{"role": "worker", "task_resource": gpu}, {"role": "server", "task_resource": cpu}]
    found = translate.job(read(given))
    assert found is not None
    assert (found.cpu_cores, found.memory_bytes, found.accelerators) == (20, None, (Accelerators("gpu", "GPU", 2),))
    given["tasks"].append({"role": "evaluator", "task_resource": gpu})  # of which no task is known
    found = translate.job(read(given))
    assert found is not None
    assert (found.cpu_cores, found.accelerators) == (None, ())


@pytest.mark.parametrize(
    ("names", "more", "lost"),
    [(["worker-0"], ["x"], 1), (["worker-0", {"name": "worker-1"}], [], 1), (["worker-0", None], [], 0)],
)
def test_unreadable_roles_and_tasks_leave_no_totals(names: list[Any], more: list[Any], lost: int) -> None:
    given = job("a", tasks=names)
    gpu = {"main_container_allocated_resources": {"cpu_core_num": 8, "accelerator_num": 1, "accelerator_type": "GPU"}}
    given["tasks"] = [{"role": "worker", "task_resource": gpu}, *more]
    with counting_unusable() as counted:
        found = translate.job(read(given))
    assert found is not None
    assert (found.cpu_cores, found.accelerators, counted["malformed"]) == (None, (), lost)


def test_tags_are_text_annotations_and_all_lists_of_tags() -> None:
    given = row()
    given["metadata"] |= {"annotations": {"team": "vision", "number": 3}, "tags": [{"key": "team", "value": "speech"}]}
    given["spec"]["tags"] = [{"key": "empty"}, {"value": "without a key"}, "x"]
    given["tags"] = [{"key": "number", "value": 7}]
    found = translate.job(read(given))
    assert found is not None
    assert dict(found.tags) == {"team": "speech", "number": "7", "empty": ""}


def _nodes(**resources: Any) -> tuple[NodeCount, ...]:
    found = translate.pool(payload({"metadata": {"name": "p"}, "status": {"resources": resources}}, payloads.Pool))
    assert found is not None
    return found.nodes


def test_nodes_of_a_pool_by_condition() -> None:
    found = _nodes(available=[{"count": 3}, {"count": "1"}], abnormal=None, creating=[])
    assert {each.status: each.count for each in found} == {"available": 4, "abnormal": 0, "creating": 0, "deleting": 0}
    # What is not the documented list is not known; it is not 0.
    assert _nodes(available={"count": 3}, abnormal=[{"count": "x"}], creating=3, deleting=[None]) == ()
    assert _nodes(available=True, abnormal="3", creating=[3], deleting=[{"count": -1}]) == ()
    found_without = translate.pool(payload({"metadata": {"name": "p"}, "status": {}}, payloads.Pool))
    assert found_without is not None
    assert found_without.nodes == ()


def test_amounts_of_a_pool_that_cannot_be_read_are_absent() -> None:
    value = {"cpu": "1073m", "memory": True, "huawei.com/ascend-1980": "16", "nvidia.com/gpu": "many"}
    given = {"metadata": {"name": "p"}, "table": {"capacity": {"value": value}, "allocated": []}}
    with counting_unusable() as lost:
        found = translate.pool_amounts(payload(given, payloads.PoolRuntimeMetrics))
    accelerators = (Accelerators("npu", "huawei.com/ascend-1980", 16),)
    assert found == PoolAmounts(pool_id="p", capacity_cpu_cores=1.073, capacity_accelerators=accelerators)
    assert lost == {"malformed": 2}


def _workloads(**answer: Any) -> tuple[dict[tuple[str, str], int], Counter[str]] | None:
    found = translate.pool_workloads("p", payload(answer, payloads.WorkloadStatisticsAnswer))
    if found is None:
        return None
    return {(each.workload_type, each.platform_status): each.count for each in found[0]}, found[1]


def test_counts_of_workloads_that_are_left_out_are_zero() -> None:
    found = _workloads(statics={"items": [{"type": "train", "status": {"Queue": "2", "Running": 4}}]})
    assert found is not None
    counts, dropped = found
    assert (len(counts), sum(counts.values()), counts["train", "Queue"], counts["infer", "Queue"]) == (27, 6, 2, 0)
    assert not dropped
    found = _workloads(statistics={"items": None})
    assert found is not None
    assert sum(found[0].values()) == 0


def test_counts_of_workloads_that_cannot_be_read_are_no_zeros() -> None:
    found = _workloads(
        statistics={"items": [{"type": "train", "status": {"Queue": True, "Running": "x", "Failed": -1}}]}
    )
    assert found is not None
    counts, dropped = found
    assert counts.keys() & {("train", "Queue"), ("train", "Running"), ("train", "Failed")} == set()
    assert (counts["train", "Pending"], dropped) == (0, {"malformed": 3})
    found = _workloads(statistics={"items": [{"status": {}}, {"type": "train", "status": {"Queue": 2}}, None]})
    assert found is not None
    counts, dropped = found
    assert (counts, dropped) == (
        {("train", word): 2 if word == "Queue" else 0 for word in translate.WORKLOAD_STATUS},
        {"malformed": 2},
    )


@pytest.mark.parametrize("answer", [{}, {"statistics": {}}, {"statistics": {"items": {}}}, {"statistics": []}])
def test_statistics_without_a_list_are_no_answer(answer: dict[str, Any]) -> None:
    assert _workloads(**answer) is None


# The v1 API.


def test_ids_of_v1_are_numbers() -> None:
    given = {"job_id": 567524, "version_id": 1108482, "status": 8, "job_name": "resnet"}
    body = json.dumps({"job_total_count": 1, "jobs": [given, 3]}).encode()
    with counting_unusable() as lost:
        page = decode(body, payloads.JobsPageV1)
        assert v1.job_id(payload({"job_id": "a", "version_id": 2**70}, payloads.JobV1)) == f"a/{2**70}"
        assert v1.job_id(payload({"job_id": 1, "job_name": [], "duration": math.nan}, payloads.JobV1)) == "1/"
    assert page.jobs == [payloads.JobV1(567524, "resnet", 1108482, 8.0), None]
    assert not lost


@pytest.mark.parametrize(
    ("given", "word", "is_live"),
    [
        (8, "JOBSTAT_RUNNING", True),
        ("8", "JOBSTAT_RUNNING", True),
        (10, "JOBSTAT_COMPLETED", False),
        (6, "JOBSTAT_DELETE_FAILED", False),
        (22, "JOBSTAT_22", True),
        (-1, "-1", True),
        (8.5, "", True),
        (math.nan, "", True),
        ("8Ki", "8Ki", True),
        ("odd", "odd", True),
        (None, "", True),
    ],
)
def test_status_of_v1(given: Any, word: str, is_live: bool) -> None:
    row = payload({"job_id": "1", "status": given}, payloads.JobV1)
    assert (v1.job_status(row.status)[1], v1.is_live(row)) == (word, is_live)


@pytest.mark.parametrize(
    ("names", "pods", "reason"),
    [
        (["a.0", "a.1", "a.0", ""], ["a.0", "a.1"], {"duplicate": 1, "malformed": 1}),
        (None, [], {"no_data": 1}),
        ("a.0", [], {"malformed": 1}),
        (8, [], {"malformed": 1}),
        ([None, {}, 8], [], {"malformed": 3}),
    ],
)
def test_pods_of_v1_are_named_by_log_files(names: Any, pods: list[str], reason: dict[str, int]) -> None:
    found, dropped = v1.pods("1/2", payload({"log_file_list": names}, payloads.LogFileNames))
    assert ([pod.pod_id for pod in found], dropped) == (pods, reason)
