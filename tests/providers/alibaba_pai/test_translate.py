"""Payloads of PAI as objects of the model: odd values lose themselves, are counted, and take nothing else with them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.providers.alibaba_pai.cloud import Row
from tests.support.payloads import payload
from trainfleet_exporter.errors import BadAnswer
from trainfleet_exporter.model import Accelerators, Job, Pod, QueuePlace, RoleCount, Status
from trainfleet_exporter.providers.alibaba_pai import payloads, translate, translate_pools
from trainfleet_exporter.providers.alibaba_pai.job_metrics import METRIC_TYPES, MetricType, add
from trainfleet_exporter.providers.usage.sheet import Sheet
from trainfleet_exporter.transport.json_fields import counting_unusable
from trainfleet_exporter.transport.payload import NotJson, decode

CPU, NETWORK = METRIC_TYPES[0], METRIC_TYPES[4]
NOW = 1_767_323_045.0
PLAIN = Job(
    job_id="a",
    payment_type="PostPaid",
    status=Status.RUNNING,
    platform_status="Running",
    holds_resources=True,
)
"""A job of which only its id and its status are known."""


def _job(text: str) -> tuple[Job | None, Counter[str]]:
    """The job of a row, whose id and status are given, and what was counted."""
    with counting_unusable() as lost:
        row = decode(f'{{"JobId":"a","Status":"Running"{"," if text else ""}{text}}}'.encode(), payloads.Job)
        return translate.job(row), lost


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("", {}),
        ('"Duration":5', {"duration": 5.0}),
        ('"Duration": 5.5', {"duration": 5.5}),
        ('"Duration":"5"', {"duration": 5.0}),
        ('"Duration":5e1', {"duration": 50.0}),
        ('"\\u0044uration":5', {"duration": 5.0}),
        ('"Duration":null,"Duration":5', {"duration": 5.0}),
        ('"Settings":{"Duration":5}', {}),
        (
            '"Settings":{"Tags":{"Duration":"5","n":7,"none":null}},"Duration":1',
            {"duration": 1, "tags": (("Duration", "5"),)},
        ),
        ('"DisplayName":"said \\"Duration\\": 5"', {"name": 'said "Duration": 5'}),
        ('"JobSpecs":[{"Type":"Worker","Duration":5}]', {}),
        ('"DisplayName":"日本"', {"name": "日本"}),
        ('"DisplayName":"\\ud800"', {"name": "\ufffd\ufffd\ufffd"}),
        ('"DisplayName":"null"', {"name": "null"}),
        ('"DisplayName":{"x":1},"UserId":[7],"Username":true', {}),
        ('"UserId":12345678901234567890', {"user_id": "12345678901234567890"}),
        ('"Priority":7', {"priority": 7}),
        ('"Priority":"7"', {"priority": 7}),
        ('"Priority":7.5', {}),
        ('"Priority":-1,"Duration":"-1","NodeCount":"","RequestCPU":-1', {}),
        ('"RestartTimes":"2"', {"restarts": 2}),
        ('"RestartTimes":2', {"restarts": 2}),
        ('"RestartTimes":"1/10"', {"restarts": 1}),
        (
            '"NodeCount":"2","RequestCPU":92,"RequestMemory":"512Gi"',
            {"nodes": 2, "cpu_cores": 92, "memory_bytes": 2.0**39},
        ),
        ('"RequestMemory":512.0', {"memory_bytes": 2.0**39}),
        (
            '"RequestGPU":"8","ResourceId":"q"',
            {"pool_id": "q", "payment_type": "PrePaid", "accelerators": (Accelerators("gpu", "", 8.0),)},
        ),
        ('"JobSpecs":"none","Settings":7,"Unread":{"Priority":"high"}', {}),
        ('"GmtCreateTime":"2026-01-02T03:04:05Z"', {"created": NOW}),
        ('"GmtCreateTime":"0001-01-01T00:00:00Z","GmtRunningTime":"1970-01-01T08:00:00.000+08:00"', {}),
        ('"GmtFinishTime":"2026-01-02T03:04:05Z"', {}),
        ('"SubStatus":"Restarting"', {"status": Status.RESTARTING}),
    ],
)
def test_a_field_is_read_in_each_of_its_forms(fields: str, expected: dict[str, Any]) -> None:
    assert _job(fields) == (replace(PLAIN, **expected), Counter())


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ('"Duration":"long"', {"malformed": 1}),
        ('"Duration":-5', {"out_of_range": 1}),
        ('"Duration":NaN', {"out_of_range": 1}),
        ('"Duration":1e999', {"out_of_range": 1}),
        ('"Priority":"high","Duration":{}', {"malformed": 2}),
        ('"NodeCount":[2]', {"malformed": 1}),
        ('"RestartTimes":"often"', {"malformed": 1}),
        ('"RestartTimes":"often/10"', {"malformed": 1}),
        ('"RestartTimes":"-2"', {"out_of_range": 1}),
        ('"RequestCPU":"many","RequestMemory":true', {"malformed": 2}),
        ('"RequestMemory":"much"', {"malformed": 1}),
        ('"GmtCreateTime":"soon","GmtRunningTime":"2026-02-30T00:00:00Z"', {"malformed": 2}),
        (
            '"JobSpecs":[{"PodCount":"many","ResourceConfig":{"CPU":"x","GPU":"-2"}}]',
            {"malformed": 2, "out_of_range": 1},
        ),
        ('"JobSpecs":[{"PodCount":1,"ResourceConfig":{"CPU":"4","Memory":"8Gi","GPU":"2"}},5,null]', {"malformed": 2}),
    ],
)
def test_what_cannot_be_used_is_absent_and_counted(fields: str, lost: dict[str, int]) -> None:
    assert _job(fields) == (PLAIN, Counter(lost))


def test_a_huge_whole_number_is_a_number() -> None:
    job, lost = _job('"Priority":100000000000000000000000000')
    assert job is not None
    assert job.priority == int(1e26)
    assert not lost


@pytest.mark.parametrize("text", ["{}", '{"JobId":""}', '{"JobId":null}', '{"JobId":["a"]}', '{"Status":"Running"}'])
def test_without_an_id_there_is_no_job(text: str) -> None:
    assert translate.job(decode(text.encode(), payloads.Job)) is None


def test_a_row_repeats_its_workspace_or_leaves_it_out() -> None:
    bare = translate.job(payload({"JobId": "a"}, payloads.Job), workspace_id="1")
    assert bare is not None
    assert bare.workspace_id == "1"
    row = payload({"JobId": "a", "Status": "Running", "WorkspaceId": "2"}, payloads.Job)
    full = translate.job(row, workspace_id="1")
    assert full is not None
    assert full.workspace_id == "2"


@pytest.mark.parametrize("status", ["Succeeded", "Failed", "Stopped"])
def test_a_job_that_is_over_asks_for_nothing(status: str) -> None:
    asked = {"RequestCPU": 8, "RequestMemory": "8Gi", "RequestGPU": 1, "NodeCount": 1}
    ended = {"Failed": "GmtFailedTime", "Stopped": "GmtStoppedTime", "Succeeded": "GmtSuccessedTime"}
    row: Row = {"JobId": "a", "Status": status, ended[status]: "2026-01-02T03:04:05Z", **asked}
    job = translate.job(payload(row, payloads.Job))
    assert job is not None
    assert (job.cpu_cores, job.memory_bytes, job.nodes, job.accelerators) == (None, None, None, ())
    assert (job.finished, job.holds_resources) == (NOW, False)
    job = translate.job(payload({**row, "GmtFinishTime": "2026-01-02T03:04:06Z"}, payloads.Job))
    assert job is not None
    assert job.finished == NOW + 1


MACHINES = {"gn6": translate.EcsSpec(cpu_cores=4.0, memory_bytes=2.0**33, gpus=1.0, gpu_model="T4")}


@pytest.mark.parametrize(
    ("specs", "needs", "cpu", "gpus"),
    [
        ([{"PodCount": 2, "EcsSpec": "gn6"}], True, 8, (Accelerators("gpu", "T4", 2.0),)),
        ([{"PodCount": 2, "EcsSpec": "gn6", "ResourceConfig": {}}], True, 8, (Accelerators("gpu", "T4", 2.0),)),
        ([{"PodCount": 2, "EcsSpec": "gn6", "ResourceConfig": {"CPU": "1"}}], False, 2, ()),
        ([{"PodCount": 2, "EcsSpec": "other"}], True, None, ()),
        ([{"PodCount": None, "EcsSpec": "gn6"}], True, None, ()),
        ([{"PodCount": 1, "EcsSpec": "gn6"}, {"PodCount": 1}], True, None, ()),
        (
            [
                {"PodCount": 1, "ResourceConfig": {"GPU": "2", "GPUType": "A"}},
                {"PodCount": 1, "ResourceConfig": {"GPU": "2", "GPUType": "B"}},
            ],
            False,
            None,
            (Accelerators("gpu", "", 4.0),),
        ),
        ([{"PodCount": 1, "ResourceConfig": {"GPU": "2"}}], False, None, (Accelerators("gpu", "GU8T", 2.0),)),
        (
            [{"PodCount": 1, "ResourceConfig": {"GPU": "0", "GPUType": "A"}}],
            False,
            None,
            (Accelerators("gpu", "", 0.0),),
        ),
        ([], False, None, ()),
    ],
)
def test_what_a_row_does_not_sum_up_is_the_sum_over_roles(
    specs: list[Row], needs: bool, cpu: float | None, gpus: tuple[Accelerators, ...]
) -> None:
    row = payload({"JobId": "a", "ResourceId": "q", "JobSpecs": specs}, payloads.Job)
    assert translate.needs_ecs_specs(row) is needs
    job = translate.job(row, pool_models={"q": "GU8T"}, ecs_specs=MACHINES)
    assert job is not None
    assert (job.cpu_cores, job.accelerators) == (cpu, gpus)


ROW = '{"JobId":"a","Duration":5}'
ONE = payloads.Job(job_id="a", duration=5.0)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b'{"TotalCount":"3","Jobs":[%b,5,{}]}', [ONE, None, payloads.Job()]),
        (b'{"Jobs": [\n %b,\n null\n],"TotalCount":3}', [ONE, None]),
        (b'{"TotalCount":3,"Jobs":[5],"Jobs":[%b]}', [ONE]),
        (b'{"TotalCount":3,"Jobs":[%b,{"JobId":"\\ud800"}]}', [ONE, payloads.Job(job_id="\ufffd\ufffd\ufffd")]),
        (b'{"TotalCount":3,"RequestId":"\\ud800","Jobs":[%b]}', [ONE]),
        (b'{"TotalCount":3,"Other":NaN,"Jobs":[%b]}', [ONE]),
        (b'{"TotalCount":3,"Jobs":[%b,[]],"Code":"OK"}', [ONE, None]),
        (b'\xef\xbb\xbf{"TotalCount":3,"Jobs":[%b]}', [ONE]),
        (b'{"TotalCount":3,"Jobs":[]}', []),
        (b'{"TotalCount":3,"Jobs":null}', None),
        (b'{"TotalCount":3,"Jobs":{}}', None),
        (b'{"TotalCount":3}', None),
    ],
)
def test_a_page_however_it_is_written(body: bytes, rows: list[payloads.Job | None] | None) -> None:
    page = decode(body.replace(b"%b", ROW.encode()), payloads.JobsPage)
    assert (page.total_count, page.rows) == (3, rows)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", NotJson),
        (b'{"Jobs":[{}', NotJson),
        (b'{"Jobs":[{},]}', NotJson),
        (b'{"Jobs":[null,"\xff",{}]}', NotJson),
        (b'{"Jobs":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}", NotJson),
        (b"[]", BadAnswer),
        (b"null", BadAnswer),
    ],
)
def test_what_is_no_page_as_a_whole_is_refused(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode(body, payloads.JobsPage)


def _pods(pods: Any, **fields: Any) -> tuple[list[Pod], Counter[str], Counter[str]]:
    with counting_unusable() as lost:
        _, found, dropped = translate.pods(payload({"JobId": "a", "Pods": pods, **fields}, payloads.JobPods))
    return found, dropped, lost


def test_pods_that_cannot_be_used_lose_themselves() -> None:
    good = {"PodId": "p", "Type": "Worker", "Status": "Running"}
    found, dropped, lost = _pods([good, {}, 5, None, {"PodId": "p"}, {"PodId": "q", "GmtCreateTime": "soon"}])
    assert [pod.pod_id for pod in found] == ["p", "q"]
    assert dropped == {"malformed": 3, "duplicate": 1}
    assert lost == {"malformed": 1}


@pytest.mark.parametrize(
    ("fields", "known"),
    [({"Pods": []}, True), ({"Pods": None}, True), ({}, False), ({"Pods": "none"}, False), ({"Pods": {}}, False)],
)
def test_no_pods_is_not_the_same_as_no_list_of_them(fields: Row, known: bool) -> None:
    specs = [{"Type": "Worker", "PodCount": "2"}, {"Type": "Worker", "PodCount": 1}, {"Type": "PS"}]
    row = payload({"JobId": "a", "RestartTimes": "1/10", "JobSpecs": specs, **fields}, payloads.JobPods)
    detail, found, dropped = translate.pods(row)
    assert (detail.requested, detail.restarts_allowed, found) == ((RoleCount("Worker", 3),), 10, [])
    assert detail.replaced == ((RoleCount("Worker", 0),) if known else ())
    assert [each.count for each in detail.present] == ([0] * 6 if known else [])
    assert dropped == ({} if known else {"no_data": 1})


def test_an_unreadable_role_leaves_no_requested_pods() -> None:
    specs = [{"Type": "Worker", "PodCount": 2}, "x"]
    detail, _, dropped = translate.pods(payload({"JobId": "a", "JobSpecs": specs, "Pods": []}, payloads.JobPods))
    assert (detail.requested, dropped) == ((), {"malformed": 1})


def _queue(*rows: Row, unreadable: int = 0) -> translate_pools.Queue:
    given = [payload(row, payloads.Workload) for row in rows]
    return translate_pools.queue(given, "q", unreadable=unreadable)


@pytest.mark.parametrize(
    ("resource", "asked"),
    [
        ({"GPU": "8"}, 8.0),
        ({"GPU": 8}, 8.0),
        ({"CPU": "4", "Memory": "8Gi"}, 0.0),
        ({"CPU": "4", "GPU": ""}, 0.0),
        ({"GPUType": "GU8T"}, 0.0),
        ({}, None),
        (None, None),
        (7, None),
        ({"GPU": "many", "CPU": "4"}, None),
        ({"GPU": {}, "CPU": "4"}, None),
        ({"GPU": True, "CPU": "4"}, None),
    ],
)
def test_who_waits_for_an_unknown_amount_leaves_no_sum(resource: Any, asked: float | None) -> None:
    row = {"WorkloadId": "a", "WorkloadType": "DLC", "Status": "Enqueued", "QuotaId": "q", "Position": "2"}
    found = _queue(
        {**row, "Resource": resource}, {**row, "WorkloadId": "b", "Resource": {"GPU": "1"}, "Position": None}
    )
    assert found.accelerators == (None if asked is None else asked + 1)
    assert (found.places, found.by_type) == ((QueuePlace("a", 2),), {"dlc": 2})
    assert _queue(row | {"Resource": {"GPU": "1"}}, unreadable=1).accelerators is None


def test_amounts_that_are_unreadable_are_counted_once() -> None:
    details = {"ActualMinQuota": {"GPU": "many", "CPU": {}}, "UsedQuota": {"CPU": "8"}, "NodeStatistics": 7}
    with counting_unusable() as lost:
        row = payload({"QuotaId": "q", "GPUType": "GU8T", "QuotaDetails": details}, payloads.Quota)
        amounts = translate_pools.pool_amounts(row)
    assert (amounts.capacity_accelerators, amounts.capacity_cpu_cores, amounts.allocated_cpu_cores) == ((), None, 8.0)
    assert lost == {"malformed": 2}
    assert translate_pools.quota(row).accelerator_model == ""


@pytest.mark.parametrize(
    ("memory", "expected", "lost"),
    [
        ("1800", 1800 * 2.0**30, {}),
        (1800, 1800 * 2.0**30, {}),
        ("921600Mi", 900 * 2.0**30, {}),
        ("much", None, {"malformed": 1}),
        ({}, None, {"malformed": 1}),
        (-5, None, {"out_of_range": 1}),
        ("", None, {}),
        (None, None, {}),
    ],
)
def test_memory_of_a_node_has_a_suffix_or_counts_gib(memory: Any, expected: float | None, lost: dict[str, int]) -> None:
    with counting_unusable() as counted:
        node = translate_pools.node(payload({"NodeName": "n", "Memory": memory}, payloads.Node), "q")
    assert node is not None
    assert (node.capacity_memory_bytes, counted) == (expected, lost)


def _point(value: Any, age: float = 30) -> Row:
    return {"Time": int((NOW - age) * 1000), "Value": value}


def _used(answer: payloads.JobMetrics, metric: MetricType) -> tuple[list[float], Counter[str]]:
    """The values of pods in an answer about job a, and what was dropped."""
    sheet = Sheet("a", now=NOW, max_age=300)
    add(sheet, answer, metric, job_id="a", now=NOW)
    return [value for readings in sheet.readings() for value in readings.values], sheet.dropped


@pytest.mark.parametrize(
    ("points", "value", "dropped"),
    [
        ([_point(50)], 0.5, {}),
        ([_point("50")], 0.5, {}),
        ([_point(50, 90), _point(70), _point(90, -1000)], 0.7, {}),
        ([_point(50, 90), _point("x"), _point(None, 20), {"Value": 5}, 5, None], 0.5, {}),
        ([_point(50, 900)], None, {"stale": 1}),
        ([_point(-50)], None, {"out_of_range": 1}),
        ([_point("nan")], None, {"out_of_range": 1}),
        ([_point(1e301)], None, {"out_of_range": 1}),
        ([_point("x")], None, {"no_data": 1}),
        ([], None, {"no_data": 1}),
        (None, None, {"no_data": 1}),
        ("none", None, {"no_data": 1}),
    ],
)
def test_the_newest_reading_of_a_pod_that_can_be_true(
    points: Any, value: float | None, dropped: dict[str, int]
) -> None:
    answer = payload({"JobId": "a", "PodMetrics": [{"PodId": "p", "Metrics": points}]}, payloads.JobMetrics)
    assert _used(answer, CPU) == ([] if value is None else [value], dropped)


def test_readings_of_no_pod_of_another_job_and_of_a_pod_twice() -> None:
    pod = {"PodId": "p", "Metrics": [_point(2)]}
    answer = payload({"PodMetrics": [pod, pod, {"Metrics": [_point(2)]}, 5]}, payloads.JobMetrics)
    assert _used(answer, NETWORK) == ([2e6], {"duplicate": 1, "malformed": 2})
    answer = payload({"JobId": "b", "PodMetrics": [pod]}, payloads.JobMetrics)
    assert _used(answer, NETWORK) == ([], {"unlisted": 1})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["8Gi", "Running"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    *("JobId", "Status", "Duration", "RequestGPU", "RequestMemory", "RestartTimes", "JobSpecs", "Settings", "Priority"),
    *("GmtCreateTime", "GmtFinishTime", "NodeCount", "Pods", "StatusHistory", "PodCount", "ResourceConfig", "PodId"),
)


OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON)


@given(st.dictionaries(st.sampled_from(FIELDS), JSON | st.lists(OBJECTS, max_size=2)))
def test_whatever_comes_the_row_next_to_it_is_read(row: Row) -> None:
    good = {"JobId": "good", "Status": "Running", "Duration": 5}
    page = decode(json.dumps({"TotalCount": 2, "Jobs": [row, good]}).encode(), payloads.JobsPage)
    assert page.rows is not None
    jobs = [translate.job(each) for each in page.rows if each is not None]
    assert jobs[-1] == replace(PLAIN, job_id="good", duration=5.0)
    translate.pods(payload(row, payloads.JobPods))
