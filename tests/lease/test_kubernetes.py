"""The lease as an object of Kubernetes: what is sent, and what answers mean."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.lease.api_server import NAMESPACE, ApiServer, lease_on
from tests.support.certificates import Authority
from trainfleet_exporter.errors import LeaseConflict, LeaseUnavailable
from trainfleet_exporter.lease import Record, kubernetes, open_lease


async def test_a_lease_is_made_taken_and_released() -> None:
    server, sent = ApiServer(), []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.url.path))
        return server.answer(request)

    lease = lease_on(answer)
    assert await lease.read() == Record()
    seen = await lease.create()
    assert await lease.read() == seen == Record("", 0, seen.version)
    assert await lease.write(seen, "pod-0_1", 1, dry_run=True) == await lease.read() == seen
    held = await lease.write(seen, "pod-0_1", 1)
    assert (held.holder, held.term) == ("pod-0_1", 1)
    assert server.leases["trainfleet-exporter"]["spec"] == {
        "holderIdentity": "pod-0_1",
        "leaseDurationSeconds": 10,
        "leaseTransitions": 1,
        "renewTime": "2026-01-02T03:04:05.000000Z",
    }
    with pytest.raises(LeaseConflict):
        await lease.write(seen, "pod-0_1", 1)
    with pytest.raises(LeaseConflict):
        await lease.create()
    released = await lease.write(held, "", 1)
    assert (released.holder, released.term) == ("", 1)
    server.leases.clear()
    with pytest.raises(LeaseConflict):
        await lease.write(released, "pod-0_1", 2)
    await lease.aclose()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    assert {*sent} == {("GET", f"{path}/trainfleet-exporter"), ("POST", path), ("PUT", f"{path}/trainfleet-exporter")}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(403, json={"message": "leases is forbidden"}), "HTTP 403 leases is forbidden"),
        (httpx.Response(500, text="<html>"), "HTTP 500"),
        (httpx.Response(200, text="<html>"), "HTTP 200, and the answer is not a Lease"),
        (httpx.Response(200, text='{"metadata": {"x": ' + 100_000 * "["), "HTTP 200, and the answer is not a Lease"),
        (
            httpx.Response(200, json={"metadata": {"resourceVersion": 7}}),
            "the lease trainfleet-exporter is not valid: Expected `str`, got `int` - at `.*resourceVersion`; delete it",
        ),
    ],
)
def test_bad_answers_are_reported(answer: httpx.Response, words: str) -> None:
    with pytest.raises(LeaseUnavailable, match=words):
        asyncio.run(lease_on(lambda request: answer).read())


def test_a_lease_of_another_author_is_read() -> None:
    made = {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": None, "renewTime": None, "strategy": "x"}}
    assert asyncio.run(lease_on(lambda request: httpx.Response(200, json=made)).read()) == Record("", 0, "7")


def test_a_token_that_is_no_text_is_reported(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    lease = lease_on(lambda request: httpx.Response(200), partial((tmp_path / "token").read_text, encoding="utf-8"))
    with pytest.raises(LeaseUnavailable, match="it is not text"):
        asyncio.run(lease.read())


def test_a_new_authority_of_the_cluster_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request after Kubernetes has replaced the files connects, with the new token."""
    monkeypatch.setattr(kubernetes, "ACCOUNT", tmp_path)
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    (tmp_path / "ca.crt").write_bytes(old.file.read_bytes())
    (tmp_path / "namespace").write_text(NAMESPACE, encoding="utf-8")
    (tmp_path / "token").write_text("token", encoding="utf-8")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        status = b"404 Not Found" if b"\r\nauthorization: Bearer new\r\n" in request else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=new.server())
        port = str(server.sockets[0].getsockname()[1])
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        lease = open_lease(environ=environ)
        for _ in range(2):
            with pytest.raises(LeaseUnavailable, match="certificate not trusted"):
                await lease.read()
        (tmp_path / "ca.crt").write_bytes(new.file.read_bytes())
        (tmp_path / "token").write_text("new", encoding="utf-8")
        assert await lease.read() == Record()
        await lease.aclose()
        server.close()

    asyncio.run(main())


def test_a_shard_has_a_lease_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes, "ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_bytes(Authority(tmp_path, "ca").file.read_bytes())
    (tmp_path / "namespace").write_text(NAMESPACE, encoding="utf-8")
    (tmp_path / "token").write_text("token", encoding="utf-8")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "TRAINFLEET_LEASE_NAME": "prod"}
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path.rpartition("/")[2])
        return httpx.Response(404)

    for shard in (None, 3):
        lease = open_lease(shard=shard, environ=environ)
        lease._connect = lambda: httpx.MockTransport(answer)
        assert asyncio.run(lease.read()) == Record()
    assert paths == ["prod", "prod-3"]
