"""AOM: what dedicated pools report, asked for in PromQL, and how it agrees with the task metrics of ModelArts."""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

import httpx
import pytest

from tests.simulator.client import START, send
from tests.simulator.modelarts.client import V1, Caller, decoded, signed_headers
from tests.simulator.modelarts.test_truth import truth_of
from trainfleet_exporter.providers.canonical import canonical_query
from trainfleet_simulator import Fault
from trainfleet_simulator.modelarts.aom_samples import METRICS
from trainfleet_simulator.modelarts.catalog import ASCEND, GPU
from trainfleet_simulator.world.usage import reading

AOM = f"{V1}/aom/api/v1"
QUERY = f"{AOM}/query"
TRAINING = 'container_name="modelarts-training"'


@pytest.fixture
def caller() -> Caller:
    return Caller()


def ask(caller: Caller, query: str, **more: str) -> list[dict[str, Any]]:
    """The vector that a query gives."""
    body = caller.body(QUERY, query=query, **more)
    assert (body["status"], body["data"]["resultType"]) == ("success", "vector")
    result: list[dict[str, Any]] = body["data"]["result"]
    return result


def by_job(caller: Caller, metric: str, function: str = "avg", **more: str) -> dict[str, float]:
    """One value a job, as a collector asks for it."""
    query = f"{function} by (service_id) (last_over_time({metric}{{{TRAINING}}}[10m]))"
    return {row["metric"]["service_id"]: float(row["value"][1]) for row in ask(caller, query, **more)}


def values(caller: Caller) -> list[str]:
    """The names of metrics."""
    found: list[str] = caller.body(f"{AOM}/label/__name__/values")["data"]
    return found


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and type of an error in Prometheus' form."""
    body = response.json()
    assert set(body) == {"status", "errorType", "error"}
    assert body["status"] == "error"
    return response.status_code, body["errorType"]


def test_a_bare_selector_gives_series_with_all_their_labels(caller: Caller) -> None:
    job_id = caller.job_id("pangu-pretrain")
    rows = ask(caller, f'ma_container_npu_util{{service_id="{job_id}",pod_name=~"worker-.*"}}')
    assert [(row["metric"]["pod_name"], row["metric"]["npu_id"]) for row in rows] == [
        (f"worker-{task}", str(card)) for task in (0, 1) for card in range(8)
    ]
    first = rows[0]
    assert set(first["metric"]) == {
        "__name__",
        "container_name",
        "node_name",
        "npu_id",
        "pod_name",
        "pool_id",
        "service_id",
    }
    assert (first["metric"]["__name__"], first["metric"]["pool_id"]) == ("ma_container_npu_util", ASCEND)
    assert first["metric"]["node_name"] in caller.world.pools[ASCEND].nodes
    at, text = first["value"]
    assert at == START
    assert isinstance(text, str)


@pytest.mark.parametrize(
    ("name", "metric", "series"),
    [
        ("gpu-steady", "cpuUsage", "ma_container_cpu_util"),
        ("gpu-steady", "memUsage", "ma_container_memory_util"),
        ("gpu-steady", "gpuUtil", "ma_container_gpu_util"),
        ("gpu-steady", "gpuMemUsage", "ma_container_gpu_mem_util"),
        ("pangu-pretrain", "npuUtil", "ma_container_npu_util"),
        ("pangu-pretrain", "npuMemUsage", "ma_container_npu_memory_util"),
        ("hetero-steady", "cpuUsage", "ma_container_cpu_util"),
    ],
)
def test_the_mean_over_cards_is_the_task_metric_of_that_minute(
    caller: Caller, name: str, metric: str, series: str
) -> None:
    job = caller.world.jobs[caller.job_id(name)]
    assert job.running is not None
    for _ in range(3):
        query = f'avg by (pod_name) (last_over_time({series}{{service_id="{job.job_id}"}}[10m]))'
        found = {row["metric"]["pod_name"]: float(row["value"][1]) for row in ask(caller, query)}
        assert set(found) == {"worker-0", "worker-1"} | ({"server-0"} if name == "hetero-steady" else set())
        # What AOM has is a minute old; by now the task metrics may have that minute, and one more.
        caller.clock.now += 120
        minute = int(caller.clock.now - 180) // 60 * 60
        behind = (int(caller.clock.now) - job.running) // 60 - (minute - job.running) // 60
        for task, value in found.items():
            history = caller.metrics(name, task)[metric]
            assert history[-1 - behind] == pytest.approx(value, abs=1e-5)


