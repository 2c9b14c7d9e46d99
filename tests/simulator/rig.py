"""One simulator of both clouds behind a socket, and its answers as they are on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx

from tests.simulator.client import Clock
from tests.simulator.operations import Asking, operations
from trainfleet_simulator import Fault, Simulator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer with its body as it came, and what `/truth` says of it."""

    status: int
    headers: httpx.Headers
    raw: bytes
    outcome: str = ""
    fault: str | None = None

    @property
    def body(self) -> Any:
        """The decoded JSON."""
        return json.loads(self.raw)


@dataclass
class Rig:
    """Keeps one world for many tests: nothing happens in it, because its clock stands."""

    clock: Clock = field(default_factory=Clock)
    simulator: Simulator = field(init=False)
    asking: dict[str, Asking] = field(init=False)
    url: str = ""
    _seen: int = 0
    _true: list[Heard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.simulator = Simulator(1, clock=self.clock, clouds=("pai", "modelarts"))
        self.asking = operations(self.simulator, self.clock)

    def run(self, main: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
        """Serve while `main` asks."""

        async def served() -> T:
            self.simulator.faults.clear()
            async with (
                self.simulator.serve_listeners(["all"]) as listeners,
                httpx.AsyncClient(trust_env=False, timeout=20, verify=False) as client,
            ):
                self.url = listeners["all"].url
                return await main(client)

        return asyncio.run(served())

    def hear(self, *asked: tuple[Asking, Fault | None]) -> list[Heard]:
        """What is answered to requests, one after the other, each with its fault alone in force."""

        async def main(client: httpx.AsyncClient) -> list[Heard]:
            heard = []
            for asking, fault in asked:
                self.simulator.faults.replace([] if fault is None else [fault])
                heard.append(await self.ask(client, asking))
            reported = (await client.get(f"{self.url}/truth", params={"since": str(self._seen)})).json()
            self._seen = reported["seq"]
            return [
                replace(one, outcome=line["outcome"], fault=line.get("fault"))
                for one, line in zip(heard, reported["answers"], strict=True)
            ]

        return self.run(main)

    async def ask(self, client: httpx.AsyncClient, asking: Asking) -> Heard:
        """One request."""
        headers = asking.signed_for(self.url.removeprefix("http://"), self.clock.now)
        # Or httpx quotes what it was given quoted.
        url = httpx.URL(self.url).copy_with(raw_path=asking.target.encode())
        async with client.stream(asking.method, url, headers=headers, content=asking.body) as answer:
            raw = b"".join([chunk async for chunk in answer.aiter_raw()])
        return Heard(answer.status_code, answer.headers, raw)

    def everywhere(self, **fault: Any) -> dict[str, tuple[Heard, Heard]]:
        """The true answer and the faulty one of every operation. The true ones are asked for once."""
        if not self._true:
            self._true = self.hear(*((asking, None) for asking in self.asking.values()))
        faulty = self.hear(*((asking, fault_of(asking, **fault)) for asking in self.asking.values()))
        return dict(zip(self.asking, zip(self._true, faulty, strict=True), strict=True))

    def one(self, name: str, **fault: Any) -> tuple[Heard, Heard]:
        """The true answer and the faulty one of an operation."""
        asking = self.asking[name]
        true, heard = self.hear((asking, None), (asking, fault_of(asking, **fault)))
        return true, heard


def fault_of(asking: Asking, **fault: Any) -> Fault:
    """A fault of a request's operation."""
    return Fault({"api": asking.api, "operation": asking.operation}, **fault)
