"""Tables of cases: unexpected behaviour of an API, and the resulting samples and logs."""

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
"""A case: it writes responses of the cloud, polls, and checks the published samples."""


class Traps:
    """The cases of a test module by name, each with its config."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._cases: dict[str, tuple[Check, str]] = {}

    @property
    def names(self) -> list[str]:
        """The names of the cases, in the order of the module."""
        return list(self._cases)

    def __call__(self, name: str, config: str = "") -> Callable[[Check], Check]:
        """Return a decorator that adds a case. Without a config, it has the config of the table."""

        def enter(check: Check) -> Check:
            assert name not in self._cases
            self._cases[name] = check, config or self._config
            return check

        return enter

    def run(
        self, name: str, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Run a case in stepped time with an exporter on the cloud."""
        check, config = self._cases[name]

        async def main() -> None:
            async with Fleet(cloud, tmp_path, monkeypatch, caplog, config=config) as fleet:
                await check(cloud, fleet)

        with caplog.at_level(logging.DEBUG):
            run_stepped(main)