def test_public_and_stopped_jobs_have_no_series(caller: Caller) -> None:
    found = by_job(caller, "ma_container_cpu_util")
    until = int(START - 60) // 60 * 60
    reporting = {
        job.job_id
        for job in caller.world.live()
        if job.draft.pool_id and job.running is not None and job.running + 60 <= until
    }
    assert reporting <= set(found)
    assert caller.job_id("pangu-pretrain") in found
    for name in ("features-cpu", "public-ascend", "waits-for-room"):
        assert caller.job_id(name) not in found


def test_ended_job_is_seen_within_the_window(caller: Caller) -> None:
    for _ in range(60):
        before = set(by_job(caller, "ma_container_cpu_util"))
        caller.clock.now += 60
        caller.search()
        gone = [job_id for job_id in before if caller.world.jobs[job_id].work_ended]
        if gone:
            break
    (job_id, *_) = gone
    ended = caller.world.jobs[job_id].work_ended
    assert ended is not None
    caller.clock.now = ended + 500.0
    assert job_id in by_job(caller, "ma_container_cpu_util")
    short = ask(caller, f'ma_container_cpu_util{{service_id="{job_id}"}}')
    assert short == [], "a bare selector looks back five minutes"
    caller.clock.now = ended + 661.0
    assert job_id not in by_job(caller, "ma_container_cpu_util")


