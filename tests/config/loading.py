"""Configs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.configs import loaded, written
from trainfleet_exporter.config import Config
from trainfleet_exporter.errors import ConfigError
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig

MINIMAL = """\
providers:
  - name: pai
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: hunter2}
"""


def load(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Config:
    """Load a config of this text from `folder`."""
    return loaded(written(folder, text), environ)


def load_provider(folder: Path, *lines: str, environ: Mapping[str, str] | None = None) -> AlibabaPaiConfig:
    """The provider of the minimal config with more lines in it."""
    text = MINIMAL + "".join(f"    {line}\n" for line in lines)
    (provider,) = load(folder, text, environ).providers
    assert isinstance(provider, AlibabaPaiConfig)
    return provider


def faults(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with a config of this text, without the file's name."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, environ)
    return [str(fault).removeprefix(str(folder / "config.yaml")).lstrip(":") for fault in caught.value.faults]
