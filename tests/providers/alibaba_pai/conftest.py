"""Fleets on a scripted cloud."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, FleetOf
from tests.support.fleet import Fleet


@pytest.fixture
def config() -> str:
    """The config of a fleet; test modules override it."""
    return CONFIG


@pytest.fixture
def fleet_of(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> FleetOf:
    """Make a fleet on a cloud, with the given config."""
    caplog.set_level(logging.INFO)

    def make(cloud: Cloud, config: str = config) -> Fleet:
        return Fleet(cloud, tmp_path, monkeypatch, caplog, config=config)

    return make
