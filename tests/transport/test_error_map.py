"""What the network does, and the httpx error that it becomes: over real sockets, in stepped time."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
from pathlib import Path

import aiohttp
import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.clock import run_stepped
from tests.transport.rig import JSON_OK, Serve, answering, hanging, http, raw_server, resetting
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.transport.aiohttp_errors import reading_error, sending_error
from trainfleet_exporter.transport.aiohttp_transport import AiohttpTransport
from trainfleet_exporter.transport.calls import HttpSettings

SECRET = "SECRET"
SETTINGS = HttpSettings(connect_timeout=3, request_timeout=5, trust_env=False)


async def _fetch(url: str, settings: HttpSettings = SETTINGS, **headers: str) -> bytes:
    transport = AiohttpTransport(settings)
    try:
        request = httpx.Request("GET", url, headers=headers)
        response = await transport.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        try:
            return b"".join([chunk async for chunk in response.stream])
        finally:
            await response.aclose()
    finally:
        await transport.aclose()


def _error(serve: Serve | bytes, tls: ssl.SSLContext | None = None) -> Exception:
    async def main() -> Exception:
        async with raw_server(serve, tls) as server:
            scheme = "https" if tls else "http"
            with pytest.raises(Exception) as caught:  # noqa: PT011  # which one it is, is the test
                await _fetch(f"{scheme}://{server.address}/jobs?Signature={SECRET}")
            return caught.value

    error = run_stepped(main)
    assert SECRET not in str(error)
    assert error.__suppress_context__, "a logged traceback would show the text of the cause"
    return error


def _is(error: Exception, kind: type[Exception], text: str) -> None:
    assert (type(error), str(error)) == (kind, text)


def test_connection_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(httpx.ConnectError, match=r"^connection refused$"):
        asyncio.run(_fetch(f"http://127.0.0.1:{port}/"))


def test_a_name_that_does_not_resolve() -> None:
    async def main() -> None:
        async def unresolved(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        asyncio.get_running_loop().getaddrinfo = unresolved  # type: ignore[method-assign,assignment]  # no real DNS
        with pytest.raises(httpx.ConnectError, match=r"^name not resolved$"):
            await _fetch("http://nowhere.invalid/")

    run_stepped(main)


def test_a_resolver_that_hangs_is_within_the_connect_timeout() -> None:
    async def main() -> None:
        async def hang(*_: object, **__: object) -> None:
            await asyncio.sleep(3600)

        asyncio.get_running_loop().getaddrinfo = hang  # type: ignore[method-assign,assignment]  # no real DNS
        with pytest.raises(httpx.ConnectTimeout, match=r"^no connection in time$"):
            await _fetch("http://slow.invalid/")

    run_stepped(main)


def test_a_handshake_that_hangs_is_a_connect_timeout() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(httpx.ConnectTimeout):
            await _fetch(f"https://127.0.0.1:{deaf.getsockname()[1]}/")

    run_stepped(main)


def test_closed_before_an_answer() -> None:
    _is(
        _error(answering(b"")),
        httpx.RemoteProtocolError,
        "the other side closed the connection before an answer came",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
)
def test_closed_in_the_middle_of_the_body(data: bytes) -> None:
    error = _error(answering(data))
    assert isinstance(error, httpx.RemoteProtocolError)
    assert "cut off" in str(error)


def test_reset_before_an_answer() -> None:
    _is(_error(resetting()), httpx.ReadError, "connection reset before an answer came")


def test_reset_in_the_middle_of_the_body() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    _is(_error(resetting(data)), httpx.ReadError, "connection reset in the middle of the answer")


def test_silence_before_the_answer() -> None:
    _is(_error(hanging()), httpx.ReadTimeout, "silence before an answer came")


def test_silence_in_the_middle_of_the_body() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    _is(_error(hanging(data)), httpx.ReadTimeout, "silence in the middle of the answer")


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6 " + SECRET.encode() + b"\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + SECRET.encode() + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-" + b"a" * 70_000 + b": b\r\n\r\n",
    ],
)
def test_what_is_not_http(data: bytes) -> None:
    _is(_error(answering(data)), httpx.RemoteProtocolError, "the answer is not valid HTTP")


def test_a_broken_chunk() -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n" + SECRET.encode() + b"\r\n"
    assert isinstance(_error(hanging(data)), httpx.RemoteProtocolError)


def test_plain_http_where_tls_is_expected() -> None:
    async def speak_first(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(http(b"{}"))
        await writer.drain()
        writer.close()

    async def main() -> None:
        listener = await asyncio.start_server(speak_first, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            with pytest.raises(httpx.ConnectError, match=r"^TLS handshake failed: "):
                await _fetch(f"https://127.0.0.1:{port}/")
            await asyncio.sleep(0.01)  # the server's side closes

    run_stepped(main)


class _Authority:
    """A self-signed certificate for 127.0.0.1, as a file and as a server's context."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pem = folder / "key.pem"
        pem.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, pem)


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    error = _error(JSON_OK, _Authority(tmp_path).context)
    _is(error, httpx.ConnectError, "certificate not trusted: self-signed certificate")


def test_ca_file_certificate_is_trusted_for_its_name_only(tmp_path: Path) -> None:
    authority = _Authority(tmp_path)
    settings = HttpSettings(ca_file=authority.certificate, trust_env=False)

    async def main() -> None:
        async with raw_server(JSON_OK, authority.context) as server:
            assert await _fetch(f"https://{server.address}/", settings) == b'{"Jobs":[]}'
            port = server.address.rpartition(":")[2]
            with pytest.raises(httpx.ConnectError, match=r"^certificate not trusted: Hostname mismatch"):
                await _fetch(f"https://localhost:{port}/", settings)

    run_stepped(main)


def test_unusable_ca_file_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"ca_file .*missing\.pem: No such file"):
        AiohttpTransport(HttpSettings(ca_file=tmp_path / "missing.pem"))
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(StartError, match=r"ca_file .*empty\.pem: no certificates in it"):
        AiohttpTransport(HttpSettings(ca_file=empty))


def test_a_header_that_would_break_the_request_is_our_fault() -> None:
    async def main() -> None:
        async with raw_server(JSON_OK) as server:
            with pytest.raises(httpx.LocalProtocolError) as caught:
                await _fetch(f"http://{server.address}/", authorization=f"{SECRET}\r\nX: y")
            assert SECRET not in str(caught.value)
            assert server.heads == []

    run_stepped(main)


def test_a_closed_transport_is_used_no_more() -> None:
    async def main() -> None:
        transport = AiohttpTransport(HttpSettings())
        await transport.aclose()
        with pytest.raises(httpx.ReadError, match="closed"):
            await transport.handle_async_request(httpx.Request("GET", "http://127.0.0.1/"))

    run_stepped(main)


def test_requests_under_way_end_when_the_transport_is_closed() -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def hang(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
            asked.set()
            await asyncio.sleep(3600)

        async with raw_server(hang) as server:
            transport = AiohttpTransport(HttpSettings(trust_env=False))
            request = httpx.Request("GET", f"http://{server.address}/")
            task = asyncio.create_task(transport.handle_async_request(request))
            await asyncio.wait_for(asked.wait(), 5)
            await transport.aclose()
            with pytest.raises(httpx.TransportError):
                await task

    run_stepped(main)


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
