"""Access by the web config file: what changes in its files, and what a request meets."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path

import bcrypt
import pytest

from tests.support.clock import START
from tests.support.logs import lines_of
from tests.web.secured import (
    ANNA,
    ANNAS,
    BERT,
    Served,
    basic,
    later,
    serve,
    write,
)
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.web import access as access_module
from trainfleet_exporter.web.access import Bucket


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "web.yaml"


BERTS = basic("bert", "berts-secret")


def _remove(path: Path) -> None:
    path.unlink()


def _move(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def test_a_file_that_says_nothing_lets_everybody_in(path: Path) -> None:
    async def visit(served: Served) -> None:
        answer = await served.get()
        assert (answer.status, answer.body, served.reached) == (200, "hi", ["http"])

    write(path, "{}\n")
    serve(path, visit)


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

    write(path, f"basic_auth_users: {{anna: {ANNA}, bert: {BERT}}}\n")
    serve(path, visit)


def test_headers_are_on_every_answer_and_win_over_those_of_pages(path: Path) -> None:
    async def visit(served: Served) -> None:
        for answer in (await served.get(), await served.get(ANNAS)):
            assert answer.headers["x-frame-options"] == "deny"
            assert answer.headers["strict-transport-security"] == "max-age=3600"
            assert "x-xss-protection" not in answer.headers

    write(
        path,
        f"basic_auth_users: {{anna: {ANNA}}}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n"
        '    Strict-Transport-Security: max-age=3600\n    X-XSS-Protection: ""\n',
    )
    serve(path, visit)


def test_a_changed_user_counts_a_second_later(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def visit(served: Served) -> None:
        assert [(await served.get(who)).status for who in (ANNAS, BERTS)] == [200, 401]
        write(path, f"basic_auth_users: {{bert: {BERT}}}\n")
        await later()
        assert [(await served.get(who)).status for who in (ANNAS, BERTS)] == [401, 200]
        changed = bcrypt.hashpw(b"new-secret", bcrypt.gensalt(4)).decode()
        write(path, f"basic_auth_users: {{bert: {changed}}}\n")
        await later()
        assert [(await served.get(who)).status for who in (BERTS, basic("bert", "new-secret"))] == [401, 200]

    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        serve(path, visit)
    assert [record.getMessage() for record in caplog.records] == ["web config reloaded"] * 2


def test_invalid_web_config_denies_all_until_it_is_fixed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def visit(served: Served) -> None:
        assert (await served.get(ANNAS)).status == 200
        write(path, "basic_auth_users: {anna: hunter2}\n")
        for _ in range(5):
            await later()
            for headers in ([], [ANNAS]):
                answer = await served.get(*headers)
                assert (answer.status, answer.body) == (500, "The web config file is not usable; the log says why.\n")
        _remove(path)
        await later()
        assert (await served.get(ANNAS)).status == 500
        write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
        await later()
        assert (await served.get(ANNAS)).status == 200
        assert len(served.reached) == 2

    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        serve(path, visit)
    reported = lines_of(caplog.records, logging.INFO)
    assert [line.partition(f"{path}")[0] for line in reported] == [
        'web config invalid effect="every request gets a 500" error="',
        'web config invalid effect="every request gets a 500" error="',
        "web config reloaded file=",
    ]
    assert "hunter2" not in "".join(reported)


def test_the_very_same_file_put_back_opens_the_door_again(path: Path) -> None:
    async def visit(served: Served) -> None:
        assert (await served.get()).status == 200
        _move(path, "away")
        await later()
        assert (await served.get()).status == 500
        _move(path.with_name("away"), path.name)  # which has no other time, size and inode than before
        await later()
        assert (await served.get()).status == 200

    write(path, "{}\n")
    serve(path, visit)


def test_a_file_that_is_emptied_opens_no_door(path: Path) -> None:
    async def visit(served: Served) -> None:
        write(path, "")
        await later()
        assert (await served.get()).status == 500

    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    serve(path, visit)


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

    write(path, "{}\n")
    monkeypatch.setattr(DaemonThreadExecutor, "submit", submit)
    serve(path, visit)


def _written(path: Path, text: str, after: float) -> None:
    """Write a file with the stepped clock's time, so many seconds after the start."""
    write(path, text)
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
        serve(path, visit)
    assert [record.getMessage() for record in caplog.records] == ["web config reloaded"]


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
    serve(path, visit)


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
    serve(path, visit)


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
        await later()
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
        await later()
        assert (await served.get()).status == 200

    write(path, "{}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        serve(path, visit)
    assert [record.getMessage() for record in caplog.records] == [
        "cannot read the web config in time; the old one stays in use"
    ]


def test_without_a_thread_what_the_file_said_last_stays_in_use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def visit(served: Served) -> None:
        assert (await served.get()).status == 200

    write(path, "{}\n")
    monkeypatch.setattr(DaemonThreadExecutor, "submit", fail)
    serve(path, visit)


def test_an_internal_error_keeps_the_old_config_and_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def visit(served: Served) -> None:
        monkeypatch.setattr(access_module, "_load", fail)
        write(path, "basic_auth_users: {}\n")
        await later()
        assert (await served.get()).status == 401

    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    serve(path, visit)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "checking the web config failed: internal error; the old one stays in use"
    ]


def test_too_many_logins_of_one_address_are_answered_503(path: Path) -> None:
    async def visit(served: Served) -> None:
        answers = await asyncio.gather(*(served.get(basic("anna", f"guess{number}")) for number in range(60)))
        busy = [answer for answer in answers if answer.status == 503]
        assert {answer.status for answer in answers} == {401, 503}
        assert {answer.headers["retry-after"] for answer in busy} == {"1"}
        assert (await served.get(ANNAS)).status == 200

    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    serve(path, visit)


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

    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    serve(path, visit)


def test_the_config_in_use_is_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, f"basic_auth_users: {{anna: {ANNA}}}\nhttp_server_config: {{http2: true}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        access_module.Access(path).announce()
    (use, note) = caplog.records
    assert use.getMessage() == "web config in use"
    assert use.__dict__["fields"] == {"file": str(path), "tls": "no", "clients": "NoClientCert", "users": 1}
    assert note.getMessage() == "web config setting has no effect"
    assert note.__dict__["fields"]["setting"].startswith("http_server_config.http2: HTTP/2 is not supported")


def test_a_rate(path: Path) -> None:
    async def visit(served: Served) -> None:
        statuses = [(await served.get()).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        await asyncio.sleep(10)
        assert [(await served.get()).status for _ in range(2)] == [200, 429]
        write(path, "rate_limit: {interval: 0, burst: 1}\n")
        await later()
        assert [(await served.get()).status for _ in range(20)] == [200] * 20

    write(path, "rate_limit: {interval: 10s, burst: 3}\n")
    serve(path, visit)


def test_a_bucket_keeps_its_rate() -> None:
    bucket = Bucket(0.1, 2)
    taken = [number for number in range(1000) if bucket.take(number * 0.01)]
    assert len(taken) == 2 + 99  # two at once, and one for each 0.1 of 9.99 seconds
    assert all(Bucket(0.0, 1).take(0.0) for _ in range(1000))
