"""Calls to the services that the simulated account has beside PAI's own, and with other keys than the permanent one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from tests.simulator.client import Caller, send, signed_headers
from trainfleet_simulator.pai.monitor_metrics import DLC, QUOTA

VERSIONS = {"cloudmonitor": "2019-01-01", "sts": "2015-04-01", "dlc": "2020-12-03"}
Points = list[dict[str, Any]]


def rpc(caller: Caller, api: str, action: str, *, method: str = "POST", **query: str) -> httpx.Response:
    """A signed call in RPC style: everything in the query."""
    changes = {"action": action, "version": VERSIONS[api], "method": method, "now": caller.clock.now}
    return send(caller.simulator, "/", query, headers=signed_headers("/", query, **changes), method=method)


def with_key(caller: Caller, key: Mapping[str, str], **changes: Any) -> httpx.Response:
    """ListWorkspaces with a temporary key from a service."""
    path = "/api/v1/workspaces"
    arguments = {
        "action": "ListWorkspaces",
        "version": "2021-02-04",
        "access_key_id": key["AccessKeyId"],
        "access_key_secret": key["AccessKeySecret"],
        "security_token": key["SecurityToken"],
        "now": caller.clock.now,
    }
    return send(caller.simulator, path, headers=signed_headers(path, {}, **(arguments | changes)))


def latest_answer(caller: Caller, operation: str) -> dict[str, Any]:
    """What `/truth` knows of the last answer of an operation."""
    answers: list[dict[str, Any]] = send(caller.simulator, "/truth", {"operation": operation}).json()["answers"]
    return answers[-1]


def answered(response: httpx.Response) -> dict[str, Any]:
    """The decoded body of an answer that does not refuse."""
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def last(caller: Caller, metric: str, **query: str) -> Points:
    """The points of one page of DescribeMetricLast."""
    namespace = QUOTA if metric.startswith(("QUOTA_", "NODE_")) else DLC
    query = {"Namespace": namespace, "MetricName": metric, "Length": "1440", **query}
    body = answered(rpc(caller, "cloudmonitor", "DescribeMetricLast", **query))
    assert (body["Code"], body["Success"]) == ("200", True)
    points: Points = json.loads(body["Datapoints"])
    return points


def pages(caller: Caller, metric: str, length: int, **query: str) -> Iterator[tuple[Points, str]]:
    """Every page of DescribeMetricLast, each with the token of the next."""
    query = {"Namespace": DLC, "MetricName": metric, "Length": str(length), **query}
    while True:
        body = answered(rpc(caller, "cloudmonitor", "DescribeMetricLast", **query))
        yield json.loads(body["Datapoints"]), body.get("NextToken", "")
        if "NextToken" not in body:
            return
        query["NextToken"] = body["NextToken"]
