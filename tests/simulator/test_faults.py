"""Every kind of fault changes an answer of every cloud, and rules choose the calls that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.simulator.client import Caller, Clock, send
from tests.simulator.modelarts.client import SEARCHES
from tests.simulator.modelarts.client import Caller as ModelArts
from tests.simulator.sagemaker.client import Caller as SageMaker
from tests.support.clock import run_stepped
from trainfleet_simulator import KINDS, Fault, Simulator
from trainfleet_simulator.faults import WIRE, Faults

JOBS = "/api/v1/jobs"
LISTS: dict[str, tuple[Callable[[], Any], Callable[[Any, httpx.Response | None], httpx.Response]]] = {
    "PAI": (Caller, lambda caller, first: caller.get("dlc", "ListJobs", JOBS, PageSize="5", PageNumber=_page(first))),
    "ModelArts": (
        ModelArts,
        lambda caller, first: caller.post(SEARCHES, {"limit": 5, "offset": int(first is not None)}),
    ),
    "SageMaker": (
        SageMaker,
        lambda caller, first: caller.send(
            "sagemaker",
            "Search",
            {"Resource": "TrainingJob", "MaxResults": 5} | ({"NextToken": first.json()["NextToken"]} if first else {}),
        ),
    ),
}
"""How to make a cloud, and how to ask for its first page of jobs, or for the page after one."""


def _page(first: httpx.Response | None) -> str:
    return "1" if first is None else "2"


@pytest.mark.parametrize("cloud", LISTS)
def test_every_kind_changes_a_list_of_jobs(cloud: str) -> None:
    """A fault that does nothing would let each test under it pass."""
    make, ask = LISTS[cloud]
    caller = make()
    first = ask(caller, None)
    second = ask(caller, first)
    for kind in sorted(KINDS.keys() - WIRE.keys()):
        caller.simulator.faults.replace([Fault({}, kind=kind)])
        page = ask(caller, None)
        if kind == "moving_rows":
            page = ask(caller, page)
            assert page.content != second.content
        else:
            assert page.status_code != 200 or page.content != first.content or "encoded" in page.headers, kind
        assert truth_of(caller)["answers"][-1]["fault"] == kind


def truth_of(caller: Any, **query: str) -> dict[str, Any]:
    answer: dict[str, Any] = send(caller.simulator, "/truth", query).json()
    return answer


@pytest.mark.parametrize("kind", WIRE)
def test_every_kind_breaks_the_connection(kind: str) -> None:
    async def main() -> None:
        simulator = Simulator(1, clock=Clock(), population=5)
        simulator.faults.add(Fault({}, kind=kind))
        async with simulator.serve_listeners(["dlc"]) as listeners, httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises((httpx.TransportError, TimeoutError)):
                async with asyncio.timeout(100):
                    await client.get(listeners["dlc"].url + JOBS, timeout=None)

    run_stepped(main)


def test_answers_are_logged_as_they_were_given() -> None:
    caller = Caller()
    answer = caller.jobs(Status="Running", WorkspaceId="12347", PageSize="5")
    caller.refusal("dlc", "ListJobs", JOBS, Status="Nonsense")
    caller.refusal("dlc", "GetJob", f"{JOBS}/nosuch")
    truth = truth_of(caller)
    assert truth["calls"] == {"dlc": {"ListJobs": {"ok": 1, "client": 1}, "GetJob": {"not_found": 1}}}
    first, refused, missing = truth["answers"]
    assert first["query"] == {"Status": "Running", "WorkspaceId": "12347", "PageSize": "5"}
    assert first["total"] == answer["TotalCount"]
    assert first["rows"] == [[job["JobId"], job["Status"], job["SubStatus"]] for job in answer["Jobs"]]
    assert (refused["outcome"], refused["total"], refused["rows"]) == ("client", None, [])
    assert missing["query"] == {"JobId": "nosuch"}
    assert [answer["seq"] for answer in truth_of(caller, since="2")["answers"]] == [3]


def statuses(caller: Caller, calls: int, **query: str) -> list[int]:
    return [caller.get("dlc", "ListJobs", JOBS, **query).status_code for _ in range(calls)]


def test_a_rule_fails_some_calls_and_lets_others_pass() -> None:
    caller = Caller(population=5)
    caller.simulator.faults.add(Fault({"operation": "ListJobs", "Status": "Running"}, status=500, times=2))
    assert statuses(caller, 1) == [200]
    assert statuses(caller, 4, Status="Running") == [500, 500, 200, 200]


def test_a_fault_can_wait_for_a_kept_connection() -> None:
    async def main() -> None:
        simulator = Simulator(1, clock=Clock(), population=5)
        simulator.faults.add(Fault({"connection": "kept"}, kind="close", times=1))
        async with simulator.serve_listeners(["dlc"]) as listeners:
            url = listeners["dlc"].url + JOBS
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(url)).status_code == 400
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.get(url)
                assert [(await client.get(url)).status_code for _ in range(2)] == [400, 400]

    run_stepped(main)


def test_a_fault_has_its_time() -> None:
    clock = Clock()
    faults = Faults(clock)
    begun = clock.now
    faults.add(Fault({}, status=500, after=60, lasts=30))
    found = []
    for age in (0, 59.9, 60, 75, 89.9, 90, 10_000):
        clock.now = begun + age
        found.append(faults.take({}) is not None)
    assert found == [False, False, True, True, True, False, False]


def post(caller: Caller, content: bytes, client: str = "127.0.0.1") -> httpx.Response:
    async def once() -> httpx.Response:
        transport = httpx.ASGITransport(caller.simulator.app, client=(client, 1234))
        async with httpx.AsyncClient(transport=transport, base_url="http://simulator.test") as http:
            return await http.post("/faults", content=content)

    return asyncio.run(once())


def test_a_request_from_this_machine_replaces_the_faults() -> None:
    caller = Caller(population=5)
    rule = b'[{"match": {"operation": "ListJobs"}, "status": 429, "headers": {"x-acs-retry-after": "5"}}]'
    assert post(caller, rule, client="192.0.2.7").status_code == 403
    assert statuses(caller, 1) == [200]
    assert post(caller, rule).json() == {"faults": 1}
    assert caller.get("dlc", "ListJobs", JOBS).headers["x-acs-retry-after"] == "5"
    assert post(caller, b"[]").json() == {"faults": 0}
    assert statuses(caller, 1) == [200]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (b"[1]", "Expected `object`, got `int` - at `$[0]`"),
        (b'[{"match": {}, "colour": 1}]', "Object contains unknown field `colour` - at `$[0]`"),
        (b'[{"match": {}, "status": "500"}]', "Expected `int | null`, got `str` - at `$[0].status`"),
        (b'[{"match": {}, "status": 600}]', "Expected `int` <= 599 - at `$[0].status`"),
        (b'[{"match": {}, "kind": "flood"}]', f"unknown kind 'flood'; there are: {', '.join(KINDS)}"),
        (b'[{"match": {}, "kind": "hang", "status": 500}]', "kind says all of the answer: status and body go without"),
        (b'[{"match": {}, "after": -1}]', "Expected `float` >= 0.0 - at `$[0].after`"),
        (b'[{"match": {}, "after": NaN}]', "JSON is malformed"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_reason(rule: bytes, message: str) -> None:
    caller = Caller(population=5)
    response = post(caller, rule)
    assert response.status_code == 400
    assert response.text.startswith(message)
    assert len(caller.simulator.faults) == 0
