"""AWS' own client for Python reads the simulator over HTTP, as it would read the cloud."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.simulator.served import served
from trainfleet_simulator import Simulator
from trainfleet_simulator.sagemaker.catalog import ACCESS_KEY_ID, CLUSTER, REGION, SECRET_ACCESS_KEY
from trainfleet_simulator.sagemaker.cloudwatch import NAMESPACE
from trainfleet_simulator.sagemaker.identity import WEB_IDENTITY_TOKEN, AwsSts
from trainfleet_simulator.sagemaker.training import job_name

KEYS = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY}


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(1, clouds=("sagemaker",))


@pytest.fixture(scope="module")
def url(simulator: Simulator) -> Iterator[str]:
    with served(simulator) as found:
        yield found


def client(url: str, service: str, **keys: str) -> Any:
    """A client that reaches the simulator only."""
    config = Config(retries={"total_max_attempts": 1}, proxies={"http": ""})
    return boto3.client(service, endpoint_url=url, region_name=REGION, config=config, **(keys or KEYS))


def test_jobs_are_searched_and_described(url: str) -> None:
    sagemaker = client(url, "sagemaker")
    expression = {"Filters": [{"Name": "TrainingJobStatus", "Operator": "Equals", "Value": "InProgress"}]}
    pages = sagemaker.get_paginator("search").paginate(Resource="TrainingJob", SearchExpression=expression)
    live = [one["TrainingJob"] for page in pages for one in page["Results"]]
    assert {job["TrainingJobStatus"] for job in live} == {"InProgress"}
    steady = next(job for job in live if job["TrainingJobName"].startswith("vit-steady"))
    described = sagemaker.describe_training_job(TrainingJobName=steady["TrainingJobName"])
    assert described["CreationTime"] == steady["CreationTime"]
    assert isinstance(steady["CreationTime"], datetime)
    assert described["SecondaryStatusTransitions"][-1]["Status"] == "Training"


def test_clusters_nodes_and_plans_are_read(url: str) -> None:
    sagemaker = client(url, "sagemaker")
    pages = sagemaker.get_paginator("list_clusters").paginate()
    assert [one["ClusterName"] for page in pages for one in page["ClusterSummaries"]] == [CLUSTER]
    groups = sagemaker.describe_cluster(ClusterName=CLUSTER)["InstanceGroups"]
    options = {"PageSize": 4}
    nodes = [*sagemaker.get_paginator("list_cluster_nodes").paginate(ClusterName=CLUSTER, PaginationConfig=options)]
    assert sum(len(page["ClusterNodeSummaries"]) for page in nodes) == sum(group["CurrentCount"] for group in groups)
    with pytest.raises(ClientError, match="NextToken"):
        sagemaker.list_training_plans(NextToken=nodes[0]["NextToken"])
    plans = sagemaker.list_training_plans()["TrainingPlanSummaries"]
    assert [plan["Status"] for plan in plans] == ["Scheduled", "Active", "Active"]


def test_metrics_are_read_page_by_page(simulator: Simulator, url: str) -> None:
    jobs = [job for job in simulator.worlds["sagemaker"].jobs.values() if job.draft.name.endswith("-steady")]
    asked = []
    for number, job in enumerate(jobs):
        dimension = {"Name": "Host", "Value": f"{job_name(job)}/algo-1"}
        metric = {"Namespace": NAMESPACE, "MetricName": "CPUUtilization", "Dimensions": [dimension]}
        asked.append({"Id": f"q{number}", "MetricStat": {"Metric": metric, "Period": 60, "Stat": "Average"}})
    now = datetime.now(UTC)
    pages = (
        client(url, "cloudwatch")
        .get_paginator("get_metric_data")
        .paginate(MetricDataQueries=asked, StartTime=now - timedelta(minutes=10), EndTime=now, MaxDatapoints=20)
    )
    found: dict[str, int] = {}
    for page in pages:
        for one in page["MetricDataResults"]:
            found[one["Id"]] = found.get(one["Id"], 0) + len(one["Values"])
    assert set(found) == {one["Id"] for one in asked}
    assert min(found.values()) >= 8


def test_roles_are_assumed(url: str) -> None:
    sts = client(url, "sts")
    arn = AwsSts.role_arn()
    by_key = sts.assume_role(RoleArn=arn, RoleSessionName="exporter")
    by_token = sts.assume_role_with_web_identity(
        RoleArn=arn, RoleSessionName="exporter", WebIdentityToken=WEB_IDENTITY_TOKEN
    )
    for answer in (by_key, by_token):
        found = answer["Credentials"]
        keys = {
            "aws_access_key_id": found["AccessKeyId"],
            "aws_secret_access_key": found["SecretAccessKey"],
            "aws_session_token": found["SessionToken"],
        }
        assert client(url, "sagemaker", **keys).list_clusters()["ClusterSummaries"]
