"""Access by the web config file: what changes in its files, and what a request meets."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import bcrypt
import pytest
from starlette.types import Receive, Scope, Send

from tests.support.certificates import Authority
from tests.support.clock import START, run_stepped
from tests.web.secured import ANNA, BERT, Answer, Served, basic, serving, trusting
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.web import access as access_module
from trainfleet_exporter.web.access import Bucket
from trainfleet_exporter.web.connection import PARTING_SECONDS
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.server import WebServer

Visit = Callable[[Served], Awaitable[None]]

ANNAS = basic("anna", "annas-secret")
BERTS = basic("bert", "berts-secret")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "web.yaml"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _remove(path: Path) -> None:
    path.unlink()


def _move(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def _visit(path: Path, visit: Visit) -> None:
    async def main() -> None:
        async with serving(path) as served:
            await visit(served)

    run_stepped(main)


async def _later(seconds: float = 1.5) -> None:
    await asyncio.sleep(seconds)


def test_a_file_that_says_nothing_lets_everybody_in(path: Path) -> None:
    async def visit(served: Served) -> None:
        answer = await served.get()
        assert (answer.status, answer.body, served.reached) == (200, "hi", ["http"])

    _write(path, "{}\n")
    _visit(path, visit)


def test_logins(path: Path) -> None:
    async def visit(served: Served) -> None:
        for headers in ([], [basic("anna", "wrong")], ["authorization: Bearer x"], [ANNAS, ANNAS]):
            for method in ("GET", "HEAD", "POST"):
                answer = await served.get(*headers, method=method)
                assert answer.status == 401
                assert answer.headers["www-authenticate"] == 'Basic realm="trainfleet-exporter", charset="UTF-8"'
                assert answer.headers["x-content-type-options"] == "nosniff"
        assert served.reached == []
        for headers in ([ANNAS], [BERTS]):
            assert (await served.get(*headers)).body == "hi"

    _write(path, f"basic_auth_users: {{anna: {ANNA}, bert: {BERT}}}\n")
    _visit(path, visit)


def test_headers_are_on_every_answer_and_win_over_those_of_pages(path: Path) -> None:
    async def visit(served: Served) -> None:
        for answer in (await served.get(), await served.get(ANNAS)):
            assert answer.headers["x-frame-options"] == "deny"
            assert answer.headers["strict-transport-security"] == "max-age=3600"
            assert "x-xss-protection" not in answer.headers

    _write(
        path,
        f"basic_auth_users: {{anna: {ANNA}}}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n"
        '    Strict-Transport-Security: max-age=3600\n    X-XSS-Protection: ""\n',
    )
    _visit(path, visit)


def test_a_changed_user_counts_a_second_later(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def visit(served: Served) -> None:
        assert [(await served.get(who)).status for who in (ANNAS, BERTS)] == [200, 401]
        _write(path, f"basic_auth_users: {{bert: {BERT}}}\n")
        await _later()
        assert [(await served.get(who)).status for who in (ANNAS, BERTS)] == [401, 200]
        changed = bcrypt.hashpw(b"new-secret", bcrypt.gensalt(4)).decode()
        _write(path, f"basic_auth_users: {{bert: {changed}}}\n")
        await _later()
        assert [(await served.get(who)).status for who in (BERTS, basic("bert", "new-secret"))] == [401, 200]

    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        _visit(path, visit)
    assert [record.getMessage() for record in caplog.records] == ["web config read again"] * 2


def test_invalid_web_config_denies_all_until_it_is_fixed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def visit(served: Served) -> None:
        assert (await served.get(ANNAS)).status == 200
        _write(path, "basic_auth_users: {anna: hunter2}\n")
        for _ in range(5):
            await _later()
            for headers in ([], [ANNAS]):
                answer = await served.get(*headers)
                assert (answer.status, answer.body) == (500, "The web config file is not usable; the log says why.\n")
        _remove(path)
        await _later()
        assert (await served.get(ANNAS)).status == 500
        _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
        await _later()
        assert (await served.get(ANNAS)).status == 200
        assert len(served.reached) == 2

    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        _visit(path, visit)
    reported = [record.getMessage() for record in caplog.records]
    assert [line.partition(f"{path}")[0] for line in reported] == [
        "web config not usable, every request is answered 500: ",
        "web config not usable, every request is answered 500: ",
        "web config read again",
    ]
    assert "hunter2" not in "".join(reported)


def test_the_very_same_file_put_back_opens_the_door_again(path: Path) -> None:
    async def visit(served: Served) -> None:
        assert (await served.get()).status == 200
        _move(path, "away")
        await _later()
        assert (await served.get()).status == 500
        _move(path.with_name("away"), path.name)  # which has no other time, size and inode than before
        await _later()
        assert (await served.get()).status == 200

    _write(path, "{}\n")
    _visit(path, visit)


def test_a_file_that_is_emptied_opens_no_door(path: Path) -> None:
    async def visit(served: Served) -> None:
        _write(path, "")
        await _later()
        assert (await served.get()).status == 500

    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    _visit(path, visit)


def test_between_two_looks_nothing_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = DaemonThreadExecutor.submit

    def submit(self: DaemonThreadExecutor, *args: object) -> object:
        looks.append(1)
        return real(self, *args)  # type: ignore[arg-type]  # whatever it was called with

    async def visit(served: Served) -> None:
        for _ in range(20):
            await served.get()
        assert len(looks) == 1
        await asyncio.sleep(3600)
        assert len(looks) == 1  # no request came
        await asyncio.gather(*(served.get() for _ in range(20)))
        assert len(looks) == 2

    _write(path, "{}\n")
    monkeypatch.setattr(DaemonThreadExecutor, "submit", submit)
    _visit(path, visit)


def _written(path: Path, text: str, after: float) -> None:
    """Write a file with the stepped clock's time, so many seconds after the start."""
    _write(path, text)
    os.utime(path, (START + after, START + after))


