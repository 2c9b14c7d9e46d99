"""Runs on stepped time, on a scripted cloud."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, Run
from tests.support.clock import run_stepped
from tests.support.fleet import Fleet


@pytest.fixture
def config() -> str:
    """The config of a fleet; test modules override it."""
    return CONFIG


@pytest.fixture
def run(config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Run:
    """Run a test's steps on a fleet with the given config, in stepped time."""
    caplog.set_level(logging.INFO)

    def run_steps(cloud: Cloud, steps: Callable[[Fleet], Awaitable[None]], config: str = config) -> None:
        async def main() -> None:
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                await steps(fleet)

        run_stepped(main)

    return run_steps
