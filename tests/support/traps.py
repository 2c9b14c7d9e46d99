"""Tables of cases: what an API does unexpectedly, and what the exporter makes of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.clock import run_stepped
from tests.support.fleet import Fleet

Cloud = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]
Check = Callable[[Any, Fleet], Awaitable[None]]
"""Writes a cloud's answers, polls, and reads what is published."""


class Traps:
    """The cases of one test module by name, each with its config."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._cases: dict[str, tuple[Check, str]] = {}

    @property
    def names(self) -> list[str]:
        """The names of the cases, in their order."""
        return list(self._cases)

    def __call__(self, name: str, config: str = "") -> Callable[[Check], Check]:
        """Enter a case into the table. Without a config it has that of the table."""

        def enter(check: Check) -> Check:
            assert name not in self._cases
            self._cases[name] = check, config or self._config
            return check

        return enter

    def run(
        self,
        name: str,
        cloud: Cloud,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Run a case on an exporter that polls the cloud, in stepped time."""
        check, config = self._cases[name]

        async def main() -> None:
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                await check(cloud, fleet)

        with caplog.at_level(logging.DEBUG):
            run_stepped(main)
