"""Faults below HTTP, as a client with a bare socket sees them; in stepped time, so that nothing waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.simulator.client import Clock, send
from tests.simulator.operations import Asking, operations
from tests.simulator.rig import fault_of
from tests.support.clock import START, run_stepped
from trainfleet_simulator import Fault, Simulator
from trainfleet_simulator.fault_kinds import WIRE

NAMES = ("pai ListJobs", "modelarts ListTrainingJobs", "modelarts GetMetadataToken")


@dataclass(frozen=True, slots=True)
class End:
    """All bytes of one connection, how it ended (`closed`, `reset` or `open`), and after how many seconds."""

    data: bytes
    how: str
    seconds: float

    @property
    def head(self) -> dict[str, str]:
        lines = self.data.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return dict(line.lower().split(": ", 1) for line in lines)

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]


async def raw(url: str, asking: Asking, *, wait: float = 1000) -> End:
    """Send a request on a bare connection and read until it ends, or for so many seconds."""
    host, port = url.removeprefix("http://").split(":")
    loop = asyncio.get_running_loop()
    begun = loop.time()
    reader, writer = await asyncio.open_connection(host, int(port))
    headers = asking.signed_for(f"{host}:{port}", START) | {"content-length": str(len(asking.body))}
    lines = [f"{asking.method} {asking.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + asking.body)
    data, how = b"", "open"
    try:
        async with asyncio.timeout(wait):
            while chunk := await reader.read(65536):
                data += chunk
        how = "closed"
    except ConnectionResetError:
        how = "reset"
    except TimeoutError:
        pass
    writer.close()
    return End(data, how, loop.time() - begun)


def serve(main: Callable[[str, Simulator, dict[str, Asking]], Awaitable[None]]) -> None:
    """Run a client against a simulator in stepped time."""

    async def served() -> None:
        clock = Clock(START)
        simulator = Simulator(1, clock=clock, clouds=("pai", "modelarts"), population=10)
        asking = operations(simulator, clock)
        async with simulator.serve_listeners(["all"]) as listeners:
            await main(listeners["all"].url, simulator, asking)

    run_stepped(served)


async def log(url: str) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(trust_env=False) as client:
        answers: list[dict[str, Any]] = (await client.get(f"{url}/truth")).json()["answers"]
    return answers


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_each_kind_on_the_wire(name: str) -> None:
    async def main(url: str, simulator: Simulator, asked: dict[str, Asking]) -> None:
        asking = asked[name]
        found: dict[str, End] = {}
        for kind in WIRE:
            simulator.faults.replace([fault_of(asking, kind=kind)])
            found[kind] = await raw(url, asking, wait=100_000)
        simulator.faults.clear()
        assert {kind: (end.how, bool(end.data)) for kind, end in found.items()} == {
            "reset": ("reset", False),
            "close": ("closed", False),
            "reset_midway": ("reset", True),
            "cut_off": ("closed", True),
            "hang": ("open", False),
            "drip": ("closed", True),
            "not_http": ("closed", True),
        }
        assert not found["not_http"].data.startswith(b"HTTP")
        assert b"\r\n\r\n" not in found["not_http"].data
        for kind in ("reset_midway", "cut_off"):
            end = found[kind]
            assert end.data.startswith(b"HTTP/1.1 200 OK\r\n")
            assert len(end.body) == int(end.head["content-length"]) // 2 > 0
            assert "date" in end.head
        assert found["hang"].seconds >= 100_000
        dripped = found["drip"]
        assert len(dripped.body) == int(dripped.head["content-length"])
        assert dripped.seconds == pytest.approx(len(dripped.data), abs=1.5)
        lines = await log(url)
        assert [(line["fault"], line["outcome"], line["rows"]) for line in lines] == [
            (kind, "timeout" if kind in {"hang", "drip"} else "network", []) for kind in WIRE
        ]

    serve(main)


def test_the_one_address_of_serve_breaks_as_well() -> None:
    async def main() -> None:
        clock = Clock(START)
        simulator = Simulator(1, clock=clock, clouds=("pai", "modelarts"), population=10)
        asking = operations(simulator, clock)["pai ListJobs"]
        async with simulator.serve() as url:
            for kind, how in (("reset", "reset"), ("reset_midway", "reset"), ("cut_off", "closed"), ("hang", "open")):
                simulator.faults.replace([fault_of(asking, kind=kind)])
                assert (await raw(url, asking, wait=20)).how == how

    run_stepped(main)


def test_a_dripped_answer_is_the_true_one() -> None:
    async def main(url: str, simulator: Simulator, asked: dict[str, Asking]) -> None:
        asking = asked["pai ListWorkspaces"]
        simulator.faults.add(fault_of(asking, kind="drip"))
        end = await raw(url, asking, wait=10_000)
        assert {row["WorkspaceId"] for row in json.loads(end.body)["Workspaces"]} == {"12345", "12346"}

    serve(main)


@pytest.mark.parametrize("listeners", [True, False])
def test_what_hangs_does_not_hold_up_the_end(listeners: bool) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        clock = Clock(START)
        simulator = Simulator(1, clock=clock, clouds=("pai", "modelarts"), population=10)
        asked = operations(simulator, clock)
        for kind, name in (("hang", "pai ListJobs"), ("drip", "modelarts ListPools")):
            simulator.faults.add(fault_of(asked[name], kind=kind))
        simulator.faults.add(fault_of(asked["pai ListQuotas"], delay=1000))
        names = ["pai ListJobs", "modelarts ListPools", *(["pai ListQuotas"] if listeners else [])]
        async with simulator.serve_listeners(["all"]) if listeners else simulator.serve() as served:
            url = served if isinstance(served, str) else served["all"].url
            asking = [asyncio.create_task(raw(url, asked[name])) for name in names]
            await asyncio.sleep(3)
            ending = loop.time()
        took = loop.time() - ending
        ends = await asyncio.gather(*asking)
        assert {end.how for end in ends} <= {"closed", "reset"}
        return took

    assert run_stepped(main) < 0.5


def test_a_client_that_goes_away_ends_what_hangs() -> None:
    async def main(url: str, simulator: Simulator, asked: dict[str, Asking]) -> None:
        before = len(asyncio.all_tasks())
        for kind in ("hang", "drip"):
            simulator.faults.replace([fault_of(asked["pai ListJobs"], kind=kind)])
            assert (await raw(url, asked["pai ListJobs"], wait=5)).how == "open"
            await asyncio.sleep(0.1)
            assert len(asyncio.all_tasks()) == before

    serve(main)


def test_client_times_out_on_a_late_answer() -> None:
    async def main(url: str, simulator: Simulator, asked: dict[str, Asking]) -> None:
        simulator.faults.add(fault_of(asked["pai ListJobs"], delay=30))
        assert (await raw(url, asked["pai ListJobs"], wait=5)).data == b""
        (line,) = await log(url)
        assert (line["outcome"], line["rows"]) == ("timeout", [])
        assert "fault" not in line

    serve(main)


def test_a_delay_comes_before_what_breaks() -> None:
    async def main(url: str, simulator: Simulator, asked: dict[str, Asking]) -> None:
        simulator.faults.add(fault_of(asked["pai ListJobs"], kind="close", delay=12))
        end = await raw(url, asked["pai ListJobs"])
        assert (end.how, round(end.seconds)) == ("closed", 12)

    serve(main)


def test_within_a_process_there_is_no_wire() -> None:
    simulator = Simulator(1, clock=Clock(), population=5)
    simulator.faults.add(Fault({}, kind="reset"))
    with pytest.raises(RuntimeError, match="serve"):
        send(simulator, "/api/v1/jobs")
