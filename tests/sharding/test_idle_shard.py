"""A shard that no provider belongs to: ready, with its own metrics, and one line in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx
import pytest

from tests.support.clock import run_stepped
from tests.support.configs import loaded, written
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.cli import main
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import Shard, apportioned, owner

_TOTAL = 3
_TEXT = """\
providers:
  - name: only
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: secret}
"""
_IDLE = next(ordinal for ordinal in range(_TOTAL) if ordinal != owner("only", _TOTAL))
_LINE = "no provider of the config belongs to this shard; it polls nothing"


@pytest.fixture
def flags(tmp_path: Path) -> list[str]:
    path = tmp_path / "config.yaml"
    path.write_text(_TEXT, encoding="utf-8")
    return [f"--config.file={path}", f"--shard={_IDLE}", f"--total-shards={_TOTAL}"]


def test_an_idle_shard_is_ready_and_serves_its_own_metrics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shard = Shard(_IDLE, _TOTAL)

    async def check() -> None:
        config = apportioned(loaded(written(tmp_path, _TEXT)), shard)
        web = WebSettings(addresses=("127.0.0.1:0",))
        daemon = Daemon(config, installed_platforms(), web, load=lambda: config, shard=shard)
        await daemon.start()
        try:
            base = f"http://{daemon.server.addresses[0]}"
            async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
                assert (await client.get("/-/ready")).status_code == 200
                assert (await client.get("/")).status_code == 200
                page = (await client.get("/metrics")).text
        finally:
            await daemon.stop()
        assert f"\ntrainfleet_exporter_shard_ordinal {_IDLE}.0\n" in page
        assert f"\ntrainfleet_exporter_total_shards {_TOTAL}.0\n" in page
        assert 'provider="' not in page

    with caplog.at_level(logging.INFO):
        run_stepped(check)
    assert [record.getMessage() for record in caplog.records].count(_LINE) == 1


def test_once_prints_the_own_metrics_of_an_idle_shard(
    flags: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["once", *flags]) == 0
    printed = capfdbinary.readouterr()
    assert f"\ntrainfleet_exporter_shard_ordinal {_IDLE}.0\n".encode() in printed.out
    assert b'provider="' not in printed.out
    assert printed.err.count(_LINE.encode()) == 1
