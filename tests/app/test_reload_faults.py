"""Reloads, and the stop, where something fails half way: what is said is true."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from tests.app.rig import Site, config, site
from tests.support.clock import run_stepped
from trainfleet_exporter.app import reload as reload_module
from trainfleet_exporter.config import Config
from trainfleet_exporter.process.threads import THREAD_NAME


def broken(*_: object, **__: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("where", ["apply", "schedule"])
def test_failed_swap_answers_stops_and_exits_with_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    caplog.set_level(logging.INFO)
    reported: list[tuple[int, str]] = []

    async def main() -> None:
        here = Site(tmp_path)
        daemon = here.daemon
        try:
            await daemon.start()
            await asyncio.sleep(1)
            if where == "apply":
                monkeypatch.setattr(here.exporter.telemetry, "arrange", broken)
            else:
                monkeypatch.setattr(here.schedule, "add", broken)
            answer = await here.post(config("name: b"))
            reported.append((answer.status_code, answer.text))
            await asyncio.sleep(1000)
        finally:
            await daemon.stop()

    with pytest.raises(SystemExit) as ended:
        run_stepped(main)
    assert ended.value.code == 1
    assert reported == [(500, "reload failed half way: internal error; the exporter exits\n")]
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == ["CRITICAL"]
    assert "ZeroDivisionError" in caplog.text


def test_hanging_config_holds_one_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload_module, "_READ_SECONDS", 0.0)
    free = threading.Event()

    async def main() -> None:
        async with site(tmp_path, config("name: a"), caplog) as here:
            load, before = here.load, set(_daemon_threads())

            def hung() -> Config:
                free.wait(10)
                return load()

            monkeypatch.setattr(here.reloader, "_load", hung)
            try:
                assert "could not be read within 0 s" in (await here.reloader.reload()).text
                (thread,) = set(_daemon_threads()) - before
                for _ in range(3):
                    text = (await here.reloader.reload()).text
                    assert text == "not reloaded:\nan earlier reload is still reading the config; try again later\n"
                assert set(_daemon_threads()) - before == {thread}
            finally:
                free.set()
            thread.join(10)
            monkeypatch.setattr(reload_module, "_READ_SECONDS", 30.0)
            await asyncio.sleep(0)
            assert (await here.reloader.reload()).success

    asyncio.run(main())


def _daemon_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD_NAME]
