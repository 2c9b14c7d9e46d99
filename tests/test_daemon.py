"""The daemon: what it runs beside its polls, from the start to the stop."""

from __future__ import annotations

from asyncio import sleep
from pathlib import Path

from tests.reload_rig import SmallConfig, World
from tests.support.clock import run_stepped
from tests.test_reload_budgets import config, limited
from trainfleet_exporter.config import load_config
from trainfleet_exporter.daemon import Daemon, WebSettings
from trainfleet_exporter.exposition.piece import PIECE_LIMIT
from trainfleet_exporter.families import FAMILIES


def test_pages_are_kept_ready_until_it_stops(tmp_path: Path) -> None:
    path, family = tmp_path / "config.yaml", FAMILIES[-1].name
    path.write_text(config(limited("a")), encoding="utf-8")

    async def main() -> None:
        loaded = load_config(path, environ={}, platforms={"small": SmallConfig})
        daemon = Daemon(loaded, {"small": World().platform}, WebSettings(addresses=("127.0.0.1:0",)))
        board = daemon.exporter.board
        try:
            await daemon.start()
            await sleep(1)
            board.put("large", {family: [b"x 1\n" * (PIECE_LIMIT // 4)]})
            assert not board.page().samples(family)
            await sleep(5)
            (piece,) = board.page().samples(family)
            assert piece.is_deflated
        finally:
            await daemon.stop()
        await sleep(0)
        board.put("large", {family: [b"x 2\n" * (PIECE_LIMIT // 4)]})
        assert board.page().samples(family)[0].data.startswith(b"x 2\n")

    run_stepped(main)
