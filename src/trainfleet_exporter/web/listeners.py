"""Listening sockets, and the addresses that name them. It imports nothing slow, because the flags use it."""

from __future__ import annotations

import contextlib
import errno
import re
import socket
from collections.abc import Iterator
from typing import Any

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.process.arguments import found

MAX_CONNECTIONS = 512
"""The limit of Prometheus's own server."""
_BACKLOG = 1024
_UNREAD_MILLISECONDS = 30_000
"""After which the kernel closes a connection whose client reads nothing, also of a response in the kernel's buffers."""


def listen(*addresses: str) -> list[socket.socket]:
    """Open the listening sockets for each `host:port`, `:port` (every interface) or `[::1]:port`, or none of them.

    Raises StartError for a malformed address, a used port or a forbidden port.
    """
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(sock) for address in addresses for sock in _listen(address)]
        opened.pop_all()
    return sockets


def _listen(address: str) -> Iterator[socket.socket]:
    host, port = split_address(address)
    try:
        for family, sockaddr in _resolve(host, port):
            # Naming IPPROTO_TCP matters: asyncio sets TCP_NODELAY only on sockets that say they are TCP, and without
            # it each response on a kept connection waits some 40 ms.
            sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            yield sock
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if not host else 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections have it from here
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MILLISECONDS)
            sock.bind(sockaddr)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
    except (OSError, UnicodeError) as error:
        raise StartError(f"cannot listen on {address}: {_reason(error)}") from None


def _reason(error: OSError | UnicodeError) -> str:
    """Return what went wrong, and how to fix it."""
    other = "choose another --web.listen-address"
    if isinstance(error, UnicodeError):
        return f"not a host name; {other}"
    if isinstance(error, socket.gaierror):  # its number is no errno
        return f"{(error.strerror or 'name not resolved').lower()}; {other}"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}; raise the limit (ulimit -n)"
    hint = " (another exporter running?)" if error.errno == errno.EADDRINUSE else ""
    return f"{error.strerror or type(error).__name__}{hint}; {other}"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `:PORT`. Raises StartError for any other text."""
    host, separator, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise StartError(f"{found(address)}; allowed for an IPv6 address: [ADDRESS]:PORT")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        meant = ""
        if re.fullmatch("[0-9]{1,5}", address, re.ASCII) and int(address) <= 65535:
            meant = f":{address}"
        elif not separator and re.fullmatch("[A-Za-z0-9.-]{1,63}[A-Za-z]|[0-9.]{7,15}", address, re.ASCII):
            meant = f"{address}:10075"
        hint = f'did you mean "{meant}"? ' if meant else ""
        raise StartError(f"{found(address)}; {hint}allowed: HOST:PORT or :PORT, with a port of 0 to 65535")
    return host, int(port)


def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    if not host:
        # One socket for both families where the kernel has IPv6, as Go's servers do.
        if socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, ("::", port))]
        return [(socket.AF_INET, ("0.0.0.0", port))]  # noqa: S104 - `:port` asks for every interface
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unique = dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in found)
    # A name such as localhost has several addresses. With port 0, take only one: each would get a different port.
    return [(socket.AddressFamily(family), sockaddr) for family, sockaddr in list(unique)[: 1 if port == 0 else None]]


def address_text(sock: socket.socket) -> str:
    """Write where a socket listens, as `host:port` or `[::1]:port`."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
