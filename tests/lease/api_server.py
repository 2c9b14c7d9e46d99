"""A simulated API server of Kubernetes that keeps leases, and the network to it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import httpx

from tests.lease.processes import Process, World
from trainfleet_exporter.lease import KubernetesLease

NAMESPACE = "monitoring"
_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class ApiServer:
    """The Leases of a namespace, with optimistic concurrency as the API server has it.

    `rejects` is a status that it answers for a while, whatever is asked; `rejects_writes` one that only writes get.
    """

    def __init__(self, note_holder: Callable[[str], None] = lambda holder: None) -> None:
        self._note_holder = note_holder
        self.leases: dict[str, dict[str, Any]] = {}
        self.rejects = 0
        self.rejects_writes = 0
        self.refusal = "leases.coordination.k8s.io is forbidden"
        """The message with either."""
        self.requests: list[tuple[str, int]] = []
        """Method and status of each."""
        self._version = 100

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        is_dry = request.url.params.get("dryRun") == "All"
        token = request.headers["authorization"]
        status, body = self._answer(request.method, request.url.path, request.content, token, is_dry=is_dry)
        self.requests.append((f"{request.method} dry run" if is_dry else request.method, status))
        return httpx.Response(status, json=body)

    def _answer(
        self, method: str, path: str, content: bytes, token: str, *, is_dry: bool
    ) -> tuple[int, dict[str, Any]]:
        if token != "Bearer token":
            return self._refusal(401, "Unauthorized")
        if status := self.rejects or (self.rejects_writes if method != "GET" else 0):
            return self._refusal(status, self.refusal)
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
        return 200, self.leases[name] if is_dry else self._store(name, given)

    def _store(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        spec = given["spec"]
        assert spec["leaseDurationSeconds"] > 0
        assert spec["leaseTransitions"] >= 0
        assert spec.get("holderIdentity") != ""
        self._note_holder(spec.get("holderIdentity", ""))
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

        def arrive() -> None:
            if process.is_cut_off:
                return
            answer = self._server.answer(request)
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
        connect=lambda: Wire(world, process, server, chance),
        wall=lambda: 1.8e9 + world.now + world.wall_offset,
    )


def lease_on(
    answer: Callable[[httpx.Request], httpx.Response], token: Callable[[], str] = lambda: "token"
) -> KubernetesLease:
    """Return the lease of an exporter in the event loop of the test, without a network."""
    return KubernetesLease(
        "trainfleet-exporter",
        server="https://10.0.0.1:443",
        namespace=NAMESPACE,
        token=token,
        connect=lambda: httpx.MockTransport(answer),
    )
