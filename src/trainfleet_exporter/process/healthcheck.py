"""`trainfleet-exporter healthcheck`: checks that a running daemon answers, for images without curl.

It runs every few seconds on busy machines, so it imports little: a socket, the first line of an answer, and of this
package only the module that reads the command line. It ignores the environment's proxies.

Exit codes: 0 healthy, 1 not healthy, 2 bad flags.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trainfleet_exporter.process.arguments import found

SECONDS = 3.0
"""Seconds that connecting and answering may take together."""
_LONGEST_LINE = 1000


class _NotHealthyError(Exception):
    pass


def check(options: Mapping[str, Any]) -> int:
    """Send one request, print one line about the result, return the exit code. `options` are the values of flags."""
    alive, words = _judge(options)
    _say(words if alive else f"not {words}", error=not alive)
    return 0 if alive else 1


def _say(words: str, *, error: bool = False) -> None:
    """Print a line. A closed output is no error: the exit code is the result."""
    stream = sys.stderr if error else sys.stdout
    if stream is None:
        return
    try:
        stream.write(f"{words}\n")
        stream.flush()
    except OSError:  # nor may Python's own flush at the end change the exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _judge(options: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the daemon is healthy, and why, in words."""
    try:
        status = _ask(parse_url(options["url"]), options)
    except _NotHealthyError as error:
        return False, f"healthy: {error}"
    except TimeoutError:
        return False, f"healthy: no answer within {SECONDS:.0f} s"
    except OSError as error:  # also of ssl
        return False, f"healthy: {error.strerror or error}"
    match status:
        case 200:
            return True, "healthy"
        case 401:  # the web config has users, so every page needs a password
            return True, "healthy: it runs and requires a password (HTTP 401)"
        case 429:  # the web config has a rate_limit
            return True, "healthy: it runs and limits the rate of requests (HTTP 429)"
        case _:
            return False, f"healthy: HTTP {status}"


def parse_url(text: str) -> SplitResult:
    """Parse an http or https URL without a user. Raises ValueError."""
    culprit = "found a hidden text, which may contain a password" if "@" in text else found(text)
    try:
        url = urlsplit(text)
        known = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        known = False
    if not known or not text.isascii() or any(char <= " " or char == "\x7f" for char in text):
        raise ValueError(
            f"{culprit}; allowed: http:// or https://, a host and a path, such as http://127.0.0.1:10075/-/healthy"
        )
    if "@" in url.netloc:  # not quoted: it is a secret, and was one on the command line
        raise ValueError("leave out the user and password: an exporter that asks for them counts as healthy")
    return url


def _ask(url: SplitResult, options: Mapping[str, Any]) -> int:
    """The status of the answer. TimeoutError, OSError or _NotHealthyError if there is none."""
    end = time.monotonic() + SECONDS
    assert url.hostname is not None
    port = url.port or (443 if url.scheme == "https" else 80)
    sock = socket.create_connection((url.hostname, port), timeout=SECONDS)
    with sock:
        if url.scheme == "https":
            sock.settimeout(max(0.1, end - time.monotonic()))
            sock = _in_tls(sock, url.hostname, options)
        with sock:
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            request = f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            sock.sendall(request.encode("ascii"))
            line = b""
            while b"\n" not in line and len(line) < _LONGEST_LINE:
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                sock.settimeout(left)
                piece = sock.recv(_LONGEST_LINE)
                if not piece:
                    raise _NotHealthyError("the connection was closed without an answer")
                line += piece
    words = line.partition(b"\n")[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise _NotHealthyError("the answer is not HTTP")
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
