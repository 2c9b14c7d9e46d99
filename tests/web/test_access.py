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
from tests.web.secured import ANNA, ANNAS, BERT, basic, later, serving, write
from trainfleet_exporter.errors import ConfigError
from trainfleet_exporter.web import access as access_module
from trainfleet_exporter.web.access import Access


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "web.yaml"


BERTS = basic("bert", "berts-secret")


def _remove(path: Path) -> None:
    path.unlink()


async def test_logins(path: Path) -> None:
    odd = ["Basic", "Basic YW5uYQ==", "Basic YTpi!", "Basic YTpiYw", "Basic \xff\xfe", "Bearer YTpi", "YTpi", ""]
    write(path, f"basic_auth_users: {{anna: {ANNA}, bert: {BERT}}}\n")
    async with serving(path) as served:
        for headers in ([], [ANNAS, ANNAS], *([f"authorization: {text}"] for text in odd)):
            for method in ("GET", "HEAD", "POST"):
                answer = await served.get(*headers, method=method)
                assert answer.status == 401
                assert answer.headers["www-authenticate"] == 'Basic realm="trainfleet-exporter", charset="UTF-8"'
                assert answer.headers["x-content-type-options"] == "nosniff"
        assert served.reached == []
        for headers in ([ANNAS], [BERTS]):
            assert (await served.get(*headers)).body == "hi"


async def test_headers_are_on_every_answer_and_win_over_those_of_pages(path: Path) -> None:
    write(
        path,
        f"basic_auth_users: {{anna: {ANNA}}}\nhttp_server_config:\n  headers:\n    X-Frame-Options: deny\n"
        '    Strict-Transport-Security: max-age=3600\n    X-XSS-Protection: ""\n',
    )
    async with serving(path) as served:
        for answer in (await served.get(), await served.get(ANNAS)):
            assert answer.headers["x-frame-options"] == "deny"
            assert answer.headers["strict-transport-security"] == "max-age=3600"
            assert "x-xss-protection" not in answer.headers


