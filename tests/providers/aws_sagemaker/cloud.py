"""A SageMaker account whose answers a test writes: rows in, HTTP out. AWS' models judge requests and answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx

from tests.providers.aws_sagemaker.models import answer_faults, request_faults
from tests.support.clock import START
from tests.support.fleet import Fleet

CONFIG = """
providers:
  - name: p
    platform: aws_sagemaker
    region: us-east-1
    credentials: {access_key_id: AKIDEXAMPLE, secret_access_key: secret}
    limits: {requests_per_second: 1000, concurrency: 8}
    collectors: {nodes: {enabled: true}}
"""
RUNNING = 'jobs{workspace_id="default",status="running",platform_status="Training"}'
_ARN = "arn:aws:sagemaker:us-east-1:123456789012:"
_SERVICES = {"SageMaker": "sagemaker", "GraniteServiceVersion20100801": "cloudwatch"}
Row = dict[str, Any]
FleetOf = Callable[..., Fleet]
"""Runs a test's steps on a fleet (see conftest.run)."""


def plan_arn(name: str) -> str:
    """The ARN of a training plan."""
    return f"{_ARN}training-plan/{name}"


def job(name: str, secondary: str = "Training", primary: str = "InProgress", **fields: Any) -> Row:
    """A training job, created ten minutes before the test began: two p5.48xlarge."""
    return {
        "TrainingJobName": name,
        "TrainingJobArn": f"{_ARN}training-job/{name}",
        "TrainingJobStatus": primary,
        "SecondaryStatus": secondary,
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
        "CreationTime": START - 600,
        "TrainingStartTime": START - 500,
        "LastModifiedTime": START - 500,
        "EnableManagedSpotTraining": False,
        "SecondaryStatusTransitions": [stage("Starting", -600, -500), stage("Training", -500, None)],
        **fields,
    }


def stage(status: str, start: float, end: float | None) -> Row:
    """A secondary status from one time to another, in seconds after the test began."""
    given = {"Status": status, "StartTime": START + start}
    return given if end is None else {**given, "EndTime": START + end}


def failed(code: str, message: str = "no", status: int = 400, **headers: str) -> httpx.Response:
    """An answer of error."""
    body = {"__type": f"com.amazonaws#{code}", "message": message}
    return httpx.Response(status, json=body, headers={"x-amzn-requestid": "r-1", **headers})


class Cloud:
    """What the account holds; `answer` may answer first, `calls` notes what was asked."""

    def __init__(self) -> None:
        self.jobs: list[Row] = []
        self.clusters: dict[str, tuple[list[Row], list[Row]]] = {}
        """By name: instance groups and nodes."""
        self.restricted: dict[str, list[Row]] = {}
        """By name of a cluster: restricted instance groups. A cluster without other groups has no list of those."""
        self.plans: list[Row] = []
        self.points: dict[tuple[str, str], list[tuple[float, float]]] = {}
        """By host and metric: Unix seconds and values."""
        self.page = 100
        self.is_of_models = True
        """Whether AWS' models know all words of the answers."""
        self.relation = "EqualTo"
        self.answer: Callable[[str, Row], httpx.Response | None] = lambda operation, asked: None
        self.calls: list[tuple[str, Row]] = []

    def called(self, operation: str) -> list[Row]:
        """The parameters of one operation, in order."""
        return [asked for name, asked in self.calls if name == operation]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        prefix, _, operation = request.headers["x-amz-target"].partition(".")
        service, asked = _SERVICES[prefix], json.loads(request.content)
        assert request_faults(service, operation, asked) == []
        assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=")
        self.calls.append((operation, asked))
        prepared = self.answer(operation, asked)
        if prepared is not None:
            return prepared
        found = getattr(self, "_" + re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower())(asked)
        if isinstance(found, httpx.Response):
            return found
        assert not self.is_of_models or answer_faults(service, operation, found) == []
        return httpx.Response(200, json=found)

    def _search(self, asked: Row) -> Row:
        rows = [row for row in self.jobs if all(_matches(row, each) for each in asked["SearchExpression"]["Filters"])]
        page = self._paged(asked, "Results", [{"TrainingJob": row} for row in rows])
        return {**page, "TotalHits": {"Value": len(rows), "Relation": self.relation}}

    def _describe_training_job(self, asked: Row) -> Row | httpx.Response:
        row = next((row for row in self.jobs if row["TrainingJobName"] == asked["TrainingJobName"]), None)
        if row is None:
            return failed("ValidationException", "Requested resource not found.")
        needed: Row = {
            "ModelArtifacts": {"S3ModelArtifacts": "s3://x"},
            "AlgorithmSpecification": {"TrainingInputMode": "File"},
        }
        needed |= {"StoppingCondition": {"MaxRuntimeInSeconds": 60}}
        return {**needed, **{key: value for key, value in row.items() if key != "Tags"}}

    def _list_clusters(self, asked: Row) -> Row:
        rows = [
            {
                "ClusterArn": f"{_ARN}cluster/abcdefgh1234",
                "ClusterName": name,
                "CreationTime": START,
                "ClusterStatus": "InService",
            }
            for name in self.clusters
        ]
        return self._paged(asked, "ClusterSummaries", rows)

    def _describe_cluster(self, asked: Row) -> Row | httpx.Response:
        name = asked["ClusterName"]
        if name not in self.clusters:
            return failed("ResourceNotFound", "Cluster not found")
        found: Row = {"ClusterArn": f"{_ARN}cluster/abcdefgh1234", "ClusterStatus": "InService"}
        if name in self.restricted:
            found["RestrictedInstanceGroups"] = self.restricted[name]
        if self.clusters[name][0] or name not in self.restricted:
            found["InstanceGroups"] = self.clusters[name][0]
        return found

    def _list_cluster_nodes(self, asked: Row) -> Row | httpx.Response:
        if asked["ClusterName"] not in self.clusters:
            return failed("ResourceNotFound", "Cluster not found")
        return self._paged(asked, "ClusterNodeSummaries", self.clusters[asked["ClusterName"]][1])

    def _list_training_plans(self, asked: Row) -> Row:
        return self._paged(asked, "TrainingPlanSummaries", self.plans)

    def _get_metric_data(self, asked: Row) -> Row:
        found = []
        for query in asked["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            (host,) = [each["Value"] for each in metric["Dimensions"] if each["Name"] == "Host"]
            points = self.points.get((host, metric["MetricName"]), [])
            points = sorted((p for p in points if asked["StartTime"] <= p[0] < asked["EndTime"]), reverse=True)
            times, values = [time for time, _ in points], [value for _, value in points]
            found.append({"Id": query["Id"], "Timestamps": times, "Values": values, "StatusCode": "Complete"})
        return {"MetricDataResults": found}

    def _paged(self, asked: Row, key: str, rows: list[Row]) -> Row:
        start, size = int(asked.get("NextToken", 0)), min(self.page, asked["MaxResults"])
        more = {"NextToken": str(start + size)} if start + size < len(rows) else {}
        return {key: rows[start : start + size], **more}


def _matches(row: Row, given: Row) -> bool:
    found, value = row.get(given["Name"]), given["Value"]
    match given["Operator"]:
        case "Equals":
            return bool(found == value)
        case "NotEquals":
            return bool(found != value)
        case "In":
            return found in value.split(",")
        case "GreaterThanOrEqualTo":
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", value)
            return float(found or 0) >= datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
    raise AssertionError(given)
