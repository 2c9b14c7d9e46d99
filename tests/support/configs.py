"""Configs and exporters of all installed platforms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, ProviderConfig, load_config
from trainfleet_exporter.providers.registry import installed_platforms


def written(folder: Path, text: str) -> Path:
    """Write a config file, and return its path."""
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def loaded(path: Path, environ: Mapping[str, str] | None = None) -> Config:
    """Return the config of a file. Without `environ`, no variable is set."""
    return load_config(path, environ=environ or {}, platforms=_platforms())


@cache
def _platforms() -> Mapping[str, type[ProviderConfig]]:
    return {name: platform.config for name, platform in installed_platforms().items()}


def exporter_of(path: Path, environ: Mapping[str, str] | None = None, **options: Any) -> Exporter:
    """Return an exporter on the config of a file."""
    return Exporter(loaded(path, environ), installed_platforms(), **options)
