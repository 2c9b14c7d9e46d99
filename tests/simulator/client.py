"""Signed calls to a simulated cloud within the process, one class for each cloud, and a clock that tests set."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast
from unittest.mock import patch
from urllib.parse import urlencode

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.parsers import create_parser

from tests.simulator.shapes import breaches
from trainfleet_exporter.providers.alibaba_pai import api as alibaba
from trainfleet_exporter.providers.canonical import canonical_query
from trainfleet_exporter.providers.huawei_modelarts import api as huawei
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts import catalog as modelarts
from trainfleet_simulator.sagemaker import catalog as aws
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

START = 1767323045.0  # 2026-01-02T03:04:05Z
HOST = "simulator.test"
JOBS = "/api/v1/jobs"
V1, V2 = f"/v1/{modelarts.PROJECT_ID}", f"/v2/{modelarts.PROJECT_ID}"
POOLS, SEARCHES = f"{V2}/pools", f"{V2}/training-job-searches"
_VERSIONS = {
    "dlc": "2020-12-03",
    "paistudio": "2022-01-12",
    "aiworkspace": "2021-02-04",
    "cloudmonitor": "2019-01-01",
    "sts": "2015-04-01",
}
_TARGETS = {"sagemaker": ("SageMaker", "1.1"), "cloudwatch": ("GraniteServiceVersion20100801", "1.0")}
_nonces = itertools.count()


class Clock:
    """Unix seconds, set by hand."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def send(
    simulator: Simulator,
    path: str,
    query: Sequence[tuple[str, str]] | Mapping[str, str] = (),
    *,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    content: bytes = b"",
    client: str = "127.0.0.1",
) -> httpx.Response:
    """Send one request as it is, signed or not. The response has its body as it came."""

    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(simulator.app, client=(client, 1234))
        async with httpx.AsyncClient(transport=transport) as http:
            url = httpx.URL(f"http://{HOST}{path}").copy_with(query=canonical_query(query).encode() or None)
            async with http.stream(method, url, headers=headers, content=content) as answer:
                raw = b"".join([chunk async for chunk in answer.aiter_raw()])
            kept = [(name.replace("content-encoding", "encoded"), value) for name, value in answer.headers.items()]
            return httpx.Response(answer.status_code, headers=kept, content=raw)

    return asyncio.run(once())


class Caller:
    """Calls one simulated cloud. `get` and `post` take changes of what is signed, such as `now` or `keys`."""

    cloud = ""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.simulator = Simulator(options.pop("seed", 1), clock=self.clock, clouds=(self.cloud,), **options)
        self.world = self.simulator.worlds[self.cloud]

    def send(self, path: str, query: Sequence[tuple[str, str]] = (), **request: Any) -> httpx.Response:
        """Send one request as it is."""
        return send(self.simulator, path, query, **request)

    def truth(self, **query: str) -> dict[str, Any]:
        """Return the log of responses."""
        found: dict[str, Any] = self.send("/truth", list(query.items())).json()
        return found


class Pai(Caller):
    """Alibaba's services."""

    cloud = "pai"

    def signed(self, api: str, action: str, path: str, query: Mapping[str, str], /, **changes: Any) -> dict[str, str]:
        """Return the headers of a request as the exporter would send them."""
        keys = Keys(*changes.pop("keys", (ACCESS_KEY_ID, ACCESS_KEY_SECRET, None)))
        call = Call(
            operation=action,
            path=changes.pop("path", path),
            query=changes.pop("query", query),
            method=changes.pop("method", "GET"),
            body=changes.pop("body", b""),
        )
        usual = {"host": HOST, "version": _VERSIONS[api], "now": self.clock.now, "nonce": f"nonce-{next(_nonces)}"}
        return dict(alibaba.sign(keys, call, **cast("Any", usual | changes)).headers)

    def get(
        self, api: str, action: str, path: str, signing: Mapping[str, Any] | None = None, /, **query: str
    ) -> httpx.Response:
        """Send a signed call."""
        headers = self.signed(api, action, path, query, **(signing or {})) | {"host": HOST}
        return self.send(path, list(query.items()), headers=headers)

    def jobs(self, **query: str) -> dict[str, Any]:
        """Return the response of ListJobs."""
        return decoded(self.get("dlc", "ListJobs", JOBS, **query))


