"""Signed calls to the simulated ModelArts within the process."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx

from tests.simulator.client import HOST, START, Clock, send
from trainfleet_exporter.providers.canonical import canonical_query
from trainfleet_exporter.providers.huawei_modelarts.api import sign
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.catalog import ACCESS_KEY, DEFAULT, PROJECT_ID, SECRET_KEY

JSON = "application/json"
V1, V2 = f"/v1/{PROJECT_ID}", f"/v2/{PROJECT_ID}"
SEARCHES = f"{V2}/training-job-searches"
POOLS = f"{V2}/pools"


def signed_headers(path: str, query: Sequence[tuple[str, str]] = (), **changes: Any) -> dict[str, str]:
    """Headers of a GET as the exporter would send them; `changes` replace what is signed."""
    given = (changes.pop("access_key", ACCESS_KEY), changes.pop("secret_key", SECRET_KEY))
    keys = Keys(*given, changes.pop("security_token", None))
    method, body = changes.pop("method", "GET"), changes.pop("body", b"")
    call = Call(operation="", path=path, method=method, query=cast("Any", query), body=body)
    usual: dict[str, Any] = {"host": HOST, "project_id": PROJECT_ID, "now": START}
    return dict(sign(keys, call, **usual | changes).headers)


class Caller:
    """Calls one simulator of this cloud alone, with good signatures."""

    def __init__(self, *, seed: int = 1, population: int = 40, **options: Any) -> None:
        self.clock = Clock()
        self.simulator = Simulator(seed, clock=self.clock, population=population, clouds=("modelarts",), **options)
        self.world = self.simulator.worlds["modelarts"]
        self.legacy = self.simulator.worlds["modelarts-v1"]

    def get(self, path: str, *pairs: tuple[str, str], **query: str) -> httpx.Response:
        """A signed GET."""
        asked = [*pairs, *query.items()]
        headers = signed_headers(path, asked, now=self.clock.now)
        return send(self.simulator, path, headers=headers, raw_query=canonical_query(asked))

    def post(self, path: str, body: Any) -> httpx.Response:
        """A signed POST of JSON."""
        content = json.dumps(body).encode()
        headers = signed_headers(path, method="POST", body=content, now=self.clock.now)
        return send(self.simulator, path, headers=headers, method="POST", content=content)

    def body(self, path: str, *pairs: tuple[str, str], **query: str) -> dict[str, Any]:
        """The decoded answer of a GET that has to succeed."""
        return decoded(self.get(path, *pairs, **query))

    def search(self, **body: Any) -> dict[str, Any]:
        """A search for jobs that has to succeed."""
        return decoded(self.post(SEARCHES, body))

    def all_jobs(self, workspace_id: str = DEFAULT, **filters: list[str]) -> list[dict[str, Any]]:
        """Every page of a search, filtered by `in`; the pages together are as many as `total` says."""
        asked = [{"key": key, "operator": "in", "value": value} for key, value in filters.items()]
        rows: list[dict[str, Any]] = []
        for page in itertools.count():
            answer = self.search(offset=page, limit=50, workspace_id=workspace_id, filters=asked)
            rows += answer["items"]
            assert answer["count"] == len(answer["items"])
            if answer["count"] < 50:
                assert len(rows) == answer["total"]
                return rows
        raise AssertionError

    def job_id(self, name: str) -> str:
        """The id of the newest job with this name."""
        return [job for job in self.world.jobs.values() if job.draft.name == name][-1].job_id

    def metrics(self, name: str, task: str = "worker-0") -> dict[str, list[float]]:
        """The series of one of its tasks."""
        answer = self.body(f"{V2}/training-jobs/{self.job_id(name)}/metrics/{task}")
        return {metric["metric"]: metric["value"] for metric in answer["metrics"]}


def decoded(response: httpx.Response) -> dict[str, Any]:
    """The JSON of an answer that has to be a success."""
    assert response.status_code in {200, 201}, response.text
    assert response.headers["x-request-id"]
    answer: dict[str, Any] = response.json()
    return answer


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a v2 refusal or the gateway's, which have the shape of their errors."""
    body: Mapping[str, Any] = response.json()
    gateway = str(body["error_code"]).startswith("APIGW.")
    assert set(body) == {"error_code", "error_msg"} | ({"request_id"} if gateway else set())
    return response.status_code, body["error_code"]
