"""Calls to the simulated AWS account within the process, signed and checked by botocore."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.parsers import create_parser

from tests.simulator.client import HOST, START, Clock, send
from tests.simulator.sagemaker.shapes import breaches
from trainfleet_simulator import Simulator
from trainfleet_simulator.sagemaker.catalog import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY
from trainfleet_simulator.sagemaker.cloudwatch import NAMESPACE
from trainfleet_simulator.sagemaker.job_rows import job_name
from trainfleet_simulator.world.jobs import Job

SERVICES = {"sagemaker": ("SageMaker", "1.1"), "cloudwatch": ("GraniteServiceVersion20100801", "1.0")}
SIGNING = {"sagemaker": "sagemaker", "cloudwatch": "monitoring", "sts": "sts"}


def hosts_of(job: Job) -> list[str]:
    """Return the values of the dimension Host, one for each instance."""
    count = sum(role.count for role in job.draft.roles)
    return [f"{job_name(job)}/algo-{number}" for number in range(1, count + 1)]


@cache
def model(service: str, operation: str) -> OperationModel:
    """AWS' own model of an operation."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service).operation_model(operation)


def signed(
    headers: Mapping[str, str],
    content: bytes,
    service: str,
    *,
    now: float = START,
    keys: tuple[str, str, str | None] = (ACCESS_KEY_ID, SECRET_ACCESS_KEY, None),
    region: str = REGION,
) -> dict[str, str]:
    """The headers of a POST to / as botocore signs it."""
    request = AWSRequest("POST", f"http://{HOST}/", headers=dict(headers), data=content)
    at = datetime.fromtimestamp(now, UTC)
    with patch("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: at.replace(tzinfo=None)):
        SigV4Auth(Credentials(*keys), SIGNING[service], region).add_auth(request)
    return dict(request.headers.items())


def json_headers(service: str, operation: str) -> dict[str, str]:
    """The headers that name an operation."""
    prefix, version = SERVICES[service]
    return {"Content-Type": f"application/x-amz-json-{version}", "X-Amz-Target": f"{prefix}.{operation}"}


class Caller:
    """Calls one simulator of this cloud alone, with good signatures; every answer is checked against AWS' model."""

    def __init__(self, *, seed: int = 1, population: int = 40, **options: Any) -> None:
        self.clock = Clock()
        self.simulator = Simulator(seed, clock=self.clock, population=population, clouds=("sagemaker",), **options)
        self.world = self.simulator.worlds["sagemaker"]

    def send(self, service: str, operation: str, body: Any, **signing: Any) -> httpx.Response:
        """One request of JSON, whatever is answered."""
        content = json.dumps(body).encode()
        headers = signed(json_headers(service, operation), content, service, **{"now": self.clock.now, **signing})
        return send(self.simulator, "/", headers=headers, method="POST", content=content)

    def ask(self, operation: str, service: str = "sagemaker", **members: Any) -> dict[str, Any]:
        """The answer of a request that has to succeed, as it was sent."""
        response = self.send(service, operation, members)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == json_headers(service, operation)["Content-Type"]
        assert response.headers["x-amzn-requestid"]
        body: dict[str, Any] = response.json()
        shape = model(service, operation).output_shape
        assert breaches(shape, body) == []
        assert parsed(response, service, operation).keys() == {*body, "ResponseMetadata"}
        return body

    def every(self, operation: str, rows: str, **members: Any) -> list[dict[str, Any]]:
        """The rows of all pages."""
        answer = self.ask(operation, **members)
        found = list(answer[rows])
        while "NextToken" in answer:
            answer = self.ask(operation, **members, NextToken=answer["NextToken"])
            found += answer[rows]
        return found

    def refused(self, operation: str, service: str = "sagemaker", **members: Any) -> str:
        """The code of a refusal."""
        response = self.send(service, operation, members)
        assert response.status_code == 400
        return str(parsed(response, service, operation)["Error"]["Code"])

    def form(
        self, action: str, members: Mapping[str, str], *, signing: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        """A request to STS; signed unless it needs no signature."""
        content = urlencode({"Action": action, "Version": "2011-06-15", **members}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", "host": HOST}
        if signing is not None or action == "AssumeRole":
            headers = signed(headers, content, "sts", **{"now": self.clock.now, **(signing or {})})
        return send(self.simulator, "/", headers=headers, method="POST", content=content)

    def jobs(self, *filters: tuple[str, ...], **members: Any) -> list[dict[str, Any]]:
        """Every page of a search; filters are a name, an operator and a value."""
        named = [dict(zip(("Name", "Operator", "Value"), one, strict=False)) for one in filters]
        expression = {"SearchExpression": {"Filters": named}} if named else {}
        found = self.every(
            "Search", "Results", **{"Resource": "TrainingJob", "MaxResults": 100, **expression, **members}
        )
        return [one["TrainingJob"] for one in found]

    def job(self, name: str) -> Job:
        """The newest job whose name begins so."""
        return [job for job in self.world.jobs.values() if job.draft.name == name][-1]

    def described(self, name: str) -> dict[str, Any]:
        """Its description."""
        return self.ask("DescribeTrainingJob", TrainingJobName=job_name(self.job(name)))

    def metrics(self, *asked: tuple[str, str], minutes: int = 10, stat: str = "Average", **more: Any) -> dict[str, Any]:
        """The answer to queries of a metric and a host each, of the last so many minutes."""
        queries = [query(f"q{number}", metric, host, stat=stat) for number, (metric, host) in enumerate(asked)]
        times = {"StartTime": self.clock.now - 60 * minutes, "EndTime": self.clock.now}
        return self.ask("GetMetricData", "cloudwatch", MetricDataQueries=queries, **{**times, **more})


def query(name: str, metric: str, host: str, *, stat: str = "Average", period: int = 60) -> dict[str, Any]:
    """A MetricDataQuery of one metric of one host."""
    about = {"Namespace": NAMESPACE, "MetricName": metric, "Dimensions": [{"Name": "Host", "Value": host}]}
    return {"Id": name, "MetricStat": {"Metric": about, "Period": period, "Stat": stat}}


def parsed(response: httpx.Response, service: str, operation: str) -> dict[str, Any]:
    """An answer as botocore reads it."""
    protocol = "query" if service == "sts" else "json"
    given = {"body": response.content, "headers": dict(response.headers), "status_code": response.status_code}
    found: dict[str, Any] = create_parser(protocol).parse(given, model(service, operation).output_shape)
    return found
