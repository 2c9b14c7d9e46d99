"""The vendor's own SDK clients call the simulator over HTTP, as they would call the cloud."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.served import sdk, served
from trainfleet_simulator import Simulator
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

pytestmark = [
    # The vendor's packages still import what setuptools is going to remove.
    pytest.mark.filterwarnings("ignore:pkg_resources is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Deprecated call to `pkg_resources.declare_namespace:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with served(Simulator(1)) as url:
        yield url.removeprefix("http://")


def _client(package: str, endpoint: str) -> tuple[Any, Any]:
    client, models = sdk(f"{package}.client"), sdk(f"{package}.models")
    config = sdk("alibabacloud_tea_openapi.utils_models").Config(
        access_key_id=ACCESS_KEY_ID,
        access_key_secret=ACCESS_KEY_SECRET,
        region_id="cn-hangzhou",
        endpoint=endpoint,
        protocol="http",
    )
    return client.Client(config), models


DLC, PAISTUDIO = "alibabacloud_pai_dlc20201203", "alibabacloud_paistudio20220112"


def _jobs(endpoint: str, **query: Any) -> list[dict[str, Any]]:
    client, models = _client(DLC, endpoint)
    body = client.list_jobs(models.ListJobsRequest(page_size=100, **query)).body
    assert body.total_count >= len(body.jobs)
    jobs: list[dict[str, Any]] = body.to_map()["Jobs"]
    return jobs


def test_list_jobs(endpoint: str) -> None:
    jobs = _jobs(endpoint, status="Running", start_time="2000-01-01T00:00:00Z", show_own=False, order="desc")
    names = {job["DisplayName"] for job in jobs}
    assert {"llm-pretrain-70b", "asr-hangs", "asr-steady"} < names
    assert {job["Status"] for job in jobs} == {"Running"}
    assert {job["WorkspaceId"] for job in jobs} <= {"12345", "12346", "12347"}
    pretrain = next(job for job in jobs if job["DisplayName"] == "llm-pretrain-70b")
    assert (pretrain["RequestGPU"], pretrain["RequestMemory"]) == ("16", "3600Gi")


def test_list_jobs_with_characters_that_need_encoding(endpoint: str) -> None:
    assert _jobs(endpoint, job_ids="a b/c+d~é*", tags={"k": "v 1"}) == []


def test_get_job(endpoint: str) -> None:
    listed = next(job for job in _jobs(endpoint, status="Running") if job["DisplayName"] == "asr-steady")
    client, models = _client(DLC, endpoint)
    job = client.get_job(listed["JobId"], models.GetJobRequest(need_detail=False)).body
    assert job.job_id == listed["JobId"]
    assert job.restart_times == "0/10"
    assert [pod.status for pod in job.pods] == ["Running", "Running"]
    assert job.pods[0].history_pods == []


def test_get_job_metrics(endpoint: str) -> None:
    listed = next(job for job in _jobs(endpoint, status="Running") if job["DisplayName"] == "asr-steady")
    client, models = _client(DLC, endpoint)
    request = models.GetJobMetricsRequest(metric_type="GpuCoreUsage", time_step="1m")
    body = client.get_job_metrics(listed["JobId"], request).body
    assert body.job_id == listed["JobId"]
    assert len(body.pod_metrics) == 2
    assert all(0 <= point.value <= 100 for pod in body.pod_metrics for point in pod.metrics)
    assert all(len(str(point.time)) == 13 for pod in body.pod_metrics for point in pod.metrics)


def test_list_ecs_specs(endpoint: str) -> None:
    client, models = _client(DLC, endpoint)
    specs = client.list_ecs_specs(models.ListEcsSpecsRequest(page_size=100)).body.ecs_specs
    assert {spec.instance_type: spec.gpu for spec in specs}["ecs.gn6v-c8g1.8xlarge"] == 4


def test_list_quotas(endpoint: str) -> None:
    client, models = _client(PAISTUDIO, endpoint)
    body = client.list_quotas(models.ListQuotasRequest(page_size=100, verbose=True)).body
    quotas = {quota.quota_name: quota for quota in body.quotas}
    assert body.total_count == len(quotas) == 5
    train = quotas["pool-train"].quota_details
    assert train.actual_min_quota.gpu == "48"
    assert train.node_statistics.allocated_node_num + train.node_statistics.empty_node_num == 6
    assert quotas["pool-train"].parent_quota_id == quotas["lingjun-root"].quota_id
