"""Every kind of fault changes a response of every cloud, and rules choose the calls that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.simulator.client import JOBS, SEARCHES, Clock, ModelArts, Pai, SageMaker
from tests.support.clock import run_stepped
from trainfleet_simulator import KINDS, Fault, Simulator
from trainfleet_simulator.faults import WIRE
from trainfleet_simulator.rows import rows_of
from trainfleet_simulator.signatures import string_to_sign


def _pai(caller: Pai, first: httpx.Response | None) -> httpx.Response:
    return caller.get("dlc", "ListJobs", JOBS, PageSize="5", PageNumber="1" if first is None else "2")


def _modelarts(caller: ModelArts, first: httpx.Response | None) -> httpx.Response:
    return caller.post(SEARCHES, {"limit": 5, "offset": int(first is not None)})


def _sagemaker(caller: SageMaker, first: httpx.Response | None) -> httpx.Response:
    token = {} if first is None else {"NextToken": first.json()["NextToken"]}
    return caller.post("Search", {"Resource": "TrainingJob", "MaxResults": 5, **token})


LISTS: dict[str, tuple[Callable[..., Any], Callable[[Any, httpx.Response | None], httpx.Response]]] = {
    "PAI": (Pai, _pai),
    "ModelArts": (ModelArts, _modelarts),
    "SageMaker": (SageMaker, _sagemaker),
}
"""How to make a cloud, and how to request its first page of jobs, or the page after one."""


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
            rows = rows_of(page.json()), rows_of(ask(caller, page).json()), rows_of(second.json())
            before, after, unmoved = [each.all for each in rows if each is not None]
            assert (after[0], after[1]) == (before[-1], unmoved[0])
        else:
            assert page.status_code != 200 or page.content != first.content or "encoded" in page.headers, kind
        assert caller.truth()["answers"][-1]["fault"] == kind


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


def test_a_quoting_error_has_what_botocore_signed() -> None:
    caller = SageMaker(population=1)
    caller.simulator.faults.add(Fault({}, kind="quoted"))
    response = caller.post("ListClusters", {"MaxResults": 3})
    (asked,) = caller.simulator.take_quoted()
    assert string_to_sign(asked).startswith("AWS4-HMAC-SHA256\n20260102T030405Z\n20260102/us-east-1/sagemaker/")
    assert f"string to sign is:{string_to_sign(asked)}" in response.json()["message"]
