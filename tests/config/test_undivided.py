"""A key that a platform cannot follow is refused, and what is written of a config without it reads back."""

from __future__ import annotations

from pathlib import Path

from tests.config.loading import UndividedConfig, load
from trainfleet_exporter.config import load_config, redacted

_TEXT = "providers: [{name: a, platform: undivided, region: north-1, sharding: {spread: 2}}]\n"


def test_undivided_platform_accepts_its_own_config_again(tmp_path: Path) -> None:
    path = tmp_path / "undivided.yaml"
    path.write_text(_TEXT, encoding="utf-8")
    platforms = {"undivided": UndividedConfig}
    config = load_config(path, environ={}, platforms=platforms)
    path.write_text(redacted(config), encoding="utf-8")
    assert load_config(path, environ={}, platforms=platforms) == config


def test_platforms_that_come_along_divide_workspaces(tmp_path: Path) -> None:
    text = (
        "providers:\n"
        "  - {name: a, platform: alibaba_pai, region: cn-hangzhou, sharding: {split_workspaces_above: 9},\n"
        "     credentials: {access_key_id: id, access_key_secret: hunter2}}\n"
        "  - {name: b, platform: huawei_modelarts, region: cn-north-4, sharding: {split_workspaces_above: 9},\n"
        "     credentials: {access_key: id, secret_key: hunter2}}\n"
    )
    assert [found.sharding.split_workspaces_above for found in load(tmp_path, text).providers] == [9, 9]
