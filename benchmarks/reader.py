"""The one reader of all servers: a blocking socket, kept open where the server does so; 1 MB at a time, not decoded."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType

from benchmarks.processes import Failed

_BUFFER = 1 << 20
_BEGINNING = 1 << 14
_TIMEOUT = 120.0
_LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"transfer-encoding:\s*chunked", re.IGNORECASE)
_LAST_CHUNK = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Scrape:
    """How one scrape went: seconds from the request to the first byte of the answer and to its last, and its bytes."""

    first: float
    whole: float
    size: int
    """Of the body, with the marks of chunks where the server sends such."""


class Reader:
    """Scrapes one server again and again. A server that closes the connection is connected to anew, within the time."""

    def __init__(self, port: int, *, gzip: bool, path: str = "/metrics", timeout: float = _TIMEOUT) -> None:
        encoding = "Accept-Encoding: gzip\r\n" if gzip else ""
        self._head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{encoding}"
        self._request = b""
        self._port = port
        self._timeout = timeout
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._stays_open = True
        self._sock: socket.socket | None = None
        self.beginning = b""
        """The first bytes of the latest body, where the server told its length."""

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def scrape(self, headers: str = "") -> Scrape:
        """Ask once, with these further header lines, and read all of the answer. Raises Failed where it is not a 200
        or ends early."""
        self._request = f"{self._head}{headers}\r\n".encode()
        began = perf_counter()
        sock, count = self._asked()
        first = perf_counter() - began
        while (head_end := self._buffer.find(b"\r\n\r\n", 0, count)) < 0:
            more = sock.recv_into(self._view[count:])  # some servers send their head line by line
            if not more:
                raise Failed(f"port {self._port}: ended within the head of an answer")
            count += more
        head = bytes(self._view[:head_end])
        if b" 200 " not in head[:16]:
            raise Failed(f"port {self._port}: {head[:60]!r}")
        size = self._rest(sock, head, head_end + 4, count)
        whole = perf_counter() - began
        if not self._stays_open:
            self.close()
        return Scrape(first, whole, size)

    def _rest(self, sock: socket.socket, head: bytes, start: int, count: int) -> int:
        """Read the body, of which some is in the buffer already; how many bytes it has."""
        view = self._view
        size = count - start
        self.beginning = bytes(view[start : min(count, start + _BEGINNING)])
        length = _LENGTH.search(head)
        is_chunked = _CHUNKED.search(head) is not None
        self._stays_open = head.startswith(b"HTTP/1.1") and (length is not None or is_chunked)
        if length is not None:
            total = int(length[1])
            while size < total and (count := sock.recv_into(view)):
                _acknowledge_at_once(sock)
                size += count
                if len(self.beginning) < _BEGINNING:
                    self.beginning += bytes(view[: min(count, _BEGINNING)])
            if size != total:
                raise Failed(f"port {self._port}: {size} bytes of {total}")
        elif is_chunked:
            # What was read last ends in the last chunk's mark; that a page would have it just where a read ends is as
            # good as impossible, and to count chunks would cost more than to read them.
            tail = bytes(view[max(start, count - len(_LAST_CHUNK)) : count])
            while tail != _LAST_CHUNK:
                count = sock.recv_into(view)
                if not count:
                    raise Failed(f"port {self._port}: ended before the last chunk")
                size += count
                tail = (tail + bytes(view[max(0, count - len(_LAST_CHUNK)) : count]))[-len(_LAST_CHUNK) :]
        else:
            while count := sock.recv_into(view):
                size += count
        return size

    def _asked(self) -> tuple[socket.socket, int]:
        """Send the request; the connection that was answered on, and how many bytes came first."""
        if self._sock is not None:
            try:
                _acknowledge_at_once(self._sock)
                self._sock.sendall(self._request)
                count = self._sock.recv_into(self._view)
            except OSError:
                count = 0
            if count:
                return self._sock, count
            self.close()  # the server had closed it, being idle for too long
        self._sock = socket.create_connection(("127.0.0.1", self._port), timeout=self._timeout)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _acknowledge_at_once(self._sock)
        self._sock.sendall(self._request)
        return self._sock, self._sock.recv_into(self._view)


def _acknowledge_at_once(sock: socket.socket) -> None:
    """Else the kernel may keep an acknowledgement back for 40 ms, for which a sender that has been idle waits: so it
    would be found at random, of each server, in one scrape of a hundred. Linux forgets it after a while."""
    if hasattr(socket, "TCP_QUICKACK"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
