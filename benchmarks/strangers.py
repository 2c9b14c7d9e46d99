"""Clients that attack: `python -m benchmarks.strangers passwords|readers PORT COUNT ADDRESS...`, until it is ended.

`passwords`: each connection sends requests with wrong passwords, one after the other. `readers`: each connection asks
for the plain page, reads nothing of it, and is replaced by a new one 25 seconds after it was opened. The connections
are spread evenly over the addresses.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import sys
from collections.abc import Sequence
from itertools import count

_STAY = 25.0
"""Seconds after which a client that does not read is replaced."""
_PAUSE = 0.05
"""Seconds before another attempt to connect where the last one failed."""
_ASK = "GET /metrics HTTP/1.1\r\nHost: stranger\r\n"
_numbers = count()


async def _guess(port: int, address: str) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        except OSError:
            await asyncio.sleep(_PAUSE)
            continue
        try:
            while True:
                login = base64.b64encode(f"user0:wrong{next(_numbers)}".encode()).decode()
                writer.write(f"{_ASK}Authorization: Basic {login}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(_PAUSE)
        finally:
            writer.close()


async def _read_nothing(port: int, address: str) -> None:
    loop = asyncio.get_running_loop()
    while True:
        until = loop.time() + _STAY
        with socket.socket() as sock:
            sock.setblocking(False)
            sock.bind((address, 0))
            try:
                await loop.sock_connect(sock, ("127.0.0.1", port))
                await loop.sock_sendall(sock, f"{_ASK}\r\n".encode())
            except OSError:  # cut off: it comes again when its time is over
                pass
            await asyncio.sleep(until - loop.time())


async def _main(kind: str, port: int, number: int, addresses: Sequence[str]) -> None:
    client = {"passwords": _guess, "readers": _read_nothing}[kind]
    async with asyncio.TaskGroup() as group:
        for place in range(number):
            group.create_task(client(port, addresses[place % len(addresses)]))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
