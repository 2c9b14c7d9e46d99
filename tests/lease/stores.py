"""Places where a lease is kept, in a simulated world: an API server of Kubernetes, and a file server."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.lease.processes import Process, World
from trainfleet_exporter.errors import LeaseConflict
from trainfleet_exporter.lease import FileLease, LeaseStore, Record
from trainfleet_exporter.lease.kubernetes import KubernetesLease

NAMESPACE = "monitoring"
_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class ApiServer:
    """The Leases of a namespace, with optimistic concurrency as the API server has it.

    `rejects` is a status that it answers for a while, whatever is asked.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.leases: dict[str, dict[str, Any]] = {}
        self.rejects = 0
        self.requests: list[tuple[str, int]] = []
        """Method and status of each."""
        self._version = 100

    def answer(self, method: str, path: str, content: bytes, token: str) -> httpx.Response:
        """Answer one request."""
        status, body = self._answer(method, path, content, token)
        self.requests.append((method, status))
        return httpx.Response(status, json=body)

    def _answer(self, method: str, path: str, content: bytes, token: str) -> tuple[int, dict[str, Any]]:
        if token != "Bearer token":
            return self._refusal(401, "Unauthorized")
        if self.rejects:
            return self._refusal(self.rejects, "leases.coordination.k8s.io is forbidden")
        name = path.removeprefix(_PATH).lstrip("/")
        assert path.startswith(_PATH)
        if method == "POST":
            given = json.loads(content)
            name = given["metadata"]["name"]
            assert not given["metadata"].get("resourceVersion"), (
                "resourceVersion should not be set on objects to be created"
            )
            return self._refusal(409, "already exists") if name in self.leases else (201, self._store(name, given))
        if name not in self.leases:
            return self._refusal(404, "not found")
        if method == "GET":
            return 200, self.leases[name]
        assert method == "PUT"
        given = json.loads(content)
        if given["metadata"]["resourceVersion"] != self.leases[name]["metadata"]["resourceVersion"]:
            return self._refusal(409, "the object has been modified")
        return 200, self._store(name, given)

    def _store(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        spec = given["spec"]
        assert spec["leaseDurationSeconds"] > 0
        assert spec["leaseTransitions"] >= 0
        assert spec.get("holderIdentity") != ""
        self._world.note_holder(spec.get("holderIdentity", ""))
        self._version += 1
        self.leases[name] = {**given, "metadata": {**given["metadata"], "resourceVersion": str(self._version)}}
        return self.leases[name]

    def _refusal(self, code: int, message: str) -> tuple[int, dict[str, Any]]:
        return code, {"kind": "Status", "status": "Failure", "message": message, "code": code}


class Wire(httpx.AsyncBaseTransport):
    """The network between a process and the API server: slow, and sometimes cut. A cut loses requests and answers."""

    def __init__(self, world: World, process: Process, server: ApiServer, chance: random.Random) -> None:
        self._world = world
        self._process = process
        self._server = server
        self._chance = chance
        self.slowest = 0.3
        """Seconds of one way, at most."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        world, process, chance = self._world, self._process, self._chance
        future: asyncio.Future[httpx.Response] = process.loop.create_future()
        content, token = request.content, request.headers["authorization"]

        def arrive() -> None:
            if process.is_cut_off:
                return
            answer = self._server.answer(request.method, request.url.path, content, token)
            world.after(chance.uniform(0, self.slowest), lambda: back(answer))

        def back(answer: httpx.Response) -> None:
            if not process.is_cut_off:
                process.answer(future, answer)

        if process.is_cut_off and chance.random() < 0.5:
            world.after(0.1, lambda: process.answer(future, httpx.ConnectError("no route to host")))
        elif not process.is_cut_off:
            world.after(chance.uniform(0, self.slowest), arrive)
        return await future


def kubernetes(world: World, process: Process, server: ApiServer, chance: random.Random) -> KubernetesLease:
    """The lease of a process."""
    return KubernetesLease(
        "trainfleet-exporter",
        server="https://10.0.0.1:443",
        namespace=NAMESPACE,
        token=lambda: "token",
        send=Wire(world, process, server, chance),
        wall=lambda: 1.8e9 + world.now + world.wall_offset,
    )


def file(world: World, process: Process, path: Path, chance: random.Random, slowest: float = 0.3) -> LeaseStore:
    """The lease of a process, in a folder of a file server: while that is out of reach, calls wait until it is back.

    A call that was begun goes on in the file server although its process is stopped, or waits for the process.
    """

    async def run(work: Callable[[], Record]) -> Record:
        future: asyncio.Future[Record] = process.loop.create_future()
        waits_for_process = chance.random() < 0.5

        def reach() -> None:
            if not process.is_alive:
                return
            if process.is_cut_off or (process.is_stopped and waits_for_process):
                world.after(0.5, reach)
                return
            try:
                record = work()
                world.note_holder(record.holder)
                result: Record | Exception = record
            except (OSError, LeaseConflict) as error:
                result = error
            world.after(chance.uniform(0, slowest), lambda: process.answer(future, result))

        world.after(chance.uniform(0, slowest), reach)
        return await future

    return FileLease(path, run)