def test_a_file_that_is_still_being_written_is_not_taken(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def visit(served: Served) -> None:
        await asyncio.sleep(10)
        assert (await served.get(ANNAS)).status == 200
        for halves in range(4):  # none of which has the users yet, and none of which is sound but the first
            _written(path, "http_server_config: {}\n" + "basic_auth_users: {" * halves, 10 + halves * 1.5)
            await asyncio.sleep(1.5)
            assert [(await served.get(*who)).status for who in ([], [ANNAS])] == [401, 200]
        _written(path, f"http_server_config: {{}}\nbasic_auth_users: {{bert: {BERT}}}\n", 16)
        await asyncio.sleep(1.5)
        assert [(await served.get(*who)).status for who in ([], [ANNAS], [BERTS])] == [401, 200, 401]
        await asyncio.sleep(1.5)
        assert [(await served.get(*who)).status for who in ([], [ANNAS], [BERTS])] == [401, 401, 200]

    _written(path, f"basic_auth_users: {{anna: {ANNA}}}\n", 0)
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        _visit(path, visit)
    assert [record.getMessage() for record in caplog.records] == ["web config read again"]


def test_a_file_that_is_written_again_and_again_is_taken_at_last(path: Path) -> None:
    async def visit(served: Served) -> None:
        statuses = []
        for second in range(30):
            _written(path, f"basic_auth_users: {{bert: {BERT}}}\n", second * 1.1)
            statuses.append((await served.get(BERTS)).status)
            await asyncio.sleep(1.1)
        assert sorted(statuses, reverse=True) == statuses
        assert 5 < statuses.count(401) < 15

    _written(path, f"basic_auth_users: {{anna: {ANNA}}}\n", -60)
    _visit(path, visit)


def test_a_change_that_shows_in_no_time_and_no_size_is_seen(path: Path) -> None:
    """Because a file that was new when it was read is read again."""

    async def visit(served: Served) -> None:
        assert (await served.get(basic("user", "annas-secret"))).status == 200
        _written(path, f"basic_auth_users: {{user: {BERT}}}\n", 0)
        assert path.stat().st_size == size  # noqa: ASYNC240 - it is there
        await asyncio.sleep(2.5)
        assert (await served.get(basic("user", "annas-secret"))).status == 401
        assert (await served.get(basic("user", "berts-secret"))).status == 200

    _written(path, f"basic_auth_users: {{user: {ANNA}}}\n", 0)
    size = path.stat().st_size
    _visit(path, visit)


def test_a_hanging_file_system_delays_requests_only_briefly(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs, goes_on, real = threading.Event(), threading.Event(), access_module._stamps

    def hang(paths: object) -> object:
        hangs.set()
        goes_on.wait(30)
        return real(paths)  # type: ignore[arg-type]  # what it was called with

    async def visit(served: Served) -> None:
        loop = asyncio.get_running_loop()
        await served.get()
        await _later()
        monkeypatch.setattr(access_module, "_stamps", hang)
        began = loop.time()
        first = asyncio.create_task(served.get())
        await asyncio.to_thread(hangs.wait, 30)
        loop.thread_calls -= 1  # type: ignore[attr-defined]  # the stepped loop may jump while this thread hangs
        assert (await first).status == 200
        assert 1.9 < loop.time() - began < 2.2
        began = loop.time()
        assert (await served.get()).status == 200
        assert loop.time() - began < 0.1
        loop.thread_calls += 1  # type: ignore[attr-defined]
        goes_on.set()
        await _later()
        assert (await served.get()).status == 200

    _write(path, "{}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        _visit(path, visit)
    assert [record.getMessage() for record in caplog.records] == [
        "web config: its files cannot be looked at in time, what they said last stays in use"
    ]


def test_without_a_thread_what_the_file_said_last_stays_in_use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def visit(served: Served) -> None:
        assert (await served.get()).status == 200

    _write(path, "{}\n")
    monkeypatch.setattr(DaemonThreadExecutor, "submit", fail)
    _visit(path, visit)


def test_an_internal_error_keeps_the_old_config_and_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def visit(served: Served) -> None:
        monkeypatch.setattr(access_module, "_load", fail)
        _write(path, "basic_auth_users: {}\n")
        await _later()
        assert (await served.get()).status == 401

    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    _visit(path, visit)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "web config: what it said last stays in use, on a fault of the exporter's own"
    ]


def test_too_many_logins_of_one_address_are_answered_503(path: Path) -> None:
    async def visit(served: Served) -> None:
        answers = await asyncio.gather(*(served.get(basic("anna", f"guess{number}")) for number in range(60)))
        busy = [answer for answer in answers if answer.status == 503]
        assert {answer.status for answer in answers} == {401, 503}
        assert {answer.headers["retry-after"] for answer in busy} == {"1"}
        assert (await served.get(ANNAS)).status == 200

    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    _visit(path, visit)


def test_wrong_passwords_do_not_lock_out_other_addresses(path: Path) -> None:
    async def visit(served: Served) -> None:
        wrong = [
            asyncio.create_task(served.get(basic("anna", f"guess{number}"), origin=f"127.0.0.{2 + number % 8}"))
            for number in range(64)
        ]
        await asyncio.wait(wrong, return_when=asyncio.FIRST_COMPLETED)
        assert (await served.get(ANNAS)).status == 200
        assert sum(not task.done() for task in wrong) > 32  # it came in before most of them were answered
        assert {(await task).status for task in wrong} == {401}

    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    _visit(path, visit)


def test_the_config_in_use_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _write(path, f"basic_auth_users: {{anna: {ANNA}}}\nhttp_server_config: {{http2: true}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        access_module.Access(path).announce()
    (use, note) = caplog.records
    assert use.getMessage() == "web config in use"
    assert use.__dict__["fields"] == {"file": str(path), "tls": "no", "clients": "NoClientCert", "users": 1}
    assert note.getMessage().startswith("web config: http_server_config.http2: HTTP/2 is not spoken here")


def test_a_rate(path: Path) -> None:
    async def visit(served: Served) -> None:
        statuses = [(await served.get()).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        await asyncio.sleep(10)
        assert [(await served.get()).status for _ in range(2)] == [200, 429]
        _write(path, "rate_limit: {interval: 0, burst: 1}\n")
        await _later()
        assert [(await served.get()).status for _ in range(20)] == [200] * 20

    _write(path, "rate_limit: {interval: 10s, burst: 3}\n")
    _visit(path, visit)


def test_a_bucket_keeps_its_rate() -> None:
    bucket = Bucket(0.1, 2)
    taken = [number for number in range(1000) if bucket.take(number * 0.01)]
    assert len(taken) == 2 + 99  # two at once, and one for each 0.1 of 9.99 seconds
    assert all(Bucket(0.0, 1).take(0.0) for _ in range(1000))


class Site:
    """A web config file with TLS, and its authority."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "web.yaml"
        self.authority = Authority(folder)
        self.cert, self.key = self.authority.issue("server")
        self._next = self.authority.issue("next")  # now: OpenSSL's clock cannot be stepped
        self.write()

    def renew(self) -> None:
        """Put another certificate and its key in the place of those that are there."""
        for old, new in zip((self.cert, self.key), self._next, strict=True):
            old.write_bytes(new.read_bytes())

    def write(self, more: str = "") -> None:
        own = f"cert_file: {self.cert.name}, key_file: {self.key.name}"
        _write(self.path, f"tls_server_config: {{{own}{more}}}\n")

    def client(self) -> ssl.SSLContext:
        return trusting(self.authority.file)

    async def shown(self, served: Served) -> bytes | None:
        """The certificate that a new connection is shown."""
        _, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=self.client())
        try:
            found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        finally:
            writer.transport.abort()
        return found

    def expected(self) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text(encoding="utf-8"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_renewed_certificate_is_shown_a_second_later(site: Site) -> None:
    async def visit(served: Served) -> None:
        first = site.expected()
        assert await site.shown(served) == first
        site.renew()
        await _later()
        assert await site.shown(served) == site.expected() != first
        assert (await served.get(tls=site.client())).status == 200

    _visit(site.path, visit)


def test_a_renewal_half_way_keeps_the_certificate_before(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async def visit(served: Served) -> None:
        first = site.expected()
        key = site.key.read_bytes()
        site.renew()
        new_key = site.key.read_bytes()
        site.key.write_bytes(key)
        for _ in range(5):
            await _later()
            assert await site.shown(served) == first
            assert (await served.get(tls=site.client())).status == 200
        site.key.unlink()
        await _later()
        assert await site.shown(served) == first
        site.key.write_bytes(new_key)
        await _later()
        assert await site.shown(served) == site.expected() != first

    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        _visit(site.path, visit)
    reported = [record.getMessage().replace(str(site.path), "web.yaml") for record in caplog.records]
    before = (
        "web config not usable, the certificate before stays in use: web.yaml:1: tls_server_config.key_file: found a "
    )
    assert [line[: len(before)] for line in reported] == [before, before, "web config read again"]
    assert ["it does not belong to the certificate" in reported[0], "No such file" in reported[1]] == [True, True]


def test_users_change_while_a_renewal_is_half_way(site: Site) -> None:
    async def visit(served: Served) -> None:
        assert (await served.get(tls=site.client())).status == 200
        site.key.write_text("half", encoding="utf-8")
        with site.path.open("a", encoding="utf-8") as file:
            file.write(f"basic_auth_users: {{anna: {ANNA}}}\n")
        await _later()
        assert [(await served.get(*who, tls=site.client())).status for who in ([], [ANNAS])] == [401, 200]

    _visit(site.path, visit)


def test_other_authorities_of_clients_count_a_second_later(site: Site, tmp_path: Path) -> None:
    clients = Authority(tmp_path, "clients")
    pair = clients.issue("client", host="prometheus")
    others = Authority(tmp_path, "others")
    site.write(", client_auth_type: RequireAndVerifyClientCert, client_ca_file: clients.pem")

    async def visit(served: Served) -> None:
        client = trusting(site.authority.file, *pair)
        assert (await served.get(tls=client)).status == 200
        clients.file.write_bytes(others.file.read_bytes())
        site.key.write_text("half", encoding="utf-8")  # and a renewal amid that
        await _later()
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await served.get(tls=client)

    _visit(site.path, visit)


async def _status(served: Served, tls: ssl.SSLContext | None) -> Answer | None:
    try:
        return await served.get(tls=tls)
    except (ssl.SSLError, ConnectionError, EOFError):
        return None


def test_an_invalid_client_authority_refuses_every_request(site: Site, tmp_path: Path) -> None:
    site.write(", client_auth_type: RequireAndVerifyClientCert, client_ca_file: authority.pem")
    pair = site.authority.issue("client")

    async def visit(served: Served) -> None:
        client = trusting(site.authority.file, *pair)
        assert (await served.get(tls=client)).status == 200
        (tmp_path / "authority.pem").write_text("nothing", encoding="utf-8")
        await _later()
        assert (await served.get(tls=client)).status == 500

    _visit(site.path, visit)


def test_tls_is_switched_by_a_restart_only(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    async def off(served: Served) -> None:
        client = site.client()
        _write(site.path, "{}\n")
        await _later()
        assert (await served.get(tls=client)).status == 500
        assert await _status(served, None) is None
        site.write()
        await _later()
        assert (await served.get(tls=client)).status == 200

    async def on(served: Served) -> None:
        site.write()
        await _later()
        assert (await served.get()).status == 500
        assert await _status(served, site.client()) is None

    _visit(site.path, off)
    _write(site.path, "{}\n")
    _visit(site.path, on)
    reported = [record.getMessage() for record in caplog.records if record.name == access_module.__name__]
    assert all("tls_server_config: TLS is switched on and off by a restart only" in line for line in reported)
    assert len(reported) == 2


def test_a_large_page_arrives_whole_by_tls(site: Site) -> None:
    """And a client that takes no more of it holds up neither others nor the end."""
    pieces = [bytes([number]) * 1_000_000 for number in range(20)]

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"20000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def main() -> None:
        access = access_module.Access(site.path)
        server = WebServer(access_module.AccessControl(page, access), listen("127.0.0.1:0"), tls=access.context)
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        request = b"GET / HTTP/1.0\r\n\r\n"
        lazy, writer = await asyncio.open_connection("127.0.0.1", port, ssl=site.client())
        writer.write(request)
        await lazy.readexactly(1)
        reader, other = await asyncio.open_connection("127.0.0.1", port, ssl=site.client())
        other.write(request)
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        assert body == b"".join(pieces)
        began = asyncio.get_running_loop().time()
        await server.stop()
        assert asyncio.get_running_loop().time() - began < 3
        for each in (writer, other):
            each.transport.abort()

    run_stepped(main)


def test_a_last_answer_that_is_taken_slowly_arrives_whole_by_tls(site: Site) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"20000000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(20_000_000)})

    async def main() -> None:
        access = access_module.Access(site.path)
        server = WebServer(access_module.AccessControl(page, access), listen("127.0.0.1:0"), tls=access.context)
        await server.start()
        port = int(server.addresses[0].rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=site.client())
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(PARTING_SECONDS - 2)
        assert len(await reader.read(-1)) == 20_000_000
        await server.stop()
        writer.transport.abort()

    run_stepped(main)
