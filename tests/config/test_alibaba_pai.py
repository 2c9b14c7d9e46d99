"""The config of platform `alibaba_pai`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.loading import load_provider
from trainfleet_exporter.providers.alibaba_pai.metrics import FAMILIES, UNITS, Choice


@pytest.mark.parametrize("suffix", sorted(FAMILIES))
def test_every_family_of_the_table_can_be_fed_otherwise(tmp_path: Path, suffix: str) -> None:
    for unit in UNITS[FAMILIES[suffix].quantity]:
        profiling = f"profiling: [{FAMILIES[suffix].profile}], " if FAMILIES[suffix].profile else ""
        given = f"collectors: {{usage: {{{profiling}metrics: {{{suffix}: {{name: X, unit: '{unit}'}}}}}}}}"
        choices = load_provider(tmp_path, given).collectors.usage.metrics.choices()
        assert choices == {suffix: Choice("X", unit)}
