"""Configs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from trainfleet_exporter.config import Config, ProviderConfig, load_config
from trainfleet_exporter.errors import ConfigError
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.aws_sagemaker.config import AwsSageMakerConfig
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig

PLATFORMS: dict[str, type[ProviderConfig]] = {
    "alibaba_pai": AlibabaPaiConfig,
    "aws_sagemaker": AwsSageMakerConfig,
    "huawei_modelarts": HuaweiModelArtsConfig,
}

MINIMAL = """\
providers:
  - name: pai
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: hunter2}
"""


def load(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Config:
    """Load a config of this text from `folder`."""
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ=environ or {}, platforms=PLATFORMS)


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
