"""The readings of one job or pool: what is shown of them, what is made of them, and what is dropped."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.exposition import lines
from trainfleet_exporter.families.usage import MEASURES, Family, Level
from trainfleet_exporter.providers.usage.sheet import Sheet

NOW = 1_767_323_040.0


def family(suffix: str, level: Level = "pod") -> Family:
    found = MEASURES[suffix].at(level)
    assert found is not None
    return found


CPU, RECEIVED = family("cpu_utilization_ratio"), family("network_receive_bytes_per_second")
CARDS, CARD = family("accelerator_utilization_ratio"), family("accelerator_utilization_ratio", "device")


def shown(objects: Any) -> dict[str, float]:
    """Values by series, without the common beginnings."""
    found = {}
    for line in lines(objects).splitlines():
        series, _, value = line.removeprefix("trainfleet_").rpartition(" ")
        found[series.replace('provider="p",', "")] = float(value)
    return found


def test_a_job_has_the_mean_of_ratios_and_the_sum_of_amounts() -> None:
    sheet = Sheet("a")
    for pod, percent in (("a-0", 10.0), ("a-1", 20.0)):
        assert sheet.put(CPU, (pod,), percent, 0.01)
        assert sheet.put(RECEIVED, (pod,), percent, 1e6)
    assert shown(sheet.of_job("some source")) == {
        'job_usage_info{job_id="a",source="some source"}': 1,
        'job_cpu_utilization_ratio{job_id="a"}': 0.15,
        'job_network_receive_bytes_per_second{job_id="a"}': 30e6,
        'pod_cpu_utilization_ratio{job_id="a",pod_id="a-0"}': 0.1,
        'pod_cpu_utilization_ratio{job_id="a",pod_id="a-1"}': 0.2,
        'pod_network_receive_bytes_per_second{job_id="a",pod_id="a-0"}': 10e6,
        'pod_network_receive_bytes_per_second{job_id="a",pod_id="a-1"}': 20e6,
    }


def test_a_sum_that_lacks_a_pod_is_not_shown_and_a_mean_is() -> None:
    sheet = Sheet("a")
    sheet.put(CPU, ("a-0",), 10, 0.01)
    sheet.put(CPU, ("a-1",), 20, 0.01)
    sheet.put(RECEIVED, ("a-0",), 1, 1.0)
    found = shown(sheet.of_job("s"))
    assert found['job_cpu_utilization_ratio{job_id="a"}'] == 0.15
    assert not any(series.startswith("job_network") for series in found)


@pytest.mark.parametrize("spoilt", [None, RECEIVED])
def test_a_reading_that_could_not_be_used_spoils_its_sum(spoilt: Family | None) -> None:
    sheet = Sheet("a")
    sheet.put(CPU, ("a-0",), 10, 0.01)
    sheet.put(RECEIVED, ("a-0",), 1, 1.0)
    sheet.spoil(spoilt)
    found = shown(sheet.of_job("s"))
    assert found['job_cpu_utilization_ratio{job_id="a"}'] == 0.1
    assert not any(series.startswith("job_network") for series in found)
    assert any(series.startswith("pod_network") for series in found)


def test_pods_that_fell_silent_are_shown_and_count_no_more() -> None:
    sheet = Sheet("a", now=NOW, max_age=900)
    for pod, age in (("a-0", 0), ("a-1", 180), ("a-2", 181)):
        sheet.put(RECEIVED, (pod,), 1, 1.0, time=NOW - age)
    found = shown(sheet.of_job("s"))
    assert found['job_network_receive_bytes_per_second{job_id="a"}'] == 2
    assert found['job_usage_timestamp_seconds{job_id="a"}'] == NOW
    assert sum(series.startswith("pod_network") for series in found) == 3


def test_readings_that_became_too_old_go() -> None:
    sheet = Sheet("a", now=NOW, max_age=900)
    sheet.put(CPU, ("a-0",), 10, 0.01, time=NOW - 60)
    sheet.put(CPU, ("a-1",), 20, 0.01, time=NOW - 100)
    assert sheet.oldest() == NOW - 100
    assert sheet.oldest(NOW - 99) == NOW - 60
    fresh = shown(sheet.of_job("s", since=NOW - 99))
    assert fresh['job_cpu_utilization_ratio{job_id="a"}'] == 0.1
    assert sheet.of_job("s", since=NOW) == []


def test_what_cannot_be_shown_is_counted() -> None:
    sheet = Sheet("a", now=NOW, max_age=900)
    assert not sheet.put(CARDS, ("a-0",), 103, 0.01)
    assert not sheet.put(CARDS, ("a-0",), 50, 0.01, time=NOW - 901)
    assert sheet.put(CARDS, ("a-0",), 50, 0.01, time=NOW)
    assert not sheet.put(CARDS, ("a-0",), 60, 0.01, time=NOW)
    assert not sheet.put(CARDS, ("a-0",), 60, 0.01, time=NOW, kind="npu")  # a pod has one value of each field
    assert sheet.dropped == Counter(out_of_range=1, stale=1, duplicate=2)
    assert not Sheet("a")
    assert sheet


def test_cards_are_shown_as_they_are_and_make_nothing() -> None:
    sheet = Sheet("a")
    for kind, card in (("gpu", "0"), ("gpu", "1"), ("npu", "0")):
        assert sheet.put(CARD, ("a-0", card, kind), 50, 0.01)
    assert not sheet.put(CARD, ("a-0", "0", "npu"), 50, 0.01)
    assert sheet.of_job("s") == []
    assert list(shown(sheet.readings())) == [
        f'device_utilization_ratio{{job_id="a",pod_id="a-0",device="{card}",accelerator="{kind}"}}'
        for kind, card in (("gpu", "0"), ("gpu", "1"), ("npu", "0"))
    ]


def test_a_pool_has_both_kinds_of_accelerators() -> None:
    sheet, pool = Sheet("pool"), family("accelerator_utilization_ratio", "pool")
    assert sheet.put(pool, (), 50, 0.01, kind="gpu")
    assert sheet.put(pool, (), 60, 0.01, kind="npu")
    assert shown(sheet.readings()) == {
        'pool_accelerator_utilization_ratio{pool_id="pool",accelerator="gpu"}': 0.5,
        'pool_accelerator_utilization_ratio{pool_id="pool",accelerator="npu"}': 0.6,
    }
