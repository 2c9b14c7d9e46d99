"""The vendor's own SDK client calls the simulator over HTTP, as it would call the cloud."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulator.served import sdk as imported
from tests.simulator.served import served
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import ACCESS_KEY, ASCEND, GPU, PROJECT_ID, SECRET_KEY

# The vendor's package asks for the time in a way that newer Pythons are going to remove.
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

CORE, MODELARTS = "huaweicloudsdkcore", "huaweicloudsdkmodelarts.v1"


@pytest.fixture(scope="module", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Importing the SDK writes an id into the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with served(Simulator(1, clouds=("modelarts",))) as url:
        yield url


def _client(endpoint: str) -> tuple[Any, Any]:
    credentials = imported(f"{CORE}.auth.credentials").BasicCredentials(ACCESS_KEY, SECRET_KEY, PROJECT_ID)
    sdk = imported(MODELARTS)
    builder = sdk.ModelArtsClient.new_builder().with_credentials(credentials).with_endpoint(endpoint)
    return builder.build(), sdk


def _search(sdk: Any, **body: Any) -> Any:
    return sdk.ListTrainingJobsRequest(body=sdk.JobSearches(**body))


def _running(endpoint: str, name: str, phase: str = "Running") -> Any:
    client, sdk = _client(endpoint)
    wanted = sdk.Filter(key="phase", operator="in", value=[phase])
    rows = client.list_training_jobs(_search(sdk, limit=50, offset=0, filters=[wanted])).items
    return next(row for row in rows if row.metadata.name == name)


def test_list_training_jobs(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    answer = client.list_training_jobs(_search(sdk, offset=0, limit=3, sort_by="create_time", order="desc"))
    assert answer.total > answer.count == len(answer.items) == 3
    pretrain = _running(endpoint, "pangu-pretrain")
    assert pretrain.status.tasks == ["worker-0", "worker-1"]
    assert pretrain.spec.resource.main_container_allocated_resources.accelerator_num == 8
    nodes = client.list_pool_nodes(sdk.ListPoolNodesRequest(pool_name=pretrain.spec.resource.pool_id)).items
    addresses = [node.status.private_ip for node in nodes][:10]
    rows = client.list_training_jobs(_search(sdk, limit=50, host_ips=addresses)).items
    placed = next(row for row in rows if row.metadata.id == pretrain.metadata.id)
    assert [task.task for task in placed.status.task_ips if task.host_ip in addresses] == pretrain.status.tasks
    assert pretrain.status.task_ips is None


def test_show_training_job_metrics(endpoint: str) -> None:
    listed = _running(endpoint, "pangu-pretrain")
    client, sdk = _client(endpoint)
    request = sdk.ShowTrainingJobMetricsRequest(training_job_id=listed.metadata.id, task_id="worker-1")
    series = {metric.metric: metric.value for metric in client.show_training_job_metrics(request).metrics}
    assert len(series) == 6
    assert set(series["gpuUtil"]) == {-1.0}
    assert max(series["npuUtil"]) > 50


def test_metrics_before_a_job_runs_are_an_empty_answer(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    job = _running(endpoint, "waits-for-room", "Pending")
    request = sdk.ShowTrainingJobMetricsRequest(training_job_id=job.metadata.id, task_id="worker-0")
    answer = client.show_training_job_metrics(request)
    assert (answer.status_code, answer.metrics) == (204, None)


def test_list_pools(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    request = sdk.ListPoolsRequest(workspace_id="0", status="created")
    (pool,) = (pool for pool in client.list_pools(request).items if pool.metadata.name == ASCEND)
    assert (pool.status.phase, pool.spec.type) == ("Running", "Dedicate")


def test_show_pool_runtime_metrics(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    items = client.show_pool_runtime_metrics(sdk.ShowPoolRuntimeMetricsRequest()).items
    capacity = {item.metadata.name: item.table.capacity.value for item in items}
    assert capacity[ASCEND].cpu == "1920"


def test_show_workload_statistics(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    answer = client.show_workload_statistics(sdk.ShowWorkloadStatisticsRequest(pool_name=ASCEND))
    counts = {item.type: item.status for item in answer.statistics.items}
    assert counts["train"].running >= 1
    assert counts["notebook"].running == 1


def test_list_workloads(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    request = sdk.ListWorkloadsRequest(
        pool_name=GPU, status="Running", sort="create_time", ascend=False, offset=0, limit=500
    )
    names = {row.job_name for row in client.list_workloads(request).items}
    assert {"gpu-steady", "hetero-steady"} <= names


def test_the_monitor_and_the_nodes(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    request = sdk.ShowPoolMonitorRequest(pool_name=GPU, time_range="-1.-1.5", statistics="average", period="60")
    metrics = {one.metric.metric_name: one.data_points for one in client.show_pool_monitor(request).metrics}
    assert max(point.statistics[0].value for point in metrics["gpuUtil"]) > 0
    nodes = client.list_pool_nodes(sdk.ListPoolNodesRequest(pool_name=GPU)).items
    assert [node.status.phase for node in nodes].count("Abnormal") == 1


def test_list_scheduled_events(endpoint: str) -> None:
    client, sdk = _client(endpoint)
    answer = client.list_scheduled_events(sdk.ListScheduledEventsRequest(workspace_id="0", limit=3, offset=0))
    assert (answer.count, len(answer.events)) == (4, 3)
    (event,) = (event for event in answer.events if event.state == "scheduled")
    assert (event.node_name, event.start_time) == ("os-node-created-16-node-001", None)
    assert event.not_before > event.publish_time


def test_the_sdks_own_keys_of_a_machine_open_the_api(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    accessor = imported(f"{CORE}.auth.internal").MetadataAccessor
    monkeypatch.setattr(accessor, "_METADATA_ENDPOINT", endpoint)
    found = accessor().get_credential()
    credentials = imported(f"{CORE}.auth.credentials").BasicCredentials(found.access, found.secret, PROJECT_ID)
    sdk = imported(MODELARTS)
    builder = sdk.ModelArtsClient.new_builder().with_endpoint(endpoint)
    client = builder.with_credentials(credentials.with_security_token(found.security_token)).build()
    assert client.list_training_jobs(_search(sdk, limit=1)).total > 0
    assert found.expire_at > time.time() + 80_000


def test_the_sdk_finds_the_project_by_its_regions_name(endpoint: str) -> None:
    credentials = imported(f"{CORE}.auth.credentials").BasicCredentials(ACCESS_KEY, SECRET_KEY)
    region = imported(f"{CORE}.region.region").Region("cn-north-4", endpoint)
    sdk = imported(MODELARTS)
    found = credentials.with_iam_endpoint(endpoint)
    client = sdk.ModelArtsClient.new_builder().with_credentials(found).with_region(region).build()
    assert client.list_training_jobs(_search(sdk, limit=1)).total > 0