async def test_a_changed_user_counts_a_second_later(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        async with serving(path) as served:
            assert [(await served.get(who)).status for who in (ANNAS, BERTS)] == [200, 401]
            write(path, f"basic_auth_users: {{bert: {BERT}}}\n")
            await later()
            assert [(await served.get(who)).status for who in (ANNAS, BERTS)] == [401, 200]
            changed = bcrypt.hashpw(b"new-secret", bcrypt.gensalt(4)).decode()
            write(path, f"basic_auth_users: {{bert: {changed}}}\n")
            await later()
            assert [(await served.get(who)).status for who in (BERTS, basic("bert", "new-secret"))] == [401, 200]
    assert [record.getMessage() for record in caplog.records] == ["web config reloaded"] * 2


async def test_an_invalid_change_keeps_the_old_config(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        async with serving(path) as served:
            for text in ("basic_auth_users: {anna: hunter2}\n", "", "basic_auth_users: [\n", None):
                _remove(path) if text is None else write(path, text)
                for _ in range(3):
                    await later()
                    assert [(await served.get(*who)).status for who in ([], [ANNAS], [BERTS])] == [401, 200, 401]
            write(path, f"basic_auth_users: {{bert: {BERT}}}\n")
            await later()
            assert [(await served.get(*who)).status for who in ([], [ANNAS], [BERTS])] == [401, 401, 200]
    reported = lines_of(caplog.records, logging.INFO)
    begin = "web config invalid; the old one stays in use error="
    assert [line.partition('"')[0] for line in reported[:4]] == [begin] * 4  # each once
    assert reported[4].startswith("web config reloaded file=")
    assert len(reported) == 5
    assert "hunter2" not in "".join(reported)


async def test_a_file_that_is_still_being_written_is_not_taken(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n", START)
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        async with serving(path) as served:
            await asyncio.sleep(10)
            assert (await served.get(ANNAS)).status == 200
            for halves in range(4):  # none of which has the users yet, and none of which is sound but the first
                write(path, "http_server_config: {}\n" + "basic_auth_users: {" * halves, START + 10 + halves * 1.5)
                await asyncio.sleep(1.5)
                assert [(await served.get(*who)).status for who in ([], [ANNAS])] == [401, 200]
            write(path, f"http_server_config: {{}}\nbasic_auth_users: {{bert: {BERT}}}\n", START + 16)
            await asyncio.sleep(1.5)
            assert [(await served.get(*who)).status for who in ([], [ANNAS], [BERTS])] == [401, 200, 401]
            await asyncio.sleep(2.5)
            assert [(await served.get(*who)).status for who in ([], [ANNAS], [BERTS])] == [401, 401, 200]
    assert [record.getMessage() for record in caplog.records] == ["web config reloaded"]


async def test_a_hanging_file_delays_no_request(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on, real = threading.Event(), access_module._stamps
    write(path, "{}\n")
    with caplog.at_level(logging.INFO, "trainfleet_exporter"):
        async with serving(path) as served:
            loop = asyncio.get_running_loop()

            def hang(paths: object) -> object:
                loop.thread_calls -= 1  # type: ignore[attr-defined]  # the stepped loop may jump while this thread hangs
                goes_on.wait(30)
                loop.thread_calls += 1  # type: ignore[attr-defined]
                return real(paths)  # type: ignore[arg-type]  # what it was called with

            monkeypatch.setattr(access_module, "_stamps", hang)
            await asyncio.sleep(60)
            began = loop.time()
            assert (await served.get()).status == 200
            assert loop.time() - began < 0.1
            monkeypatch.setattr(access_module, "_stamps", real)
            goes_on.set()
            await later()
            assert (await served.get()).status == 200
    assert [record.getMessage() for record in caplog.records] == [
        "cannot read the web config in time; the old one stays in use"
    ]


@pytest.mark.parametrize("text", [None, "tls_server_config: {cert_file: pipe, key_file: pipe}\n"])
def test_a_pipe_is_no_file(path: Path, text: str | None) -> None:
    os.mkfifo(path.with_name("pipe"))
    if text is not None:
        write(path, text)
    with pytest.raises(ConfigError, match="it is not a regular file"):
        Access(path if text else path.with_name("pipe"))


async def test_too_many_logins_at_once_are_answered_503(path: Path) -> None:
    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    async with serving(path) as served:
        answers = await asyncio.gather(*(served.get(basic("anna", f"guess{number}")) for number in range(200)))
        busy = [answer for answer in answers if answer.status == 503]
        assert {answer.status for answer in answers} == {401, 503}
        assert {answer.headers["retry-after"] for answer in busy} == {"1"}
        assert (await served.get(ANNAS)).status == 200
        assert served.rejected == {"unauthorized": 200 - len(busy), "busy": len(busy)}


@pytest.mark.parametrize("kind", ["$2a$", "$2b$", "$2y$"])
@pytest.mark.parametrize(
    ("user", "password", "status"),
    [
        ("anna", "annas-secret", 200),
        ("anna", "annas-secret\0", 401),
        ("anna", "", 401),
        ("Anna", "annas-secret", 401),
        ("carl", "annas-secret", 401),
        ("\xff", "annas-secret", 401),
        ("long", "x" * 72, 200),
        ("long", "x" * 100, 200),  # bcrypt reads 72 bytes, as in the official exporters
        ("long", "x" * 71, 401),
    ],
)
async def test_which_logins_are_admitted(path: Path, kind: str, user: str, password: str, status: int) -> None:
    long = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    write(path, f"basic_auth_users:\n  anna: {kind}{ANNA[4:]}\n  long: {kind}{long[4:]}\n")
    async with serving(path) as served:
        for _ in range(2):  # by bcrypt, then as a user who was verified before
            assert (await served.get(basic(user, password))).status == status


async def test_a_password_is_checked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[bytes] = []
    real = bcrypt.checkpw

    def check(password: bytes, hashed: bytes) -> bool:
        checks.append(password)
        return real(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    write(path, f"basic_auth_users: {{anna: {ANNA}}}\n")
    async with serving(path) as served:
        answers = await asyncio.gather(*(served.get(ANNAS) for _ in range(30)))
        assert {answer.status for answer in answers} == {200}
        assert checks == [b"annas-secret"]
        assert (await served.get(basic("carl", "guess"))).status == 401
        assert checks == [b"annas-secret", b"guess"]  # a refusal of an unknown user takes equally long


async def test_a_rate(path: Path) -> None:
    write(path, "rate_limit: {interval: 10s, burst: 3}\n")
    async with serving(path) as served:
        statuses = [(await served.get()).status for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        await asyncio.sleep(10)
        assert [(await served.get()).status for _ in range(2)] == [200, 429]
        write(path, "rate_limit: {interval: 0, burst: 1}\n")
        await later()
        assert [(await served.get()).status for _ in range(20)] == [200] * 20
