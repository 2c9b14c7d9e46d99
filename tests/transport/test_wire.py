"""What goes on the wire, byte for byte, and by which way."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress

import pytest
import yarl

from tests.transport.rig import JSON_OK, Rig, Serve, answering, http, raw_server, resetting
from trainfleet_exporter.errors import RequestRefused
from trainfleet_exporter.transport.calls import HttpSettings
from trainfleet_exporter.transport.proxies import UnusableProxy, proxy_for

TARGETS = [
    "/api/v1/jobs?Name=a%2Fb~c%2Ad%20e&Order=asc",
    "/api/v1/jobs/dlc%2F1%252F",
    "/a/../b/./c?x=%7E&y=",
    "/a?x=%2b&x=%2B",
    "/a?q=it's!(1)*",
    "//double",
]


@pytest.mark.parametrize("target", TARGETS)
def test_the_signed_target_is_sent_byte_for_byte(target: str) -> None:
    async def main() -> bytes:
        async with raw_server(JSON_OK) as server, Rig(base_url=f"http://{server.address}") as rig:
            rig.dialect.target = target
            await rig.call()
            return server.heads[0]

    assert asyncio.run(main()).split(b"\r\n")[0] == f"GET {target} HTTP/1.1".encode()


@pytest.mark.parametrize("target", ["/ü", "/a\r\nX: y", "/a\tb", "/a\x7f"])
async def test_a_target_that_http_cannot_write_is_not_sent(target: str) -> None:
    async with raw_server(JSON_OK) as server, Rig(base_url=f"http://{server.address}") as rig:
        rig.dialect.target = target
        error = await rig.failure()
        assert isinstance(error, RequestRefused)
        assert error.message == f"{server.address}: the request cannot be written as HTTP"
        assert server.heads == []


async def test_connections_are_kept_and_cookies_are_not() -> None:
    answer = http(b"{}", "Set-Cookie: session=1; Path=/")
    async with raw_server(answer) as server, Rig(base_url=f"http://{server.address}") as rig:
        await rig.call()
        await rig.call()
        assert server.connections == 1
        assert len(server.heads) == 2
        assert b"cookie" not in server.heads[1].lower()


def _once(then: Serve) -> Serve:
    """Answer one request of each connection, and end the connection `then` at the second."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(JSON_OK)
        with suppress(asyncio.IncompleteReadError):  # the client closed it first
            await reader.readuntil(b"\r\n\r\n")
            await then(reader, writer)

    return serve


HALF_A_HEAD = b"HTTP/1.1 200 OK\r\nContent-Le"


@pytest.mark.parametrize("end", [answering(b""), resetting(), answering(HALF_A_HEAD), resetting(HALF_A_HEAD)])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_call_on_a_closed_connection_is_repeated_and_counted(method: str, end: Serve) -> None:
    async with raw_server(_once(end)) as server, Rig(base_url=f"http://{server.address}") as rig:
        await rig.call(method=method)
        assert await rig.call(method=method) == {"Jobs": []}
        assert rig.outcomes == ["ok", "network", "ok"]  # each attempt is billed
        assert (server.connections, len(set(rig.dialect.signed))) == (2, 3)


async def test_configured_proxy_gets_full_address_and_credentials() -> None:
    async with raw_server(JSON_OK) as proxy:
        settings = HttpSettings(proxy_url=f"http://me:pass%2Fword@{proxy.address}")
        async with Rig(base_url="http://api.test:8080", http=settings) as rig:
            rig.dialect.target = "/jobs?a=%2F~"
            assert await rig.call() == {"Jobs": []}
        head = proxy.heads[0]
        assert head.startswith(b"GET http://api.test:8080/jobs?a=%2F~ HTTP/1.1\r\n")
        credentials = base64.b64encode(b"me:pass/word").decode()
        assert f"proxy-authorization: basic {credentials}".lower().encode() in head.lower()
        assert b"host: api.test:8080\r\n" in head.lower()


async def test_a_proxy_that_refuses_the_tunnel() -> None:
    async with raw_server(http(b"SECRET", status="407 Proxy Authentication Required")) as proxy:
        settings = HttpSettings(proxy_url=f"http://me:SECRET@{proxy.address}")
        async with Rig(base_url="https://api.test", http=settings) as rig:
            error = await rig.failure()
        assert proxy.heads[0].startswith(b"CONNECT api.test:443 HTTP/1.1\r\n")
        assert b"signature" not in proxy.heads[0]
        assert str(error) == "ListJobs: api.test: the proxy answered HTTP 407"
        assert set(rig.outcomes) == {"network"}


