"""Fleets on a scripted SageMaker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.providers.aws_sagemaker.cloud import CONFIG, Cloud, FleetOf
from tests.support.fleet import Fleet


@pytest.fixture
def fleet_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> FleetOf:
    """Make a fleet on a cloud, with the given config."""
    caplog.set_level(logging.INFO)

    def make(cloud: Cloud, config: str = CONFIG) -> Fleet:
        return Fleet(cloud, tmp_path, monkeypatch, caplog, config=config)

    return make
