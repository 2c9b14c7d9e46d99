"""Signed calls to the simulator within the process, and a clock that tests set by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import httpx

from trainfleet_exporter.providers.alibaba_pai.api import sign
from trainfleet_exporter.providers.canonical import canonical_query
from trainfleet_exporter.providers.keys import Keys
from trainfleet_exporter.transport import Call
from trainfleet_simulator import Simulator
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

START = 1767323045.0  # 2026-01-02T03:04:05Z
HOST = "simulator.test"
VERSIONS = {"dlc": "2020-12-03", "paistudio": "2022-01-12", "aiworkspace": "2021-02-04"}

_nonces = itertools.count()


class Clock:
    """Unix seconds, set by hand."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def signed_headers(path: str, query: Mapping[str, str], **changes: Any) -> dict[str, str]:
    """Headers of a GET as the exporter would send them; `changes` replace what is signed."""
    given = {"access_key_id": ACCESS_KEY_ID, "access_key_secret": ACCESS_KEY_SECRET, "security_token": None}
    keys = Keys(**{name: changes.pop(name, value) for name, value in given.items()})
    named = {"operation": changes.pop("action", "ListJobs"), "method": changes.pop("method", "GET")}
    call = Call(path=path, query=query, body=changes.pop("body", b""), **named)
    usual: dict[str, Any] = {"host": HOST, "version": VERSIONS["dlc"], "now": START, "nonce": f"nonce-{next(_nonces)}"}
    return dict(sign(keys, call, **usual | changes).headers)


def send(
    simulator: Simulator,
    path: str,
    query: Mapping[str, str] | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    raw_query: str | None = None,
    method: str = "GET",
    content: bytes = b"",
) -> httpx.Response:
    """One request as it is, signed or not. The answer has its body as it came."""

    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(simulator.app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            text = canonical_query(query or {}) if raw_query is None else raw_query
            url = httpx.URL(f"http://{HOST}{path}").copy_with(query=text.encode() or None)
            async with client.stream(method, url, headers=headers, content=content) as answer:
                raw = b"".join([chunk async for chunk in answer.aiter_raw()])
            kept = [(name.replace("content-encoding", "encoded"), value) for name, value in answer.headers.items()]
            return httpx.Response(answer.status_code, headers=kept, content=raw)

    return asyncio.run(once())


class Caller:
    """Calls one simulator with good signatures."""

    def __init__(self, *, seed: int = 1, population: int = 40, still: bool = False) -> None:
        self.clock = Clock()
        self.simulator = Simulator(seed, clock=self.clock, population=population, still=still)
        self.world = self.simulator.world

    def get(self, api: str, action: str, path: str, **query: str) -> httpx.Response:
        """A signed call; keyword arguments are the query."""
        headers = signed_headers(path, query, action=action, version=VERSIONS[api], now=self.clock.now)
        return send(self.simulator, path, query, headers=headers)

    def body(self, api: str, action: str, path: str, **query: str) -> dict[str, Any]:
        """The decoded answer of a call that has to succeed."""
        response = self.get(api, action, path, **query)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        assert answer["RequestId"] == response.headers["x-acs-request-id"]
        return answer

    def jobs(self, **query: str) -> dict[str, Any]:
        """ListJobs."""
        return self.body("dlc", "ListJobs", "/api/v1/jobs", **query)

    def all_jobs(self, **query: str) -> list[dict[str, Any]]:
        """Every page of ListJobs; the pages together are as many as TotalCount says."""
        rows: list[dict[str, Any]] = []
        for page in itertools.count(1):
            answer = self.jobs(**query, PageNumber=str(page), PageSize="100")
            rows += answer["Jobs"]
            if len(answer["Jobs"]) < 100:
                assert len(rows) == answer["TotalCount"]
                return rows
        raise AssertionError

    def job(self, name: str) -> dict[str, Any]:
        """The detail of the job with this display name, the newest if there are more."""
        found = [job for job in self.world.jobs.values() if job.draft.name == name]
        return self.body("dlc", "GetJob", f"/api/v1/jobs/{found[-1].job_id}")

    def refusal(self, api: str, action: str, path: str, **query: str) -> tuple[int, str]:
        """Status and code of a call that has to fail."""
        return refusal(self.get(api, action, path, **query))


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal, which has the shape of the service's errors."""
    body = response.json()
    assert set(body) == {"Code", "Message", "RequestId", "HostId", "Recommend"}
    assert body["HostId"] == HOST
    return response.status_code, body["Code"]
