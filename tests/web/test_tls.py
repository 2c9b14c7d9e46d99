"""TLS as the web config file wants it: real handshakes with real certificates."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.logs import line_of
from tests.web.secured import later, serving, trusting, write
from trainfleet_exporter.web.tls import _CIPHERS
from trainfleet_exporter.web.web_config import read_web_config

REFUSED = (ssl.SSLError, ConnectionError, EOFError)


class Site:
    """A folder with an authority, a server's certificate, and the web config file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.authority.issue("server")
        self.path = folder / "web.yaml"
        self.write()

    def write(self, *lines: str) -> None:
        self.write_with("authority-server", *lines)

    def write_with(self, name: str, *lines: str) -> None:
        """The file with the certificate of this name and its key, and these lines of the section."""
        own = (f"cert_file: {name}.pem", f"key_file: {name}-key.pem")
        text = "\n".join(["tls_server_config:", *(f"  {line}" for line in (*own, *lines)), ""])
        write(self.path, text)

    def client(self, host: str, **faults: bool) -> ssl.SSLContext:
        """A client with a certificate for this name."""
        return trusting(self.authority.file, *self.authority.issue("client", host=host, **faults))

    def stranger(self, host: str = "stranger") -> ssl.SSLContext:
        """A client whose certificate is another authority's."""
        other = Authority(self.folder, "other")
        return trusting(self.authority.file, *other.issue("client", host=host))

    def without_certificate(self) -> ssl.SSLContext:
        """A client without a certificate."""
        return trusting(self.authority.file)

    async def let_in(self, *clients: ssl.SSLContext) -> list[bool]:
        """Which of these clients get an answer."""
        outcomes: list[bool] = []
        async with serving(self.path) as served:
            for client in clients:
                before = len(served.reached)
                try:
                    answer = await served.get(tls=client)
                except REFUSED:
                    assert len(served.reached) == before
                    outcomes.append(False)
                else:
                    assert (answer.status, answer.body) == (200, "hi")
                    outcomes.append(True)
        return outcomes


@pytest.fixture
def site(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Site]:
    """Anything unexpected, such as a task's end, fails the test."""
    yield Site(tmp_path)
    assert not [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]


async def test_it_is_served_by_tls_and_by_nothing_else(site: Site) -> None:
    async with serving(site.path) as served:
        assert (await served.get(tls=site.without_certificate())).body == "hi"
        with pytest.raises(REFUSED):
            await served.get()
        with pytest.raises(ssl.SSLCertVerificationError):
            await served.get(tls=ssl.create_default_context())
        assert served.reached == ["https"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("NoClientCert", [True, True, True, True]),
        ("RequestClientCert", [True, True, True, True]),
        ("VerifyClientCertIfGiven", [True, True, False, False]),
        ("RequireAndVerifyClientCert", [False, True, False, False]),
    ],
)
async def test_client_authentication_types(site: Site, kind: str, expected: list[bool]) -> None:
    authority = [] if expected[3] else ["client_ca_file: authority.pem"]
    site.write(f"client_auth_type: {kind}", *authority)
    clients = [
        site.without_certificate(),
        site.client("prometheus"),
        site.stranger(),
        site.client("prometheus", expired=True),
    ]
    assert await site.let_in(*clients) == expected


async def test_only_the_allowed_names_come_in(site: Site) -> None:
    site.write(
        "client_auth_type: RequireAndVerifyClientCert",
        "client_ca_file: authority.pem",
        "client_allowed_sans: [prometheus.test, 2001:DB8::1, 10.1.2.3, 'spiffe://x/ns/prom', ops@x.test]",
    )
    allowed = ["prometheus.test", "2001:db8:0::1", "10.1.2.3", "spiffe://x/ns/prom", "ops@x.test"]
    others = ["grafana.test", "x.prometheus.test", "2001:db8::2", "spiffe://x/ns/prom2", "root@x.test"]
    assert await site.let_in(*map(site.client, allowed)) == [True] * 5
    assert await site.let_in(*map(site.client, others)) == [False] * 5
    assert await site.let_in(site.stranger("prometheus.test"), site.without_certificate()) == [False, False]


def test_an_expired_certificate_cannot_resume_a_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.write("client_auth_type: RequireAndVerifyClientCert", "client_ca_file: authority.pem")
    server = read_web_config(site.path).context
    assert server is not None
    client = site.client("prometheus")
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    session = _agree(client, server, None)
    assert session is not None
    assert not session.has_ticket  # which would outlive the context
    assert _agree(client, server, session) == session
    later = time.time() + 2 * 86400  # the certificate is good for a day; OpenSSL does not look at it again
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        _agree(client, server, session)
    client.maximum_version = ssl.TLSVersion.TLSv1_3
    assert _agree(client, server, None) is None


