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
import sys
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

import click

from trainfleet_exporter.process.arguments import Checked, flag, found, refused, switch

DEFAULT_URL = "http://127.0.0.1:10075/-/healthy"
SECONDS = 3.0
"""Seconds that connecting and answering may take together."""
_LONGEST_LINE = 1000
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
    stream = sys.stdout if status in _ALIVE else sys.stderr
    try:
        print(words, file=stream, flush=True)
    except OSError:  # a closed output must not change the exit code, nor may Python's own flush at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 0 if status in _ALIVE else 1


def _give_up(number: int, frame: object) -> NoReturn:
    raise TimeoutError


def parse_url(text: str) -> SplitResult:
    """Parse an http or https URL without a user. Raises ValueError, which quotes no password."""
    try:
        url = urlsplit(text)
        is_known = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        is_known = False
    if "@" in text:
        raise ValueError("leave out the user and password: an exporter that asks for them counts as healthy")
    if not is_known or not text.isascii() or any(char <= " " or char == "\x7f" for char in text):
        raise ValueError(f"{found(text)}; allowed: http:// or https://, a host and a path, such as {DEFAULT_URL}")
    return url


def _ask(url: SplitResult, options: Mapping[str, Any]) -> int:
    """The status of the answer. OSError if there is none."""
    sock = socket.create_connection((url.hostname or "", url.port or (443 if url.scheme == "https" else 80)))
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    request = f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    with sock, sock if url.scheme == "http" else _in_tls(sock, url.hostname or "", options) as asking:
        asking.sendall(request.encode("ascii"))
        with asking.makefile("rb") as answer:
            line = answer.readline(_LONGEST_LINE)
    words = line.split()
    if not line:
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
        flag("--url", "address of the page", Checked(parse_url), default=DEFAULT_URL, metavar="URL"),
        flag("--tls.ca-file", "certificates to trust instead of the system's (PEM)", metavar="FILE"),
        switch("--tls.insecure-skip-verify", "accept any certificate; nothing secret is sent"),
        flag("--tls.cert-file", "client certificate for mutual TLS (PEM)", metavar="FILE"),
        flag("--tls.key-file", "key of the client certificate, if in another file (PEM)", metavar="FILE"),
    ],
)
