"""A month of calls, as the simulated cloud counts them."""

from __future__ import annotations

import pytest

from tests.pacing.month import ALLOWED, calls_of_a_month

pytestmark = pytest.mark.long


@pytest.mark.parametrize("allowed", ALLOWED)
def test_a_month_has_at_most_the_allowed_calls(allowed: int) -> None:
    assert 0.9 * allowed <= calls_of_a_month(allowed) <= 1.05 * allowed
