"""`trainfleet-exporter healthcheck`: checks that a running daemon answers, for images without curl.

It runs every few seconds on busy machines, so it imports little: a socket and the first line of an answer. It ignores
the environment's proxies.

Exit codes: 0 healthy, 1 not healthy, 2 bad flags.
"""

from __future__ import annotations

import inspect
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

import click

from trainfleet_exporter.process.arguments import Checked, flag, found, refused

_URL = "http://127.0.0.1:10075/-/healthy"
SECONDS = 3.0
"""Seconds that connecting and answering may take together."""
_ALIVE = {
    200: "healthy",
    401: "healthy: it runs and requires a password (HTTP 401)",  # the web config has users
    429: "healthy: it runs and limits the rate of requests (HTTP 429)",  # the web config has a rate_limit
}
"""What a status means; others are not healthy."""


def _check(**options: Any) -> int:
    """Check that a running exporter responds, for containers.

    Exit code 0 if it does: with 200, or with 401 or 429 if its web config has users or a rate limit. 1 if it does not
    respond within 3 s, 2 on bad flags.
    """
    if options["tls_key_file"] and not options["tls_cert_file"]:
        raise refused("--tls.key-file needs --tls.cert-file")
    if options["tls_ca_file"] and options["tls_insecure_skip_verify"]:
        raise refused("--tls.ca-file and --tls.insecure-skip-verify exclude each other")
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    status = 0
    try:
        status = _ask(options["url"], options)
        words = _ALIVE.get(status, f"not healthy: HTTP {status}")
    except TimeoutError:
        words = f"not healthy: no answer within {SECONDS:.0f} s"
    except OSError as error:  # also of ssl
        words = f"not healthy: {error.strerror or error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    is_alive = status in _ALIVE
    with suppress(OSError):  # a closed output does not change the exit code; Python would flush it again at the end
        os.write(1 if is_alive else 2, f"{words}\n".encode())
    return 0 if is_alive else 1


def _give_up(number: int, frame: object) -> NoReturn:
    raise TimeoutError


def _parse(text: str) -> SplitResult:
    """Parse an http or https URL without a user. Raises ValueError, which quotes no password."""
    if "@" in text:
        raise ValueError("leave out the user and password: an exporter that asks for them counts as healthy")
    try:
        url = urlsplit(text)
        is_known = url.scheme in {"http", "https"} and url.hostname and url.port != 0
    except ValueError:
        is_known = False
    if not is_known or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{found(text)}; allowed: http:// or https://, a host and a path, such as {_URL}")
    return url


def _ask(url: SplitResult, options: Mapping[str, Any]) -> int:
    """Return the status of the answer. OSError if there is none."""
    host, is_plain = url.hostname or "", url.scheme == "http"
    sock = socket.create_connection((host, url.port or (80 if is_plain else 443)))
    target = url._replace(scheme="", netloc="", path=url.path or "/", fragment="").geturl()
    request = f"GET {target} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    with sock, sock if is_plain else _in_tls(sock, host, options) as asking, asking.makefile("rb") as answer:
        asking.sendall(request.encode("ascii"))
        words = answer.readline(1000).split()
    if not words:
        raise OSError(None, "the connection was closed without an answer")
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise OSError(None, "the answer is not HTTP")
    return int(words[1])


def _in_tls(sock: socket.socket, host: str, options: Mapping[str, Any]) -> socket.socket:
    import ssl  # noqa: PLC0415 - few daemons need it

    context = ssl.create_default_context(cafile=options["tls_ca_file"])
    # From Python 3.13 on it refuses what Prometheus takes: authorities made by `openssl req -x509`.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if options["tls_insecure_skip_verify"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options["tls_cert_file"]:
        context.load_cert_chain(options["tls_cert_file"], options["tls_key_file"])
    return context.wrap_socket(sock, server_hostname=host)


command = click.Command(
    "healthcheck",
    help=inspect.getdoc(_check),
    callback=_check,
    params=[
        flag("--url", "address of the page", Checked(_parse), default=_URL, metavar="URL"),
        flag("--tls.ca-file", "certificates to trust instead of the system's (PEM)", metavar="FILE"),
        flag("--tls.insecure-skip-verify", "accept any certificate; nothing secret is sent", is_flag=True),
        flag("--tls.cert-file", "client certificate for mutual TLS (PEM)", metavar="FILE"),
        flag("--tls.key-file", "key of the client certificate, if in another file (PEM)", metavar="FILE"),
    ],
)
