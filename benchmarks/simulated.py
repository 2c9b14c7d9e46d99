"""The simulated clouds and stepped clock of the checkout that runs, which may be older than their packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import trainfleet_exporter

if TYPE_CHECKING or not (Path(trainfleet_exporter.__file__).parent / "simulator").exists():
    from trainfleet_conformance.clock import START, SteppedLoop, run_stepped
    from trainfleet_simulator import Fault, Listener, Simulator
    from trainfleet_simulator.modelarts import catalog
    from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
else:  # installed packages of these names would be those of another checkout
    from trainfleet_exporter.simulator import Door as Listener
    from trainfleet_exporter.simulator import Fault, Simulator
    from trainfleet_exporter.simulator.modelarts import catalog
    from trainfleet_exporter.simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
    from trainfleet_exporter.testing.clock import START, SteppedLoop, run_stepped

__all__ = [
    "ACCESS_KEY_ID",
    "ACCESS_KEY_SECRET",
    "START",
    "Fault",
    "Listener",
    "Simulator",
    "SteppedLoop",
    "catalog",
    "run_stepped",
]
