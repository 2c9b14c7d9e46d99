"""What the tests of faults share."""

from __future__ import annotations

import pytest

from tests.simulator.rig import Rig


@pytest.fixture(scope="module")
def rig() -> Rig:
    """Both clouds behind a socket, without faults."""
    return Rig()
