"""What the network does, and the words of the error that a call ends with: over real sockets, in stepped time."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import httpx
import pytest

from tests.support.certificates import Authority
from tests.support.clock import run_stepped
from tests.support.ports import held_port
from tests.transport.rig import JSON_OK, Rig, Serve, answering, hanging, http, raw_server, resetting
from trainfleet_exporter.errors import CloudError, StartError
from trainfleet_exporter.transport import HttpSettings
from trainfleet_exporter.transport.aiohttp_errors import reading_error, sending_error
from trainfleet_exporter.transport.aiohttp_transport import AiohttpTransport

SECRET = "SECRET"
SETTINGS = HttpSettings(connect_timeout=3, request_timeout=5, trust_env=False)
BEGUN = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _failure(address: str, settings: HttpSettings = SETTINGS, outcome: str = "network") -> str:
    """The words of the error of a call, after the host."""
    async with Rig(base_url=address, http=settings) as rig:
        rig.dialect.target = f"/jobs?Signature={SECRET}"
        error: CloudError = await rig.failure(within=5)
        assert set(rig.outcomes) == {outcome}
    assert SECRET not in str(error)
    assert error.__suppress_context__ or error.__context__ is None, "a traceback would show the text of the cause"
    return error.message.partition(": ")[2]


@pytest.mark.parametrize(
    ("serve", "outcome", "words"),
    [
        (answering(b""), "network", "the other side closed the connection before an answer came"),
        (answering(BEGUN), "network", "the answer was cut off or is not valid HTTP, in the middle of the answer"),
        (answering(CHUNKED + b"5\r\n{"), "network", "the answer was cut off or is not valid HTTP"),
        (resetting(), "network", "connection reset before an answer came"),
        (resetting(BEGUN), "network", "connection reset in the middle of the answer"),
        (hanging(), "timeout", "no complete answer after 5.0 s, because the request timeout passed"),
        (hanging(BEGUN), "timeout", "no complete answer after 5.0 s, because the request timeout passed"),
        (answering(b"SSH-2.0-OpenSSH_9.6 " + SECRET.encode() + b"\r\n"), "network", "the answer is not valid HTTP"),
        (answering(b"HTTP/1.1 2000 OK\r\n\r\n"), "network", "the answer is not valid HTTP"),
        (answering(b"HTTP/1.1 200 OK\r\nContent-Length: SECRET\r\n\r\n"), "network", "the answer is not valid HTTP"),
        (answering(b"HTTP/1.1 200 OK\r\nX-" + b"a" * 70_000 + b": b\r\n\r\n"), "network", "the answer is not valid "),
        (hanging(CHUNKED + b"1\r\n{\r\nSECRET\r\n"), "network", ""),
    ],
)
def test_answers_that_do_not_come_whole(serve: Serve, outcome: str, words: str) -> None:
    async def main() -> str:
        async with raw_server(serve) as server:
            return await _failure(f"http://{server.address}", outcome=outcome)

    assert run_stepped(main).startswith(words)


async def test_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unresolved(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def hang(*_: object, **__: object) -> None:
        await asyncio.sleep(3600)

    with socket.create_server(("127.0.0.1", 0)) as deaf, held_port() as held:
        port = deaf.getsockname()[1]
        assert await _failure(f"https://127.0.0.1:{port}", outcome="timeout") == "no connection in time"
        assert await _failure(f"http://127.0.0.1:{held}") == "connection refused"
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", unresolved)  # no real DNS
    assert await _failure("http://nowhere.invalid") == "name not resolved"
    monkeypatch.setattr(loop, "getaddrinfo", hang)
    assert await _failure("http://slow.invalid", outcome="timeout") == "no connection in time"


async def test_tls_is_verified(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = authority.server()
    trusting = HttpSettings(connect_timeout=3, ca_file=authority.file, trust_env=False)

    async def speak_first(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(http(b"{}"))
        await writer.drain()
        writer.close()

    async with raw_server(JSON_OK, tls) as server:
        address = f"https://{server.address}"
        assert (await _failure(address)).startswith("certificate not trusted: ")
        async with Rig(base_url=address, http=trusting) as rig:
            assert await rig.call() == {"Jobs": []}
        port = server.address.rpartition(":")[2]
        words = await _failure(f"https://localhost:{port}", trusting)
        assert words.startswith("certificate not trusted: Hostname mismatch")
    listener = await asyncio.start_server(speak_first, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        assert (await _failure(f"https://127.0.0.1:{port}")).startswith("TLS handshake failed: ")
        await asyncio.sleep(0.01)  # the server's side closes


def test_unusable_ca_file_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"ca_file .*missing\.pem: No such file"):
        AiohttpTransport(HttpSettings(ca_file=tmp_path / "missing.pem"))
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(StartError, match=r"ca_file .*empty\.pem: no certificates in it"):
        AiohttpTransport(HttpSettings(ca_file=empty))


def _aiohttp_errors(base: type[Exception]) -> set[type[Exception]]:
    return {base}.union(*(_aiohttp_errors(child) for child in base.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(_aiohttp_errors(aiohttp.ClientError), key=str))
def test_no_error_of_aiohttp_is_without_its_httpx_counterpart(kind: type[Exception]) -> None:
    error = kind.__new__(kind)
    error._os_error = OSError(111, SECRET)  # type: ignore[attr-defined]  # as the connector's errors hold it
    error._certificate_error = OSError(SECRET)  # type: ignore[attr-defined]  # likewise
    error.status = 502  # type: ignore[attr-defined]  # likewise
    error.args = (SECRET,)
    for proxied in (False, True):
        sending = sending_error(error, proxied=proxied)
        assert isinstance(sending, httpx.TransportError | httpx.InvalidURL)
        assert not isinstance(sending, httpx.LocalProtocolError)
        assert SECRET not in str(sending)
    assert SECRET not in str(reading_error(error))