def _agree(client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    """Agree on TLS, take leave, and return what may be taken up again; whatever goes wrong at the server is raised."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(up, down, server_side=True)
    theirs = client.wrap_bio(down, up, server_hostname="127.0.0.1", session=session)
    for step in ("do_handshake", "unwrap"):
        ends = [theirs, ours]
        while ends:
            end = ends.pop(0)
            try:
                getattr(end, step)()
            except ssl.SSLWantReadError:
                ends.append(end)
    kept = theirs.session
    return kept if kept is not None and (kept.has_ticket or kept.id) else None


async def test_a_refused_client_sees_an_alert_and_leaves_a_trace(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write(
        "client_auth_type: RequireAndVerifyClientCert", "client_ca_file: authority.pem", "client_allowed_sans: [x.test]"
    )
    alerts: list[str] = []
    clients = [site.without_certificate(), site.stranger("x.test"), site.client("x.test", expired=True)]
    clients.append(site.client("y.test"))
    async with serving(site.path) as served:
        for client in clients:
            try:
                await served.get(tls=client)
            except REFUSED as error:
                alerts.append(getattr(error, "reason", "") or type(error).__name__)
        with pytest.raises(REFUSED):
            await served.get()  # plain HTTP
        assert served.rejected == {"tls": 5}
        await asyncio.sleep(60)
        with pytest.raises(REFUSED):
            await served.get(tls=clients[0])
    assert alerts == [
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        "TLSV1_ALERT_UNKNOWN_CA",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "EOFError",  # the handshake was over: OpenSSL has no alert for that
    ]
    reported = [line_of(record) for record in caplog.records if record.levelno == logging.WARNING]
    begin = "refused TLS handshakes client=127.0.0.1 error="
    assert reported == [
        begin + '"SSLError: PEER_DID_NOT_RETURN_A_CERTIFICATE" count=1',
        begin + '"SSLError: PEER_DID_NOT_RETURN_A_CERTIFICATE" count=5',
    ]


async def test_a_client_that_only_connects_is_no_refusal(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(site.path) as served:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)  # such as a probe of Kubernetes
        writer.close()
        await asyncio.sleep(20)
        assert not served.rejected
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("lines", "oldest", "latest"),
    [
        ((), True, True),
        (("max_version: TLS12",), True, False),
        (("min_version: TLS13",), False, True),
        (("cipher_suites: [TLS_AES_128_GCM_SHA256]",), False, True),
    ],
)
async def test_versions(site: Site, lines: tuple[str, ...], oldest: bool, latest: bool) -> None:
    site.write(*lines)
    only_12, only_13, only_11 = site.without_certificate(), site.without_certificate(), site.without_certificate()
    only_12.maximum_version = ssl.TLSVersion.TLSv1_2
    only_13.minimum_version = ssl.TLSVersion.TLSv1_3
    only_11.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that it is deprecated is why it is tested
        only_11.minimum_version = ssl.TLSVersion.TLSv1
        only_11.maximum_version = ssl.TLSVersion.TLSv1_1
    assert await site.let_in(only_11, only_13) == [False, latest]
    assert await site.let_in(only_12) == [oldest]


@pytest.mark.parametrize("name", sorted(_CIPHERS))
async def test_every_suite_by_its_name(site: Site, name: str) -> None:
    site.write(f"cipher_suites: [{name}]", "max_version: TLS12")
    client = site.without_certificate()
    client.set_ciphers("ALL:@SECLEVEL=0")
    async with serving(site.path) as served:
        if "_RSA_" in name:  # the server's key is of an elliptic curve
            with pytest.raises(REFUSED):
                await asyncio.open_connection("127.0.0.1", served.port, ssl=client)
        else:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=client)
            assert writer.get_extra_info("cipher")[0] == _CIPHERS[name]
            writer.transport.abort()


async def test_a_handshake_ends_after_10_seconds(site: Site) -> None:
    async with serving(site.path) as served:
        loop = asyncio.get_running_loop()
        began = loop.time()
        silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(50)]
        assert (await served.get(tls=site.without_certificate())).body == "hi"
        assert loop.time() - began < 1
        for reader, writer in silent:
            assert await reader.read() == b""
            writer.close()
        assert 9 < loop.time() - began < 12


# Files that change. `test_promises` has a renewed certificate.


async def test_other_authorities_of_clients_count_a_second_later(site: Site) -> None:
    clients, others = Authority(site.folder, "clients"), Authority(site.folder, "others")
    client = trusting(site.authority.file, *clients.issue("client", host="prometheus"))
    site.write("client_auth_type: RequireAndVerifyClientCert", "client_ca_file: clients.pem")
    async with serving(site.path) as served:
        assert (await served.get(tls=client)).status == 200
        others.file.replace(clients.file)
        await later()
        with pytest.raises(REFUSED):
            await served.get(tls=client)


@pytest.mark.parametrize("is_on", [True, False])
async def test_tls_is_switched_by_a_restart_only(tmp_path: Path, is_on: bool, caplog: pytest.LogCaptureFixture) -> None:
    site = Site(tmp_path)
    tls = site.without_certificate()
    if not is_on:
        write(site.path, "{}\n")
    async with serving(site.path) as served:
        site.write() if not is_on else write(site.path, "{}\n")
        await later()
        assert (await served.get(tls=tls if is_on else None)).status == 200
        with pytest.raises(REFUSED):
            await served.get(tls=None if is_on else tls)
    reported = [line_of(record) for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(reported) == 1
    assert "tls_server_config: only a restart switches TLS on or off" in reported[0]
