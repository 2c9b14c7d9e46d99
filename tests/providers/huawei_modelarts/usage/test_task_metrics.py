"""Answers about a task's metrics, whatever they hold: possible values, and never an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.payloads import payload
from trainfleet_exporter.providers.huawei_modelarts.payloads import Metrics
from trainfleet_exporter.providers.huawei_modelarts.usage.task_metrics import add_cards, add_pod
from trainfleet_exporter.providers.usage.sheet import Sheet

_INTERVALS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["x", "", "0", "1e-320", "1e400", "-1", "nan", "٣", "9" * 50])
    | st.lists(st.integers(), max_size=1)
)
_VALUES = st.lists(st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["1", "-1", "x"]))
_ITEMS = st.fixed_dictionaries(
    {"metric": st.sampled_from(["cpuUsage", "npuUtil", "npu0Util", "gpuMemUsage", "x"]), "value": _VALUES | st.none()}
)


@given(_INTERVALS, st.lists(_ITEMS, max_size=5))
@example(1e-320, [{"metric": "cpuUsage", "value": [50]}])
@example("1e-320", [{"metric": "cpuUsage", "value": [50]}])
@example(5e-324, [{"metric": "npuUtil", "value": [50]}])
def test_no_interval_breaks_the_translation(interval: object, items: list[dict[str, Any]]) -> None:
    answer = payload({"interval": interval, "metrics": items}, Metrics)
    sheet = Sheet("job")
    add_pod(sheet, "pod", answer)
    assert sum(sheet.dropped.values()) <= len(items) + 1
    add_cards(sheet, "pod", answer)
    shown = sheet.readings()
    assert all(value >= 0 for readings in shown for value in readings.values)
    series = [(readings.field, subject.keys) for readings in shown for subject in readings.subjects]
    assert len(set(series)) == len(series)


@pytest.mark.parametrize("interval", [1e-320, "1e-320", 0, "0", -1, "x", None, True, 0.001, 10**400])
def test_an_interval_that_is_none_counts_as_a_minute(interval: object) -> None:
    def latest(interval: object, back: int) -> object:
        answer = {"interval": interval, "metrics": [{"metric": "cpuUsage", "value": [20, *[-1] * back]}]}
        sheet = Sheet("job")
        add_pod(sheet, "pod", payload(answer, Metrics))
        return next((readings.values[0] for readings in sheet.readings()), None)

    assert [latest(interval, back) for back in range(30)] == [latest(1, back) for back in range(30)]
    assert (latest(interval, 1), latest(interval, 29)) == (0.2, None)
