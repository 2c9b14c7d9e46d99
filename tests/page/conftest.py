"""The fixture of tests that count the builds of pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from trainfleet_exporter.page import store as store_module


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The families of each build, as the thread gets them."""
    builds: list[list[str]] = []
    compress = store_module._compress

    def noted(gathered: Mapping[str, Any]) -> Any:
        builds.append(list(gathered))
        return compress(gathered)

    monkeypatch.setattr(store_module, "_compress", noted)
    return builds
