"""What the web server promises whatever its clients do, in stepped time."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
import tracemalloc
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from tests.support.certificates import Authority
from tests.web.secured import ANNAS, BERT, Served, basic, later, serving, trusting, write
from tests.web.test_server import ASK, MB, met, port_of, running
from trainfleet_exporter.exposition import PageStore
from trainfleet_exporter.exposition.blocks import CHUNK_BYTES
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.telemetry import Standing, Telemetry
from trainfleet_exporter.web.app import MetricsEndpoint
from trainfleet_exporter.web.listeners import listen

HEAD_SECONDS = 10
READERS, GONE_SECONDS = 300, 60
WRONG = 64


async def _ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "drops", [b"", b"\r\n" * 50, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 100], ids=["silence", "blank lines", "headers"]
)
@pytest.mark.parametrize("before", [b"", ASK], ids=["first request", "later request"])
async def test_no_head_stays_open_longer_than_10_seconds(drops: bytes, before: bytes) -> None:
    async with met() as visitor:
        if before:
            visitor.say(before)
            await visitor.reader.readuntil(b"hi")
            await asyncio.sleep(60)  # as Prometheus does
        rest, began = asyncio.create_task(visitor.rest()), visitor.seconds
        for drop in drops:
            visitor.say(bytes((drop,)))
            await asyncio.wait([rest], timeout=1)
            if rest.done():
                break
        await rest
        allowed = 75 - 60 if before and not drops else HEAD_SECONDS
        assert allowed <= visitor.seconds - began <= allowed + 2


async def test_300_readers_that_do_not_read_are_gone_in_a_minute() -> None:
    """A page of 1 MB changes every second meanwhile; 8 MB of old pages may be kept."""
    store = PageStore(standing=Standing)
    lasted, peak = 0.0, 0

    def publish(version: int) -> None:
        for part in range(8):
            family = FAMILIES[part].name
            line = b'%s{version="%d",part="%d",pad="%s"} 1\n' % (family.encode(), version, part, b"x" * 900)
            store.put(part, {family: [line * 130]})

    (listening,) = listen("127.0.0.1:0")
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)  # connections have it from here
    async with running(MetricsEndpoint(store, Telemetry(), 8 * MB), sock=listening) as server:
        loop, address = asyncio.get_running_loop(), ("127.0.0.1", port_of(server))
        publish(-1)
        with ExitStack() as stack:
            tracemalloc.start()
            for version in range(READERS):
                if version % 15 == 0:
                    publish(version)
                    await asyncio.sleep(1)
                sock = stack.enter_context(socket.socket())
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
                sock.setblocking(False)
                await loop.sock_connect(sock, address)
                await loop.sock_sendall(sock, ASK)
                await asyncio.sleep(0.01)
                peak = max(peak, tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
            began = loop.time()
            while server.connections and loop.time() - began < 400:  # noqa: ASYNC110 - no event says when
                await asyncio.sleep(1)
            lasted = loop.time() - began
    print(f"{READERS} readers: the last one gone after {lasted:.0f} s; peak {peak / MB:.0f} MB")
    assert lasted <= GONE_SECONDS + 2
    # Old pages, the newest one, and the chunk that each client has begun to read.
    assert peak < 8 * MB + 2 * MB + READERS * CHUNK_BYTES * 1.1


async def test_64_wrong_logins_never_lock_out_a_verified_user(tmp_path: Path) -> None:
    cost = bcrypt.hashpw(b"annas-secret", bcrypt.gensalt(6)).decode()
    write(tmp_path / "web.yaml", f"basic_auth_users: {{anna: {cost}, bert: {BERT}}}\n")
    waited: list[float] = []
    async with serving(tmp_path / "web.yaml") as served:
        assert (await served.get(ANNAS)).status == 200
        ended = False

        async def attack(number: int) -> None:
            while not ended:
                user = "anna" if number % 2 else f"nobody-{number}"
                assert (await served.get(basic(user, f"wrong-{number}"))).status in (401, 503)

        attackers = [asyncio.create_task(attack(number)) for number in range(WRONG)]
        for _ in range(12):
            await asyncio.sleep(0)
            began = time.perf_counter()
            assert (await served.get(ANNAS)).status == 200
            waited.append(time.perf_counter() - began)
        assert (await served.get(basic("bert", "berts-secret"))).status in (200, 503)
        ended = True
        await asyncio.gather(*attackers)
    print(f"logins: verified user {len(waited)} of 12, longest {max(waited) * 1000:.0f} ms")
    assert len(waited) == 12


async def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own, following = authority.issue("server"), authority.issue("next")
    write(tmp_path / "web.yaml", f"tls_server_config: {{cert_file: {own[0].name}, key_file: {own[1].name}}}\n")

    async def shown(served: Served) -> str:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=trusting(authority.file))
        found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return ssl.DER_cert_to_PEM_cert(found)

    async with serving(tmp_path / "web.yaml") as served:
        before = own[0].read_text(encoding="utf-8")
        assert await shown(served) == before
        following[0].replace(own[0])  # half way: the key is another one's
        await later()
        assert await shown(served) == before
        following[1].replace(own[1])
        await later()
        assert await shown(served) == own[0].read_text(encoding="utf-8") != before


class _Denying(socket.socket):
    """A listening socket of a system without a descriptor while `denies`: it refuses before it looks who waits."""

    denies = False
    tries = 0

    def accept(self) -> Any:
        self.tries += 1
        if self.denies:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


async def test_no_descriptor_left_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    (plain,) = listen("127.0.0.1:0")
    sock = _Denying(plain.family, plain.type, plain.proto, fileno=plain.detach())
    async with running(sock=sock) as server:
        port = port_of(server)
        assert (await _ask(port)).endswith(b"hi")
        sock.denies, sock.tries = True, 0
        asked = [asyncio.create_task(_ask(port)) for _ in range(3)]
        await asyncio.sleep(50)
        assert not any(task.done() for task in asked)
        assert 45 <= sock.tries <= 55  # once a second
        sock.denies = False
        assert all(answer.endswith(b"hi") for answer in await asyncio.gather(*asked))
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "cannot accept connections; retrying every second"
    ]
