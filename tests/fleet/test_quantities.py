"""What readings count: values in base units, and what cannot be true."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.families.usage import MEASURES, Quantity
from trainfleet_exporter.fleet.quantities import UNITS, convert_each
from trainfleet_exporter.fleet.usage import NewestReadings, Subjects


@given(st.floats() | st.floats(0, 300), st.sampled_from(sorted(UNITS)), st.data())
def test_a_converted_value_is_finite_and_in_range(raw: float, quantity: Quantity, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(sorted(UNITS[quantity])))
    (value,) = convert_each([raw], UNITS[quantity][unit], quantity)
    assert value is None or (math.isfinite(value) and value >= (-50 if quantity == "celsius" else 0))
    if value is not None and quantity == "bounded_ratio":
        assert value <= 1


def test_a_whole_is_as_old_as_its_values() -> None:
    found = NewestReadings("pod", {"j": 0.0}, Subjects(), now=160.0, max_age=160.0)
    found.take([("j", pod) for pod in "abcd"], [100.0, 40.0, 160.0, 120.0], [0.5, None, None, 0.25])
    (whole,) = found.of_families({MEASURES["cpu_utilization_ratio"].of("job"): 1.0}, period=0)
    assert (*whole.values, *whole.oldest, *whole.newest) == (0.375, 100.0, 120.0)
