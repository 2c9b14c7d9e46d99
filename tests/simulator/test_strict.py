"""The simulated clouds refuse what the real ones refuse, with their codes: an exporter that passes asks correctly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.client import Caller, refusal
from tests.simulator.modelarts.client import POOLS, SEARCHES, V1, V2
from tests.simulator.modelarts.client import Caller as ModelArts
from tests.simulator.modelarts.client import refusal as modelarts_refusal
from tests.simulator.pai.client import rpc
from trainfleet_simulator.modelarts.catalog import ASCEND, GPU, TEAM_WORKSPACE
from trainfleet_simulator.modelarts.promql import Matcher, Query, Refused, read
from trainfleet_simulator.pai.catalog import TRAIN
from trainfleet_simulator.pai.monitor_metrics import DLC, QUOTA

JOBS, NODES = "/api/v1/jobs", "/api/v1/nodes"


@pytest.fixture(scope="module")
def pai() -> Caller:
    return Caller()


@pytest.fixture(scope="module")
def modelarts() -> ModelArts:
    return ModelArts()


def test_a_list_without_a_start_has_seven_days(pai: Caller) -> None:
    """The trap of ListJobs: it does not list a job that has run for 20 days."""
    assert "llm-pretrain-70b" not in {job["DisplayName"] for job in pai.all_jobs(Status="Running")}
    every = pai.all_jobs(Status="Running", StartTime="2000-01-01T00:00:00Z")
    assert "llm-pretrain-70b" in {job["DisplayName"] for job in every}


def test_a_search_without_a_workspace_has_the_default_one(modelarts: ModelArts) -> None:
    default, team = modelarts.search(limit=1), modelarts.search(limit=1, workspace_id=TEAM_WORKSPACE)
    assert default["total"] + team["total"] == len(modelarts.world.jobs)
    assert min(default["total"], team["total"]) > 0


@pytest.mark.parametrize(
    ("operation", "path", "query", "expected"),
    [
        ("ListJobs", JOBS, {"Status": "Running,Queuing"}, (400, "InvalidParameter")),
        ("ListJobs", JOBS, {"PageSize": "101"}, (400, "InvalidParameter")),
        ("ListJobs", JOBS, {"PageNumber": "0"}, (400, "InvalidParameter")),
        ("ListJobs", JOBS, {"StartTime": "1767323045"}, (400, "InvalidParameter")),
        ("ListJobs", JOBS, {"TimeRangeField": "GmtModifiedTime"}, (400, "InvalidParameter")),
        ("ListJobs", JOBS, {"SortBy": "Priority"}, (400, "InvalidParameter")),
        ("GetJob", f"{JOBS}/dlcnosuch", {}, (404, "NotFound")),
        ("GetJobMetrics", f"{JOBS}/JOB/metrics", {}, (400, "MissingMetricType")),
        ("GetJobMetrics", f"{JOBS}/JOB/metrics", {"MetricType": "gpucoreusage"}, (400, "InvalidParameter")),
        (
            "GetJobMetrics",
            f"{JOBS}/JOB/metrics",
            {"MetricType": "GpuCoreUsage", "TimeStep": "0m"},
            (400, "InvalidParameter"),
        ),
        ("ListQuotas", "/api/v1/quotas/", {"PageSize": "101"}, (400, "InvalidParameter")),
        ("ListQuotas", "/api/v1/quotas/", {"Verbose": "1"}, (400, "InvalidParameter")),
        ("ListQuotaWorkloads", "/api/v1/quotas/nosuch/workloads", {}, (404, "NotFound")),
        ("ListQuotaWorkloads", f"/api/v1/quotas/{TRAIN}/workloads", {"ShowOwn": "1"}, (400, "InvalidParameter")),
        ("ListNodes", NODES, {}, (400, "MissingQuotaId")),
        ("ListNodes", NODES, {"QuotaId": TRAIN, "PageSize": "101"}, (400, "InvalidParameter")),
    ],
    ids=str,
)
def test_pai_refuses(pai: Caller, operation: str, path: str, query: dict[str, str], expected: tuple[int, str]) -> None:
    api = "dlc" if operation in {"ListJobs", "GetJob", "GetJobMetrics"} else "paistudio"
    path = path.replace("JOB", pai.job("asr-steady")["JobId"])
    assert pai.refusal(api, operation, path, **query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"Namespace": DLC}, (400, "MissingMetricName")),
        ({"Namespace": QUOTA, "MetricName": "JOB_CPU_UTIL"}, (404, "ResourceNotFound")),
        ({"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "Length": "1441"}, (400, "ParameterInvalid")),
        ({"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "Period": "15"}, (400, "ParameterInvalid")),
        ({"Namespace": DLC, "MetricName": "JOB_CPU_UTIL", "NextToken": "ab12"}, (400, "ParameterInvalid")),
    ],
    ids=str,
)
def test_cloudmonitor_refuses(pai: Caller, query: dict[str, str], expected: tuple[int, str]) -> None:
    assert refusal(rpc(pai, "cloudmonitor", "DescribeMetricLast", **query)) == expected


def one(key: str, operator: str, value: Any) -> dict[str, Any]:
    return {"filters": [{"key": key, "operator": operator, "value": value}]}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([], "2764"),
        ({"limit": 51}, "2764"),
        ({"limit": "10"}, "2764"),
        ({"offset": -1}, "2764"),
        ({"sort_by": "name"}, "2790"),
        ({"filters": "phase"}, "2789"),
        (one("status", "in", ["Running"]), "2807"),
        (one("phase", "eq", ["Running"]), "2808"),
        (one("phase", "in", ["running"]), "2809"),
        (one("id", "in", ["x"] * 11), "2809"),
        (one("create_time", "between", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:04Z"]), "2809"),
        (one("create_time", "between", ["2025-11-01T00:00:00Z", "2026-01-02T00:00:00Z"]), "2809"),
    ],
    ids=str,
)
def test_a_search_refuses(modelarts: ModelArts, body: Any, code: str) -> None:
    assert modelarts_refusal(modelarts.post(SEARCHES, body)) == (400, f"ModelArts.{code}")


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        (POOLS, {"status": "Running"}, (400, "ModelArts.50004000")),
        (f"{POOLS}/{ASCEND}/workloads", {"status": "Stopped"}, (400, "ModelArts.50004000")),
        (f"{POOLS}/{ASCEND}/workloads", {"limit": "501"}, (400, "ModelArts.50004000")),
        (f"{POOLS}/pool-nosuch/nodes", {}, (404, "ModelArts.50015001")),
        (f"{POOLS}/{GPU}/monitor", {"time_range": "-1.-1.1441"}, (400, "ModelArts.50004000")),
        (f"{POOLS}/{GPU}/monitor", {"period": "61"}, (400, "ModelArts.50004000")),
        (f"{V2}/training-jobs/nosuch/metrics/worker-0", {}, (400, "ModelArts.2775")),
    ],
    ids=str,
)
def test_modelarts_refuses(modelarts: ModelArts, path: str, query: dict[str, str], expected: tuple[int, str]) -> None:
    assert modelarts_refusal(modelarts.get(path, **query)) == expected


@pytest.mark.parametrize("query", [{"per_page": "1001"}, {"page": "0"}, {"order": "down"}], ids=str)
def test_v1_refuses_in_its_own_shape(modelarts: ModelArts, query: dict[str, str]) -> None:
    answer = modelarts.get(f"{V1}/training-jobs", **query)
    assert answer.status_code == 400
    body = answer.json()
    assert set(body) == {"is_success", "error_code", "error_message"}
    assert (body["is_success"], body["error_code"]) == (False, "ModelArts.0105")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("query", {}),
        ("query", {"query": "rate(m[5m])"}),
        ("query", {"query": "m", "time": "yesterday"}),
        ("query_range", {"query": "ma_container_cpu_util", "start": "100", "end": "50", "step": "60"}),
        ("query_range", {"query": "ma_container_cpu_util", "start": "100", "end": "1000000", "step": "1"}),
    ],
    ids=str,
)
def test_aom_refuses_as_prometheus_does(modelarts: ModelArts, path: str, query: dict[str, str]) -> None:
    answer = modelarts.get(f"{V1}/prom-default/aom/api/v1/{path}".replace("/prom-default", ""), **query)
    assert (answer.status_code, answer.json()["errorType"]) == (400, "bad_data")


SELECTOR = 'ma_container_cpu_util{container_name="modelarts-training"}'
TRAINING = (Matcher("container_name", "modelarts-training"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" up { } ", Query("up")),
        ('m{a="1",b!="2",}', Query("m", (Matcher("a", "1"), Matcher("b", "2", negated=True)))),
        (r'm{a="q\"\\\n"}', Query("m", (Matcher("a", 'q"\\\n'),))),
        ("last_over_time ( m [ 45s ] )", Query("m", window=45)),
        ("sum by()(m)", Query("m", aggregation="sum")),
        (
            f"max by (service_id, pod_name,) (last_over_time({SELECTOR}[1h]))",
            Query("ma_container_cpu_util", TRAINING, 3600, "max", ("service_id", "pod_name")),
        ),
    ],
)
def test_queries_that_are_understood(text: str, expected: Query) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "m + m", "m[10m]", "avg(m)", "avg by (service_id) m", "avg without (a) (m)", "count by (a) (m)"),
        *("last_over_time(m)", "last_over_time(m[0m])", "last_over_time(m[2d])", '{__name__="m"}', "m{a='b'}"),
        *('m{a="b" b="c"}', 'm{a="b"', 'm{a=~"("}', 'm{a=~"(a+)+"}', 'm{a=~"a{3}"}', 'm{a=~"(?=a)"}'),
    ],
)
def test_queries_that_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        read(text)


@pytest.mark.parametrize(
    ("query", "value", "fits"),
    [
        ('m{a=""}', "", True),
        ('m{a!=""}', "", False),
        ('m{a=~"worker-0|worker-1"}', "worker-10", False),
        (r'm{a=~"worker-\\d+"}', "worker-10", True),
        ('m{a=~".+"}', "", False),
        ('m{a!~"worker-.*"}', "server-0", True),
    ],
)
def test_labels_are_compared_as_a_whole(query: str, value: str, fits: bool) -> None:
    (matcher,) = read(query).matchers
    assert matcher.fits(value) is fits
