"""Reloads, and the stop, where there are no threads, no disk or no luck: what is said is true, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.reload_rig import Site, SmallConfig, World, site
from tests.budgets.rig import JANUARY
from tests.budgets.test_reload import KEPT, config, limited, recorded
from tests.support.clock import run_stepped
from trainfleet_exporter.app import reload as reload_module
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.budgets import Ledger, StateFile
from trainfleet_exporter.budgets import state_file as state_file_module
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.process.threads import THREAD_NAME

OTHER = KEPT.replace("state.json", "other.json")


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_without_a_thread_to_be_had_a_reload_is_a_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("a"), limited("b"), head=KEPT), caplog) as here:
            await asyncio.sleep(1)
            loop = asyncio.get_running_loop()
            run_in_executor = loop.run_in_executor

            def aside_only(executor: Any, work: Callable[..., object], *args: object) -> object:
                if executor is None:
                    raise RuntimeError("can't start new thread")
                return run_in_executor(executor, work, *args)

            monkeypatch.setattr(loop, "run_in_executor", aside_only)
            moved = config(limited("a", more="account: main, "), limited("c"), head=OTHER)
            assert (await here.reload(moved)).text == "reloaded\nadded: c\nremoved: b\nchanged: a\n"
            assert recorded(tmp_path / "state.json") == {"b": 5, "main": 5, "c": 1}  # exactly, and it was left
            assert recorded(tmp_path / "other.json")["main"] >= 5
            other = StateFile(tmp_path / "state.json")
            assert other.owned
            other.release()
            await asyncio.sleep(61)
            assert here.world.calls == {"a": 15, "b": 5, "c": 10}
            assert [record for record in caplog.records if record.levelno > logging.INFO] == []
            monkeypatch.undo()

    run_stepped(main, start=JANUARY.starts)


@pytest.mark.parametrize("name", ["write_soon", "move"])
def test_a_state_file_that_fails_behind_the_swap_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def main() -> None:
        async with site(tmp_path, config(limited("a"), head=KEPT), caplog) as here:
            await asyncio.sleep(1)
            with monkeypatch.context() as patch:
                patch.setattr(Ledger, name, broken)
                changed = config(limited("a", more="account: main, "), limited("b"), head=OTHER)
                assert (await here.reload(changed)).text == "reloaded\nadded: b\nchanged: a\n"
            assert len(here.log(logging.WARNING)) == 1
            assert here.log(logging.ERROR) == []
            await asyncio.sleep(61)
            assert here.world.calls == {"a": 15, "b": 10}
            assert (await here.reload(changed)).success  # what could not be taken into use now can be
            await asyncio.sleep(1)
            assert here.exporter.state.path == tmp_path / "other.json"
            assert here.exporter.state.owned
            await here.exporter.aclose()
            assert recorded(tmp_path / "other.json") == {"main": 15, "b": 11}  # one that the elapsed second stands for

    run_stepped(main, start=JANUARY.starts)


@pytest.mark.parametrize("where", ["apply", "schedule"])
def test_a_swap_that_fails_ends_the_process_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    reported: list[str] = []

    async def main() -> None:
        async with site(tmp_path, config(limited("a"), limited("b"), head=KEPT), caplog) as here:
            await asyncio.sleep(1)
            if where == "apply":
                monkeypatch.setattr(here.exporter.telemetry, "arrange", broken)
            else:
                monkeypatch.setattr(here.schedule, "add", broken)
            first = asyncio.create_task(here.reload(config(limited("a"), limited("c"), head=KEPT)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            later = asyncio.create_task(here.reloader.reload())  # waits for its turn
            reported.extend([(await first).text, (await later).text])
            assert here.own("config_last_reload_successful") == 0
            await asyncio.sleep(1000)
            reported.append("it goes on")

    with pytest.raises(SystemExit) as ended:
        run_stepped(main, start=JANUARY.starts)
    assert ended.value.code == 1
    assert reported == [
        "reload failed half way: internal error; the exporter exits\n",
        "not reloaded: the exporter is stopping\n",
    ]
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["CRITICAL"]
    assert "ZeroDivisionError" in caplog.text
    assert recorded(tmp_path / "state.json") == {"a": 5, "b": 5, "c": 1}


class _Running:
    """A daemon on the small platform, and its world."""

    def __init__(self, folder: Path) -> None:
        self.path, self.world = folder / "config.yaml", World()
        self.path.write_text(config(limited("a"), head=KEPT), encoding="utf-8")
        web = WebSettings(addresses=("127.0.0.1:0",), enable_lifecycle=True)
        self.daemon = Daemon(self._load(), {"small": self.world.platform}, web, load=self._load)

    def _load(self) -> Config:
        return load_config(self.path, environ={}, platforms={"small": SmallConfig})


def test_failed_swap_answers_stops_and_exits_with_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    reported: list[tuple[int, str]] = []

    async def main() -> None:
        running = _Running(tmp_path)
        daemon = running.daemon
        try:
            await daemon.start()
            await asyncio.sleep(1)
            monkeypatch.setattr(daemon.exporter.telemetry, "arrange", broken)
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.post(f"http://{daemon.server.addresses[0]}/-/reload")
            reported.append((answer.status_code, answer.text))
            await asyncio.Event().wait()
        finally:
            await daemon.stop()

    with pytest.raises(SystemExit) as ended:
        run_stepped(main, start=JANUARY.starts)
    assert ended.value.code == 1
    assert reported == [(500, "reload failed half way: internal error; the exporter exits\n")]
    assert caplog.records[-1].getMessage() == "stopped"
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["CRITICAL"]
    assert recorded(tmp_path / "state.json") == {"a": 5}


@pytest.mark.parametrize("who", ["_schedule", "server"])
def test_spent_calls_are_written_even_if_the_stop_times_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    async def main() -> None:
        running = _Running(tmp_path)
        daemon = running.daemon
        await daemon.start()
        await asyncio.sleep(61)
        loop = asyncio.get_running_loop()
        began = loop.time()
        with monkeypatch.context() as patch:
            patch.setattr(getattr(daemon, who), "stop", lambda: asyncio.sleep(1000))
            await asyncio.gather(daemon.stop(), daemon.stop())
        assert loop.time() - began == pytest.approx(3.5)
        assert recorded(tmp_path / "state.json") == {"a": 10}
        other = StateFile(tmp_path / "state.json")
        assert other.owned
        other.release()
        page = (tmp_path / "state.json").stat()
        await daemon._schedule.stop()
        await daemon.server.stop()
        await daemon.exporter.aclose()
        assert (tmp_path / "state.json").stat().st_ino == page.st_ino  # another's by now

    run_stepped(main, start=JANUARY.starts)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == [
        "shutdown timed out; closing all connections"
    ]


def test_hanging_config_holds_one_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_module, "_READ_SECONDS", 0.0)
    free = threading.Event()

    async def main() -> None:
        async with site(tmp_path, config("name: a"), caplog) as here:
            load = here.load

            def hung() -> Config:
                free.wait(10)
                return load()

            monkeypatch.setattr(here.reloader, "_load", hung)
            try:
                assert "could not be read within 0 s" in (await here.reloader.reload()).text
                (thread,) = _daemon_threads()
                for _ in range(3):
                    text = (await here.reloader.reload()).text
                    assert text == "not reloaded:\nan earlier reload is still reading the config; try again later\n"
                assert _daemon_threads() == [thread]
            finally:
                free.set()
            thread.join(10)
            monkeypatch.setattr(reload_module, "_READ_SECONDS", 30.0)
            await asyncio.sleep(0)
            assert (await here.reloader.reload()).success

    asyncio.run(main())


def _daemon_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]


def test_return_to_a_state_file_that_is_still_being_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_module, "_CLOSE_SECONDS", 0.0)
    replace, disk = state_file_module._replace, threading.Event()
    disk.set()

    def slow(path: Path, data: bytes) -> None:
        if path.name == "state.json":
            disk.wait(10)
        replace(path, data)

    monkeypatch.setattr(state_file_module, "_replace", slow)

    async def main() -> None:
        async with site(tmp_path, config(limited("a"), head=KEPT), caplog) as here:
            await _polls(here)
            disk.clear()
            assert (await here.reload(config(limited("a"), head=OTHER))).success
            with monkeypatch.context() as patch:
                patch.setattr(reload_module, "_LAST_PAGE_SECONDS", 0.0)
                assert "state.json is still being written" in (await here.reload(config(limited("a"), head=KEPT))).text
            asyncio.get_running_loop().call_later(0.05, disk.set)
            assert (await here.reload(config(limited("a"), head=KEPT))).success
            assert here.exporter.state.owned
            assert here.log(logging.WARNING) == []
            await here.exporter.aclose()  # first: a poll under way may spend more until then
            spent = int(here.spent("a"))
            for name in ("state.json", "other.json"):
                (row,) = json.loads((tmp_path / name).read_text())["spent"]
                assert row["calls"] == spent

    asyncio.run(main())


async def _polls(here: Site) -> None:
    await asyncio.gather(*(runner.first_poll_done.wait() for runner in here.exporter.runners))