class ModelArts(Caller):
    """Huawei's services."""

    cloud = "modelarts"

    def signed(self, path: str, query: Sequence[tuple[str, str]] = (), /, **changes: Any) -> dict[str, str]:
        """Return the headers of a request as the exporter would send them."""
        keys = Keys(*changes.pop("keys", (modelarts.ACCESS_KEY, modelarts.SECRET_KEY, None)))
        call = Call(
            operation="",
            path=changes.pop("path", path),
            query=cast("Any", changes.pop("query", query)),
            method=changes.pop("method", "GET"),
            body=changes.pop("body", b""),
        )
        usual = {"host": HOST, "project_id": modelarts.PROJECT_ID, "now": self.clock.now}
        return dict(huawei.sign(keys, call, **cast("Any", usual | changes)).headers)

    def get(self, path: str, signing: Mapping[str, Any] | None = None, /, **query: str) -> httpx.Response:
        """Send a signed GET."""
        pairs = list(query.items())
        return self.send(path, pairs, headers=self.signed(path, pairs, **(signing or {})) | {"host": HOST})

    def post(self, path: str, body: Any) -> httpx.Response:
        """Send a signed POST of JSON."""
        content = json.dumps(body).encode()
        headers = self.signed(path, method="POST", body=content)
        return self.send(path, headers=headers, method="POST", content=content)

    def search(self, **body: Any) -> dict[str, Any]:
        """Return the response of a search for jobs."""
        return decoded(self.post(SEARCHES, body))


class SageMaker(Caller):
    """AWS' services. Every good response is checked against AWS' own model."""

    cloud = "sagemaker"

    def signed(self, headers: Mapping[str, str], content: bytes, service: str, /, **changes: Any) -> dict[str, str]:
        """Return the headers of a POST to / as botocore signs it."""
        request = AWSRequest("POST", f"http://{HOST}/", headers=dict(headers), data=content)
        at = datetime.fromtimestamp(changes.get("now", self.clock.now), UTC)
        keys = changes.get("keys", (aws.ACCESS_KEY_ID, aws.SECRET_ACCESS_KEY, None))
        with patch("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: at.replace(tzinfo=None)):
            SigV4Auth(Credentials(*keys), service, changes.get("region", aws.REGION)).add_auth(request)
        return dict(request.headers.items())

    def post(self, operation: str, body: Any, service: str = "sagemaker", **changes: Any) -> httpx.Response:
        """Send a signed POST of JSON."""
        content, (prefix, version) = json.dumps(body).encode(), _TARGETS[service]
        named = {"Content-Type": f"application/x-amz-json-{version}", "X-Amz-Target": f"{prefix}.{operation}"}
        headers = self.signed(named, content, "monitoring" if service == "cloudwatch" else service, **changes)
        return self.send("/", headers=headers, method="POST", content=changes.get("content", content))

    def ask(self, operation: str, service: str = "sagemaker", **members: Any) -> dict[str, Any]:
        """Return the response of a call that succeeds."""
        response = self.post(operation, members, service)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        assert breaches(model(service, operation).output_shape, body) == []
        assert parsed(response, service, operation).keys() == {*body, "ResponseMetadata"}
        return body

    def form(self, action: str, **members: str) -> httpx.Response:
        """Send a request to STS; signed, unless it needs no signature."""
        content = urlencode({"Action": action, "Version": "2011-06-15", **members}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8", "host": HOST}
        if action == "AssumeRole":
            headers = self.signed(headers, content, "sts")
        return self.send("/", headers=headers, method="POST", content=content)


@cache
def model(service: str, operation: str) -> OperationModel:
    """Return AWS' own model of an operation."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service).operation_model(operation)


def parsed(response: httpx.Response, service: str, operation: str) -> dict[str, Any]:
    """Return a response as botocore reads it."""
    protocol = "query" if service == "sts" else "json"
    given = {"body": response.content, "headers": dict(response.headers), "status_code": response.status_code}
    found: dict[str, Any] = create_parser(protocol).parse(given, model(service, operation).output_shape)
    return found


def decoded(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON of a response that is a success."""
    assert response.status_code in {200, 201}, response.text
    found: dict[str, Any] = response.json()
    return found


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a rejection in any cloud's form."""
    body = response.json()
    code = next(str(body[name]) for name in ("Code", "error_code", "errorType", "__type") if name in body)
    return response.status_code, code.rpartition("#")[2]
