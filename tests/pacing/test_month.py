"""A month of calls, as the simulated cloud counts them."""

from __future__ import annotations

import pytest

from tests.pacing.month import calls_of_a_month


@pytest.mark.long
def test_a_month_has_at_most_the_allowed_calls() -> None:
    assert 900 <= calls_of_a_month(1_000) <= 1_050
