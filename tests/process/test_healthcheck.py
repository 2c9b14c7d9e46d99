"""`healthcheck`: what counts as alive, within which time, and what the command prints."""

from __future__ import annotations

import shlex
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.processes import COMMAND
from tests.support.certificates import Authority
from trainfleet_exporter import cli
from trainfleet_exporter.process import healthcheck

OK = b"HTTP/1.1 200 OK\r\n\r\n"


@contextmanager
def _answering(answer: bytes | None, *, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A server that gives one client this answer (None: it never does). Its port, and what it was asked."""
    asked: list[bytes] = []
    over = threading.Event()

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            try:
                stream = connection if tls is None else tls.wrap_socket(connection, server_side=True)
                with stream:
                    asked.append(stream.recv(4096))
                    if answer is None:
                        over.wait()
                    else:
                        stream.sendall(answer)
            except OSError:  # a client that does not trust us
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], asked
        finally:
            over.set()
            thread.join()


def _check(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code, and all that was printed."""
    code = cli.main(["healthcheck", *arguments])
    printed = capfd.readouterr()
    assert (printed.out == "") == (code != 0)
    return code, printed.out + printed.err


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (OK, 0, "healthy\n"),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", 0, "healthy: it runs and requires a password (HTTP 401)\n"),
        (b"HTTP/1.1 429 Too Many Requests\r\n\r\n", 0, "healthy: it runs and limits the rate of requests (HTTP 429)\n"),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", 1, "not healthy: HTTP 503\n"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", 1, "not healthy: HTTP 302\n"),
        (b"SSH-2.0-OpenSSH\r\n", 1, "not healthy: the answer is not HTTP\n"),
        (b"HTTP/1.1\r\n", 1, "not healthy: the answer is not HTTP\n"),
        (b"", 1, "not healthy: the connection was closed without an answer\n"),
        (None, 1, "not healthy: no answer within 0 s\n"),
    ],
)
def test_what_counts_as_alive(
    answer: bytes | None, code: int, said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healthcheck, "SECONDS", 0.2 if answer is None else 10.0)
    with _answering(answer) as (port, asked):
        assert _check(capfd, f"--url=http://127.0.0.1:{port}/x/-/healthy?y=1") == (code, said)
    assert asked[0].startswith(f"GET /x/-/healthy?y=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n".encode())


def test_certificates_are_verified_unless_they_need_not_be(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ssl.create_default_context

    def strict(*, cafile: str) -> ssl.SSLContext:  # as it is from Python 3.13 on
        context = real(cafile=cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    authority = Authority(tmp_path, bare=True)  # as `openssl req -x509` makes it
    trust = f"--tls.ca-file={authority.file}"
    cases = [
        ("127.0.0.1", [], "certificate verify failed"),
        ("127.0.0.1", [trust], ""),
        ("exporter.example", [trust], "certificate verify failed"),
        ("exporter.example", ["--tls.insecure-skip-verify"], ""),
        ("127.0.0.1", ["--tls.ca-file=/nowhere"], "No such file or directory"),
    ]
    for host, flags, fault in cases:
        with _answering(OK, tls=authority.server(host=host)) as (port, _):
            code, said = _check(capfd, f"--url=https://127.0.0.1:{port}/-/healthy", *flags)
        assert (code, said) == (0, "healthy\n") if not fault else (code == 1 and fault in said), (host, flags, said)


def test_mutual_tls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path)
    context = authority.server()
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    ours = [f"--tls.cert-file={tmp_path}/authority-server.pem", f"--tls.key-file={tmp_path}/authority-server-key.pem"]
    for flags, code in ((ours, 0), ([], 1)):
        with _answering(OK, tls=context) as (port, _):
            url = f"--url=https://127.0.0.1:{port}/"
            assert _check(capfd, url, f"--tls.ca-file={authority.file}", *flags)[0] == code


@pytest.mark.parametrize("away", [">&-", ">/dev/full", "| true"])
def test_exit_code_is_the_answer_if_the_output_is_closed(away: str) -> None:
    with _answering(OK) as (port, _):
        asking = shlex.join([*COMMAND, "healthcheck", f"--url=http://127.0.0.1:{port}/"])
        script = f"{{ {asking}; echo $? >&3; }} {away}"
        done = subprocess.run(["sh", "-c", f"exec 3>&1; {script}"], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_asking_loads_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['x', 'healthcheck', '--url=http://127.0.0.1:1/']\n"
        "from trainfleet_exporter.__main__ import main\n"
        "code = main(); print(code, *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, *modules = done.stdout.split()
    assert (code, done.stderr) == ("1", "not healthy: Connection refused\n")
    assert "trainfleet_exporter" in modules
    heavy = {"asyncio", "httpx", "aiohttp", "pydantic", "starlette", "uvicorn", "ssl", "email", "http", "logging"}
    assert not {*heavy, "yaml", "re2"} & set(modules)