def test_units(caller: Caller) -> None:
    job_id = caller.job_id("gpu-steady")
    job = caller.world.jobs[job_id]
    role = job.draft.roles[0]

    def one(metric: str) -> float:
        query = f'{metric}{{service_id="{job_id}",pod_name="worker-0"}}'
        return fmean(float(row["value"][1]) for row in ask(caller, query))

    assert one("ma_container_cpu_limit_core") == role.cpu
    assert one("ma_container_cpu_used_core") == pytest.approx(role.cpu * one("ma_container_cpu_util") / 100)
    assert one("ma_container_memory_capacity_megabytes") == role.memory
    share = one("ma_container_memory_util") / 100
    assert one("ma_container_memory_used_megabytes") == pytest.approx(role.memory * share)
    assert one("ma_container_gpu_mem_total_megabytes") == 32 * 1024
    share = one("ma_container_gpu_mem_util") / 100
    assert one("ma_container_gpu_mem_used_megabytes") == pytest.approx(32 * 1024 * share, rel=1e-4)
    assert job.running is not None
    minute = (int(START - 60) // 60 * 60 - job.running) // 60 - 1
    for metric, world, scale in (
        ("disk_read_kilobytes", "DiskReadRate", 1024),
        ("disk_write_kilobytes", "DiskWriteRate", 1024),
        ("network_receive_bytes", "NetworkInputRate", 1e6),
        ("network_transmit_bytes", "NetworkOutputRate", 1e6),
    ):
        rate = reading(world, job, job.pods[0], job.running + 60 * minute + 30)
        assert rate is not None
        assert one(f"ma_container_{metric}") == pytest.approx(rate * scale)


def test_series_are_within_bounds_and_of_their_device_kind(caller: Caller) -> None:
    for metric in METRICS:
        rows = ask(caller, f"{metric}{{{TRAINING}}}")
        assert rows
        top = 100 if metric.endswith("_util") else 1e12
        assert all(0 <= float(row["value"][1]) <= top for row in rows)
        pools = {row["metric"]["pool_id"] for row in rows}
        assert ("_npu_" in metric) == (GPU not in pools)
        assert ("_gpu_" in metric) == (ASCEND not in pools)


def test_other_containers_of_the_pools_are_there_too(caller: Caller) -> None:
    containers = {row["metric"]["container_name"] for row in ask(caller, "ma_container_cpu_util")}
    assert containers == {"modelarts-training", "modelarts-infer", "modelarts-notebook"}


@pytest.mark.parametrize(("function", "combine"), [("avg", fmean), ("sum", sum), ("max", max)])
def test_aggregations(caller: Caller, function: str, combine: Any) -> None:
    groups: dict[str, list[float]] = {}
    for row in ask(caller, f"ma_container_cpu_util{{{TRAINING}}}"):
        groups.setdefault(row["metric"]["pool_id"], []).append(float(row["value"][1]))
    rows = ask(caller, f"{function} by (pool_id) (ma_container_cpu_util{{{TRAINING}}})")
    assert {row["metric"]["pool_id"]: float(row["value"][1]) for row in rows} == {
        pool: pytest.approx(combine(found), abs=1e-5) for pool, found in groups.items()
    }


def test_labels_that_nobody_has_are_left_out(caller: Caller) -> None:
    (whole,) = ask(caller, "sum by (nothing) (ma_container_cpu_util)")
    assert whole["metric"] == {}
    with_card = ask(caller, "max by (service_id, npu_id) (ma_container_cpu_util)")
    assert {tuple(row["metric"]) for row in with_card} == {("service_id",)}


def test_an_empty_vector_is_no_data(caller: Caller) -> None:
    assert ask(caller, "ma_container_nosuch") == []
    assert ask(caller, 'ma_container_cpu_util{service_id="nosuch"}') == []
    assert truth_of(caller)["calls"] == {"aom": {"ListInstantQueryAomPromPost": {"no_data": 2}}}


def test_samples_are_late_by_a_minute_or_by_what_a_test_wants(caller: Caller) -> None:
    whole = by_job(caller, "ma_container_cpu_util")
    minute_ago = by_job(caller, "ma_container_cpu_util", time=str(int(START - 60)))
    assert all(minute_ago[job_id] == value for job_id, value in whole.items()), "the newest sample is of a minute ago"
    caller.simulator.aom.lag = 0
    assert by_job(caller, "ma_container_cpu_util") != whole
    caller.simulator.aom.lag = 660
    assert by_job(caller, "ma_container_cpu_util") == {}
    assert values(caller) == []


def test_a_time_may_be_asked_for(caller: Caller) -> None:
    (row,) = ask(caller, "sum by () (ma_container_cpu_util)", time="1767322800")
    assert row["value"][0] == 1767322800
    caller.clock.now += 3600
    (again,) = ask(caller, "sum by () (ma_container_cpu_util)", time="1767322800")
    assert again == row, "the past does not change"


def test_post_has_its_parameters_in_the_url(caller: Caller) -> None:
    asked = [("query", "avg by (service_id) (ma_container_cpu_util)")]
    headers = signed_headers(QUERY, asked, method="POST")
    answer = send(caller.simulator, QUERY, headers=headers, raw_query=canonical_query(asked), method="POST")
    assert decoded(answer) == caller.body(QUERY, query=asked[0][1])


def test_an_instance_may_be_named(caller: Caller) -> None:
    path = f"{V1}/0/aom/api/v1"
    query = "avg by (service_id) (ma_container_cpu_util)"
    assert caller.body(f"{path}/query", query=query) == caller.body(QUERY, query=query)
    assert caller.body(f"{path}/label/__name__/values") == caller.body(f"{AOM}/label/__name__/values")
    other = f"{V1}/prom-custom/aom/api/v1/query"
    assert refusal(caller.get(other, query=query)) == (400, "bad_data")
    caller.simulator.aom.instances.add("prom-custom")
    assert caller.body(other, query=query) == caller.body(QUERY, query=query)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"query": ""},
        {"query": "rate(m[5m])"},
        {"query": '{__name__=~"ma_.*"}'},
        {"query": "m", "time": "yesterday"},
        {"query": "m", "time": "1e400"},
        {"query": "m", "time": "-1"},
    ],
    ids=str,
)
def test_bad_queries_are_refused_as_prometheus_refuses(caller: Caller, query: dict[str, str]) -> None:
    assert refusal(caller.get(QUERY, **query)) == (400, "bad_data")


def test_metrics_are_found_by_asking(caller: Caller) -> None:
    assert values(caller) == sorted(METRICS)


def test_hidden_metrics_and_renamed_labels(caller: Caller) -> None:
    aom = caller.simulator.aom
    aom.hidden = {"ma_container_npu_util"}
    aom.renamed = {"pod_name": "pod", "npu_id": "npu"}
    assert values(caller) == sorted(set(METRICS) - aom.hidden)
    assert ask(caller, "ma_container_npu_util") == []
    job_id = caller.job_id("pangu-pretrain")
    rows = ask(caller, f'max by (pod) (ma_container_npu_memory_util{{service_id="{job_id}",npu="0"}})')
    assert [row["metric"] for row in rows] == [{"pod": "worker-0"}, {"pod": "worker-1"}]
    (bare, *_) = ask(caller, f'ma_container_npu_memory_util{{service_id="{job_id}",pod="worker-1"}}')
    assert (bare["metric"]["pod"], bare["metric"]["npu"]) == ("worker-1", "0")
    (old,) = ask(caller, f'max by (pod_name) (ma_container_npu_memory_util{{service_id="{job_id}",npu_id=""}})')
    assert old["metric"] == {}