async def test_a_proxy_that_is_not_there() -> None:
    async with raw_server(b"") as gone:
        pass
    settings = HttpSettings(proxy_url=f"http://me:SECRET@{gone.address}")
    async with Rig(base_url="http://api.test", http=settings) as rig:
        assert str(await rig.failure()) == "ListJobs: api.test: proxy: connection refused"
    async with Rig(http=HttpSettings(proxy_url="socks5://me:SECRET@127.0.0.1:1080")) as rig:
        error = await rig.failure()
    assert error.message == "api.test: the proxy's address is not http or https"


def _way(url: str, **settings: str | bool) -> str | None:
    proxy = proxy_for(yarl.URL(url), HttpSettings(**settings))  # type: ignore[arg-type]  # either kind of setting
    return None if proxy is None else str(proxy)


def test_the_environment_chooses_a_proxy_by_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://secure.test:3128")
    monkeypatch.setenv("all_proxy", "rest.test:3128")
    monkeypatch.setenv("no_proxy", "direct.test,.inner.test,ported.test:8443")
    assert _way("https://api.test") == "http://secure.test:3128"
    assert _way("http://api.test") == "http://rest.test:3128"
    assert _way("https://direct.test") is None
    assert _way("https://deep.inner.test") is None
    assert _way("https://ported.test:8443") is None
    assert _way("https://ported.test") == "http://secure.test:3128"
    assert _way("https://api.test", trust_env=False) is None
    assert _way("https://direct.test", proxy_url="http://mine.test:1") == "http://mine.test:1"


@pytest.mark.parametrize(
    ("exempt", "direct", "proxied"),
    [
        ("10.0.0.0/8", ["10.1.2.3"], ["11.1.2.3", "x10.1.2.3", "[::a01:203]"]),
        ("10.1.2.3/8", ["10.200.0.1"], ["11.0.0.1"]),
        ("192.168.1.5", ["192.168.1.5"], ["192.168.1.50", "192.168.1.5.test"]),
        ("fd00::1", ["[fd00::1]", "[fd00:0:0::1]"], ["[fd00::2]"]),
        ("[fd00::1]", ["[fd00::1]"], ["[fd00::10]"]),
        ("fd00::/8", ["[fdff::1]"], ["[fe00::1]", "253.0.0.1"]),
        ("[fd00::1]:8443", ["[fd00::1]:8443"], ["[fd00::1]"]),
        ("10.0.0.1:8443", ["10.0.0.1:8443"], ["10.0.0.1"]),
        ("*.aliyuncs.com", ["dlc.aliyuncs.com", "aliyuncs.com"], ["xaliyuncs.com", "aliyuncs.com.test"]),
        (".aliyuncs.com", ["dlc.aliyuncs.com", "aliyuncs.com"], ["xaliyuncs.com"]),
        ("aliyuncs.com.", ["dlc.aliyuncs.com", "DLC.ALIYUNCS.COM.", "aliyuncs.com"], ["aliyuncs.co"]),
        ("Aliyuncs.com:443", ["dlc.aliyuncs.com"], ["dlc.aliyuncs.com:8443"]),
        ("a.test b.test,c.test", ["a.test", "b.test", "c.test"], ["d.test"]),
        ("*", ["api.test", "10.0.0.1", "[fd00::1]"], []),
        ("*:8443", ["api.test:8443"], ["api.test"]),
        (",, .,*., socks5://not an address, 10.0.0.0/99,[", [], ["api.test", "10.0.0.1", "[fd00::1]"]),
    ],
)
@pytest.mark.parametrize("variable", ["no_proxy", "NO_PROXY"])
def test_hosts_in_no_proxy_are_reached_directly(
    exempt: str, direct: list[str], proxied: list[str], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    monkeypatch.setenv(variable, exempt)
    assert [host for host in direct if _way(f"https://{host}") is not None] == []
    assert [host for host in proxied if _way(f"https://{host}") is None] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_the_environments_proxy_is_never_asked_for_this_machine(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.test:3128")
    assert _way(f"http://{host}:8080/") is None
    assert _way("http://[2001:db8::1]:8080/") == "http://proxy.test:3128"


@pytest.mark.parametrize("proxy", ["socks5://user:SECRET@proxy.test", "http://SECRET:port", "http:///SECRET"])
def test_a_proxy_of_another_kind_is_refused_and_not_passed_by(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", proxy)
    with pytest.raises(UnusableProxy) as caught:
        _way("https://api.test")
    assert "SECRET" not in str(caught.value)
