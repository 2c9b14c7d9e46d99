"""sd_notify: what a service manager receives, over real sockets; also from a whole daemon."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.processes import eventually, running_cloud, running_exporter
from tests.support.clock import SteppedLoop, run_stepped
from tests.support.logs import line_of
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.process.sd_notify import ServiceManager

Message = dict[str, str]


class Ears:
    """The service manager's end of the socket."""

    def __init__(self, address: str) -> None:
        self.environ = {"NOTIFY_SOCKET": address.replace("\0", "@")}
        self._heard: list[Message] = []
        """What `hear` has not come to yet."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def listen(self) -> list[Message]:
        """What has come since the last time."""
        new, self._heard = self._heard, []
        while True:
            try:
                data = self.socket.recv(4096)
            except BlockingIOError:
                return new
            new.append(dict(line.split("=", 1) for line in data.decode().split("\n")))

    def hear(self, key: str, *, what: Callable[[Message], bool] = lambda message: True) -> Message:
        """Wait for a message with a key, past others that come before it (real time)."""

        def found() -> Message | None:
            new = self.listen()
            for place, message in enumerate(new):
                if key in message and what(message):
                    self._heard = new[place + 1 :]
                    return message
            return None

        message: Message = eventually(found, what=f"the daemon to tell {key}")
        return message


@pytest.fixture
def ears(tmp_path: Path) -> Iterator[Ears]:
    ears = Ears(str(tmp_path / "notify"))
    yield ears
    ears.socket.close()


def _stepped(environ: Mapping[str, str], script: Callable[[ServiceManager, list[str]], object]) -> None:
    """Run a script of (possibly awaitable) steps on a manager whose status is the last of a list."""

    async def main() -> None:
        words = ["1 well"]
        manager = ServiceManager(lambda: words[-1], lambda: asyncio.sleep(0), environ)
        result = script(manager, words)
        if asyncio.iscoroutine(result):
            await result
        await manager.aclose()

    run_stepped(main)


def test_serving_and_stopping_are_notified(ears: Ears) -> None:
    def script(manager: ServiceManager, _: list[str]) -> None:
        manager.ready()
        manager.stopping()
        manager.stopping()

    _stepped(ears.environ, script)
    assert ears.listen() == [{"READY": "1", "STATUS": "1 well"}, {"STOPPING": "1", "STATUS": "stopping"}]


def test_an_abstract_socket_is_found() -> None:
    ears = Ears(f"\0trainfleet-test-{os.getpid()}-{time.monotonic_ns()}")
    try:
        _stepped(ears.environ, lambda manager, _: manager.ready())
        assert [*map(set, ears.listen())] == [{"READY", "STATUS"}]
    finally:
        ears.socket.close()


def test_only_a_changed_status_is_sent(ears: Ears) -> None:
    async def script(manager: ServiceManager, words: list[str]) -> None:
        manager.ready()
        await asyncio.sleep(100)
        words.append("1 failing")
        await asyncio.sleep(100)

    _stepped(ears.environ, script)
    assert [message["STATUS"] for message in ears.listen()] == ["1 well", "1 failing"]


def test_watchdog_is_pinged_by_a_live_loop_only(ears: Ears) -> None:
    async def script(manager: ServiceManager, _: list[str]) -> None:
        manager.ready()
        await asyncio.sleep(0.5)
        assert [message.get("WATCHDOG") for message in ears.listen()] == [None, "1"]
        await asyncio.sleep(40)
        assert ears.listen() == [{"WATCHDOG": "1"}] * 8
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SteppedLoop)
        loop.jump(1000)  # time goes by without the loop getting on
        assert ears.listen() == []
        await asyncio.sleep(0.1)
        assert ears.listen() == [{"WATCHDOG": "1"}]
        manager.stopping()
        await asyncio.sleep(6)  # an end that takes its time is no hang
        assert {"WATCHDOG": "1"} in ears.listen()

    _stepped({**ears.environ, "WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}, script)


def test_watchdog_is_not_pinged_while_polls_hang(ears: Ears) -> None:
    async def main() -> None:
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
        assert ears.listen() == [{"WATCHDOG": "1"}]
        await manager.aclose()

    run_stepped(main)


@pytest.mark.parametrize(
    "environ",
    [{"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}],
)
def test_watchdog_of_another_process_receives_nothing(ears: Ears, environ: dict[str, str]) -> None:
    async def script(manager: ServiceManager, _: list[str]) -> None:
        manager.ready()
        await asyncio.sleep(100)

    _stepped({**ears.environ, **environ}, script)
    assert not [message for message in ears.listen() if "WATCHDOG" in message]


def test_reloads_that_overlap_are_one_until_the_last_has_ended(ears: Ears) -> None:
    async def script(manager: ServiceManager, words: list[str]) -> None:
        manager.ready()
        await asyncio.sleep(1)
        ears.listen()
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        manager.reloading()
        manager.reloading()
        words.append("2 well")
        await asyncio.sleep(39)
        manager.reloaded()
        (begun,) = ears.listen()
        assert begun["RELOADING"] == "1"
        assert before <= int(begun["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        manager.reloaded()
        assert ears.listen() == [{"READY": "1", "STATUS": "2 well"}]

    _stepped(ears.environ, script)


def test_reload_cut_by_the_stop_is_not_reported_as_serving(ears: Ears) -> None:
    async def script(manager: ServiceManager, _: list[str]) -> None:
        manager.ready()
        manager.reloading()
        ears.listen()
        manager.stopping()
        manager.reloaded()

    _stepped(ears.environ, script)
    assert ears.listen() == [{"STOPPING": "1", "STATUS": "stopping"}]


def test_without_a_socket_nothing_runs() -> None:
    async def script(manager: ServiceManager, _: list[str]) -> None:
        manager.ready()
        manager.reloading()
        manager.reloaded()
        await asyncio.sleep(1)
        manager.stopping()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    _stepped({"WATCHDOG_USEC": "1000000"}, script)


@pytest.mark.parametrize("address", ["/run/nobody", "@nobody", "vsock:2:1234", "nonsense"])
def test_lost_service_manager_is_logged_once(address: str, caplog: pytest.LogCaptureFixture) -> None:
    async def script(manager: ServiceManager, _: list[str]) -> None:
        manager.ready()
        await asyncio.sleep(100)

    with caplog.at_level(logging.DEBUG):
        _stepped({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}, script)
    (said,) = [line_of(record) for record in caplog.records if record.name.endswith("notify")]
    assert said.startswith("cannot notify the service manager error=")


def test_stuck_service_manager_delays_the_loop_only_once(ears: Ears, caplog: pytest.LogCaptureFixture) -> None:
    async def script(manager: ServiceManager, words: list[str]) -> None:
        manager.ready()
        for _ in range(2):
            began = time.perf_counter()
            await asyncio.sleep(1000)  # a socket takes ten messages, or some hundred (net.unix.max_dgram_qlen)
            assert time.perf_counter() - began < 10  # not half a second for each
            assert ears.listen()

    _stepped({**ears.environ, "WATCHDOG_USEC": "1000000"}, script)
    said = [line_of(record) for record in caplog.records if record.name.endswith("notify")]
    assert 1 <= len(said) <= 2
    assert all(line.endswith('timed out"') for line in said)


@pytest.mark.long
def test_daemon_notifies_its_life_cycle(ears: Ears, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    environ = {**ears.environ, "WATCHDOG_USEC": "200000"}
    with running_cloud(seed=1, clouds=CLOUDS) as (simulator, url):
        config.write_text(simulator.config_yaml(url), encoding="utf-8")
        with running_exporter([f"--config.file={config}"], tmp_path / "log", environ=environ) as exporter:
            first = ears.hear("READY")
            assert first["STATUS"].startswith("3 provider(s), ")
            ears.hear("WATCHDOG")
            ears.hear("STATUS", what=lambda message: message["STATUS"].endswith(" well"))  # the failing ones are gone
            exporter.process.send_signal(signal.SIGHUP)
            ears.hear("RELOADING", what=lambda message: int(message["MONOTONIC_USEC"]) > 0)
            ears.hear("READY")
            config.write_text("nonsense: 1\n", encoding="utf-8")
            exporter.process.send_signal(signal.SIGHUP)
            ears.hear("RELOADING")
            ears.hear("READY")  # with the config before, which the log says
            assert "not reloaded" in exporter.log
            assert exporter.end(signal=signal.SIGTERM) == 0, exporter.log
            ears.hear("STOPPING")
            assert "cannot be told" not in exporter.log
