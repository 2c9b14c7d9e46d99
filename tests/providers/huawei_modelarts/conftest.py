"""Fleets on a scripted project with AOM."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud
from tests.providers.huawei_modelarts.usage.usage_rig import FleetOf, Page
from tests.support.fleet import Fleet


@pytest.fixture
def fleet_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> FleetOf:
    """Open a fleet with the given config on a new project; no series may be published twice."""
    caplog.set_level(logging.INFO)

    @asynccontextmanager
    async def opened(config: str = CONFIG) -> AsyncIterator[tuple[Cloud, Fleet]]:
        cloud = Cloud()
        cloud.aom = {}
        async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
            page = Page(fleet.exporter)
            yield cloud, fleet
            assert page.changes > 0
            assert page.faults == []

    return opened
