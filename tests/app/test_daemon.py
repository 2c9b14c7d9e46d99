"""The daemon: what it runs besides its polls, from start to stop."""

from __future__ import annotations

from asyncio import sleep
from pathlib import Path

from tests.app.reload_rig import SmallConfig, World, config, limited
from tests.support.clock import run_stepped
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.config import load_config
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page.blocks import CHUNK_BYTES


def test_pages_are_kept_built_until_it_stops(tmp_path: Path) -> None:
    path, family = tmp_path / "config.yaml", FAMILIES[-1].name
    path.write_text(config(limited("a")), encoding="utf-8")

    async def main() -> None:
        loaded = load_config(path, environ={}, platforms={"small": SmallConfig})
        daemon = Daemon(loaded, {"small": World().platform}, WebSettings(addresses=("127.0.0.1:0",)))
        page_store = daemon.exporter.page_store
        try:
            await daemon.start()
            await sleep(1)
            page_store.put("large", {family: [b"x 1\n" * (CHUNK_BYTES // 4)]})
            assert not page_store.page().samples(family)
            await sleep(5)
            assert page_store.page().samples(family)
        finally:
            await daemon.stop()
        page_store.put("large", {family: [b"x 2\n" * (CHUNK_BYTES // 4)]})
        await sleep(5)
        assert page_store.page().samples(family)[0].startswith(b"x 1\n")

    run_stepped(main)
