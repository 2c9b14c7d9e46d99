"""HELP of a usage family names the metric that each bulk source feeds it from."""

from __future__ import annotations

import pytest

from trainfleet_exporter.exposition.families import FAMILIES
from trainfleet_exporter.providers.alibaba_pai import metric_map as cloudmonitor
from trainfleet_exporter.providers.huawei_modelarts import metric_map as aom

HELP = {family.name: family.help for family in FAMILIES}


@pytest.mark.parametrize("suffix", [suffix for suffix, family in cloudmonitor.FAMILIES.items() if family.names])
def test_cloudmonitor_s_first_candidate(suffix: str) -> None:
    assert cloudmonitor.FAMILIES[suffix].names[0] in HELP[f"trainfleet_{suffix}"]


@pytest.mark.parametrize("suffix", [family.suffix for family in cloudmonitor.POOL_FAMILIES if not family.names])
def test_what_nothing_feeds_says_so(suffix: str) -> None:
    assert "none by default" in HELP[f"trainfleet_{suffix}"]


@pytest.mark.parametrize("reading", aom.READINGS, ids=lambda reading: reading.suffix)
def test_aom_s_first_candidates(reading: aom.Reading) -> None:
    families = [f"job_{reading.suffix}", f"pod_{reading.suffix}"]
    families += [] if reading.device is None else [f"device_{reading.device[0]}"]
    for source in reading.sources:
        for family in families:
            assert source.names[0][0] in HELP[f"trainfleet_{family}"]