def test_who_may_not_ask(caller: Caller) -> None:
    nobody = send(caller.simulator, QUERY, {"query": "m"})
    assert (nobody.status_code, nobody.json()["error_code"]) == (401, "APIGW.0301")
    unknown = send(caller.simulator, QUERY, {"query": "m"}, headers={"X-Auth-Token": "MIIunknown"})
    assert (unknown.status_code, unknown.json()["error_code"]) == (401, "APIGW.0307")
    token = caller.simulator.tokens.issue(START)
    assert send(caller.simulator, QUERY, {"query": "m"}, headers={"X-Auth-Token": token}).status_code == 200
    caller.simulator.aom.refused = True
    refused = caller.get(QUERY, query="m")
    assert refusal(refused) == (403, "forbidden")
    assert "aom:metric:list" in refused.json()["error"]
    assert refusal(caller.get(f"{AOM}/label/__name__/values")) == (403, "forbidden")
    assert truth_of(caller)["calls"]["aom"]["ListInstantQueryAomPromPost"] == {"auth": 3, "no_data": 1}


def test_the_log_has_the_rows_as_they_were_told(caller: Caller) -> None:
    rows = ask(caller, "max by (service_id, pod_name) (ma_container_cpu_util)")
    names = values(caller)
    query, listed = truth_of(caller)["answers"]
    assert (query["api"], query["operation"]) == ("aom", "ListInstantQueryAomPromPost")
    assert (query["query"]["metric"], query["total"]) == ("ma_container_cpu_util", len(rows))
    assert query["rows"] == [[row["metric"]["pod_name"], row["metric"]["service_id"], row["value"][1]] for row in rows]
    assert (listed["operation"], listed["rows"]) == ("ListLabelValuesAomPromGet", [[name] for name in names])


def test_the_log_keeps_two_hundred_rows_of_a_long_answer() -> None:
    caller = Caller(population=1000)
    rows = ask(caller, "ma_container_cpu_util")
    (answer,) = truth_of(caller)["answers"]
    assert answer["total"] == len(rows) > 200
    assert len(answer["rows"]) == 200


def test_one_metric_may_fail(caller: Caller) -> None:
    caller.simulator.faults.add(Fault(match={"metric": "ma_container_npu_util"}, status=422))
    caller.simulator.faults.add(Fault(match={"api": "aom", "metric": "ma_container_gpu_util"}, status=429))
    assert refusal(caller.get(QUERY, query="ma_container_npu_util")) == (422, "execution")
    throttled = caller.get(QUERY, query="ma_container_gpu_util")
    assert (throttled.status_code, throttled.json()["error_code"]) == (429, "APIGW.0308")
    assert ask(caller, "ma_container_cpu_util")


@pytest.mark.long
def test_a_large_fleet_is_asked_in_little_time() -> None:
    caller = Caller(population=4000)
    begun = time.perf_counter()
    found = [by_job(caller, metric) for metric in ("ma_container_cpu_util", "ma_container_npu_util")]
    # It takes a twentieth of this; a query that visits the past of every job would take longer.
    assert time.perf_counter() - begun < 4
    assert min(map(len, found)) > 500


def test_a_range_is_the_same_at_every_step(caller: Caller) -> None:
    query = f"avg by (service_id) (last_over_time(ma_container_cpu_util{{{TRAINING}}}[2m]))"
    end = int(START) // 60 * 60 - 600
    body = caller.body(f"{AOM}/query_range", query=query, start=str(end - 300), end=str(end), step="60")
    assert (body["status"], body["data"]["resultType"]) == ("success", "matrix")
    found = {row["metric"]["service_id"]: dict(row["values"]) for row in body["data"]["result"]}
    assert len(found) > 3
    for at in range(end - 300, end + 1, 60):
        now = {row["metric"]["service_id"]: row["value"][1] for row in ask(caller, query, time=str(at))}
        assert {job_id: values[at] for job_id, values in found.items() if at in values} == now


def test_ranges_that_prometheus_refuses(caller: Caller) -> None:
    good = {"query": "ma_container_cpu_util", "start": "100", "end": "700", "step": "60"}
    for change in ({"end": "50"}, {"step": "0"}, {"step": "x"}, {"start": ""}, {"end": "1000000", "step": "1"}):
        assert refusal(caller.get(f"{AOM}/query_range", **good | change)) == (400, "bad_data")
