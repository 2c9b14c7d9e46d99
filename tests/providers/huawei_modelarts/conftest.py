"""Runs on stepped time on a scripted project with AOM."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.providers.huawei_modelarts.cloud import CONFIG, Cloud
from tests.providers.huawei_modelarts.usage.usage_rig import Check, Page, Run
from tests.support.clock import run_stepped
from tests.support.fleet import Fleet


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Run:
    """Run a check on a fleet; no series may be published twice."""

    def run_check(check: Check, config: str = CONFIG) -> None:
        async def main() -> None:
            cloud = Cloud()
            cloud.aom = {}
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                page = Page(fleet.exporter)
                await check(cloud, fleet)
                assert page.changes > 0
                assert page.faults == []

        with caplog.at_level(logging.INFO):
            run_stepped(main)

    return run_check
