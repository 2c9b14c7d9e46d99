"""Which calls a fault is for, how often, and when; and what is said about a rule that is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.simulator.client import START, Caller, Clock
from tests.simulator.test_truth_and_faults import post, truth_of
from tests.support.clock import run_stepped
from trainfleet_simulator import KINDS, Fault, Simulator
from trainfleet_simulator.faults import Faults

JOBS = "/api/v1/jobs"


def statuses(caller: Caller, calls: int) -> list[int]:
    return [caller.get("dlc", "ListJobs", JOBS).status_code for _ in range(calls)]


def test_rule_lets_first_calls_pass_and_fails_the_next() -> None:
    caller = Caller(population=5)
    caller.simulator.faults.add(Fault({"operation": "ListJobs"}, status=500, skip=2, times=2))
    assert statuses(caller, 6) == [200, 200, 500, 500, 200, 200]


def test_calls_that_do_not_match_are_not_skipped() -> None:
    caller = Caller(population=5)
    caller.simulator.faults.add(Fault({"operation": "ListJobs", "Status": "Running"}, status=500, skip=1))
    assert statuses(caller, 3) == [200, 200, 200]
    running = [caller.get("dlc", "ListJobs", JOBS, Status="Running").status_code for _ in range(2)]
    assert running == [200, 500]


def test_a_call_that_one_rule_lets_through_is_for_the_next() -> None:
    caller = Caller(population=5)
    caller.simulator.faults.add(Fault({}, status=500, skip=1, times=1))
    caller.simulator.faults.add(Fault({}, status=404))
    assert statuses(caller, 3) == [404, 500, 404]


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
    clock.now += 1000
    faults.add(Fault({}, status=500, after=60, lasts=30))
    found = []
    for age in (0, 59.9, 60, 89.9, 90, 10_000):
        clock.now = START + 1000 + age
        found.append(faults.take({}) is not None)
    assert found == [False, False, True, True, False, False]


def test_calls_before_its_time_use_nothing_up() -> None:
    clock = Clock()
    faults = Faults(clock)
    faults.replace([Fault({}, status=500, after=60, skip=1, times=1)])
    assert [faults.take({}) for _ in range(3)] == [None] * 3
    clock.now += 60
    assert [faults.take({}) is not None for _ in range(3)] == [False, True, False]


def test_an_hour_is_scripted_at_once() -> None:
    script: list[dict[str, Any]] = [
        {"match": {"operation": "ListJobs"}, "kind": "server_error", "after": 600, "lasts": 600},
        {"match": {"operation": "ListJobs"}, "kind": "throttled", "after": 1200, "lasts": 600},
        {"match": {"operation": "ListJobs"}, "kind": "close", "after": 1800, "lasts": 600},
    ]

    async def main() -> list[tuple[str, str]]:
        loop = asyncio.get_running_loop()
        simulator = Simulator(1, population=5)
        query = {"x-acs-version": "2020-12-03", "x-acs-action": "ListJobs"}
        async with simulator.serve_listeners(["all"]) as listeners, httpx.AsyncClient(trust_env=False) as client:
            url = listeners["all"].url
            begun = loop.time()
            assert (await client.post(f"{url}/faults", json=script)).json() == {"faults": 3}
            for minute in (5, 15, 25, 35, 45):
                await asyncio.sleep(begun + 60 * minute - loop.time())
                try:
                    await client.get(f"{url}{JOBS}", headers=query)
                except httpx.RemoteProtocolError:
                    assert minute == 35
            answers = (await client.get(f"{url}/truth")).json()["answers"]
        return [(answer.get("fault", ""), answer["outcome"]) for answer in answers]

    assert run_stepped(main) == [
        ("", "auth"),  # nothing was signed
        ("server_error", "server"),
        ("throttled", "throttled"),
        ("close", "network"),
        ("", "auth"),
    ]


def test_the_log_names_the_fault_that_was_applied_and_no_other() -> None:
    caller = Caller(population=5)
    for fault in (
        Fault({}, status=500, times=1),
        Fault({}, kind="duplicate_rows", times=1),
        Fault({}, delay=0.001, times=1),
    ):
        caller.simulator.faults.add(fault)
    statuses(caller, 4)
    answers = truth_of(caller)["answers"]
    assert [answer.get("fault") for answer in answers] == ["status", "duplicate_rows", None, None]
    assert [bool(answer["rows"]) for answer in answers] == [False, False, True, True]
    assert "fault" not in answers[-1]


KEYS = "after, body, delay, headers, kind, lasts, match, skip, status, times"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (b"[1]", f"a fault is an object with `match` and some of: {KEYS}"),
        (b'[{"match": {}, "colour": 1}]', f"a fault is an object with `match` and some of: {KEYS}"),
        (b'[{"match": {"api": 1}}]', "match is an object of texts"),
        (b'[{"match": {}, "status": "500"}]', "status is 200 to 599, or null"),
        (b'[{"match": {}, "status": 42}]', "status is 200 to 599, or null"),
        (b'[{"match": {}, "headers": {"a": 1}}]', "headers is an object of texts"),
        (b'[{"match": {}, "delay": -1}]', "delay is seconds, 0 or more"),
        (b'[{"match": {}, "delay": true}]', "delay is seconds, 0 or more"),
        (b'[{"match": {}, "times": -1}]', "times is a whole number, or null"),
        (b'[{"match": {}, "kind": 7}]', "kind is text: the name of a kind"),
        (b'[{"match": {}, "kind": "flood"}]', f"unknown kind 'flood'; there are: {', '.join(KINDS)}"),
        (b'[{"match": {}, "kind": "hang", "status": 500}]', "kind says all of the answer: status and body go without"),
        (b'[{"match": {}, "kind": "html", "body": "x"}]', "kind says all of the answer: status and body go without"),
        (b'[{"match": {}, "skip": 1.5}]', "skip is a whole number"),
        (b'[{"match": {}, "skip": null}]', "skip is a whole number"),
        (b'[{"match": {}, "after": "1h"}]', "after is seconds, 0 or more"),
        (b'[{"match": {}, "after": NaN}]', "after is seconds, 0 or more"),
        (b'[{"match": {}, "lasts": -5}]', "lasts is seconds, 0 or more, or null"),
    ],
)
def test_a_wrong_rule_is_told_what_is_wrong_with_it(rule: bytes, message: str) -> None:
    caller = Caller(population=5)
    response = post(caller, rule)
    assert response.status_code == 400
    assert response.text.startswith(message)
    assert len(caller.simulator.faults) == 0


def test_everything_that_a_fault_may_say() -> None:
    given = {"match": {"api": "dlc"}, "kind": "drip", "headers": {}, "delay": 0.5, "times": 3, "skip": 1}
    more = {"after": 10, "lasts": 20.5, "status": None, "body": None}
    fault = Fault.of(given | more)
    assert (fault.kind, fault.skip, fault.after, fault.lasts) == ("drip", 1, 10, 20.5)
    assert fault.word == "drip"


def test_a_kind_that_there_is_not_is_refused_in_code_too() -> None:
    with pytest.raises(ValueError, match="unknown kind 'flood'; there are: reset, close"):
        Fault({}, kind="flood")
