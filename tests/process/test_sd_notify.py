"""sd_notify: what a service manager receives, over real sockets. deploy/test_systemd.py has a whole daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.clock import SteppedLoop
from tests.support.logs import line_of
from trainfleet_exporter.process.sd_notify import ServiceManager

Message = dict[str, str]


class Ears:
    """The service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self.environ = {"NOTIFY_SOCKET": address.replace("\0", "@")}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def message(self) -> Message | None:
        """The next message, if one has come."""
        try:
            return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return None

    def listen(self) -> list[Message]:
        """What has come since the last time."""
        return list(iter(self.message, None))


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[Ears]:
    ears = Ears(str(tmp_path / "notify"))
    yield ears
    ears.socket.close()


def _manager(environ: Mapping[str, str]) -> ServiceManager:
    return ServiceManager(lambda: "1 well", lambda: asyncio.sleep(0), environ)


READY, PING = {"READY": "1", "STATUS": "1 well"}, {"WATCHDOG": "1", "STATUS": "1 well"}


@pytest.mark.parametrize("address", ["file", "abstract"])
async def test_life_of_a_daemon_without_watchdog(address: str, tmp_path: Path) -> None:
    ears = Ears(str(tmp_path / "notify") if address == "file" else f"\0trainfleet-{os.getpid()}-{time.monotonic_ns()}")
    manager = _manager(ears.environ)
    manager.ready()
    await asyncio.sleep(20)
    assert ears.listen() == [READY, {"STATUS": "1 well"}, {"STATUS": "1 well"}]
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    manager.reloads(True)
    await asyncio.sleep(39)
    begun = ears.listen()[0]
    assert (begun["RELOADING"], begun["STATUS"]) == ("1", "reading the config again")
    assert before <= int(begun["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    manager.reloads(False)
    assert ears.listen() == [READY]
    manager.reloads(True)
    manager.stopping()
    manager.reloads(False)
    assert ears.listen()[1:] == [{"STOPPING": "1", "STATUS": "stopping"}]  # and not ready again
    ears.socket.close()


async def test_watchdog_is_pinged_by_a_live_loop_only(ears: Ears) -> None:
    manager = _manager({**ears.environ, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())})
    manager.ready()
    await asyncio.sleep(0.5)
    assert ears.listen() == [READY, PING]
    await asyncio.sleep(40)
    assert ears.listen() == [PING] * 8
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    loop.jump(1000)  # time goes by without the loop getting on
    assert ears.listen() == []
    await asyncio.sleep(0.1)
    assert ears.listen() == [PING]
    manager.stopping()
    await asyncio.sleep(6)  # an end that takes its time is no hang
    assert {"WATCHDOG": "1", "STATUS": "stopping"} in ears.listen()


async def test_watchdog_is_not_pinged_while_polls_hang(ears: Ears) -> None:
    goes_on = asyncio.Event()

    async def proof() -> None:
        await goes_on.wait()

    environ = {**ears.environ, "WATCHDOG_USEC": "10000000"}
    manager = ServiceManager(lambda: "1 well", proof, environ)
    manager.ready()
    await asyncio.sleep(60)
    assert [message.get("WATCHDOG") for message in ears.listen()] == [None]
    goes_on.set()
    await asyncio.sleep(0.1)
    assert [message.get("WATCHDOG") for message in ears.listen()] == ["1"]


async def test_without_a_socket_nothing_runs() -> None:
    manager = _manager({"WATCHDOG_USEC": "1000000"})
    manager.ready()
    manager.reloads(True)
    manager.reloads(False)
    await asyncio.sleep(1)
    manager.stopping()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("address", ["/run/nobody", "@nobody", "vsock:2:1234", "never read"])
async def test_lost_service_manager_is_logged_once(address: str, ears: Ears, caplog: pytest.LogCaptureFixture) -> None:
    environ = ears.environ if address == "never read" else {"NOTIFY_SOCKET": address}
    with caplog.at_level(logging.DEBUG):
        manager = _manager({**environ, "WATCHDOG_USEC": "1000000"})
        manager.ready()
        began = time.perf_counter()
        await asyncio.sleep(1000)  # a socket takes ten messages, or some hundred (net.unix.max_dgram_qlen)
        assert time.perf_counter() - began < 10  # not half a second for each
    (said,) = [line_of(record) for record in caplog.records if record.name.endswith("notify")]
    assert said.startswith("cannot notify the service manager error=")
