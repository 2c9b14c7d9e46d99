"""The simulated clouds of the checkout that runs, which may be older than `trainfleet_simulator`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import trainfleet_exporter

if TYPE_CHECKING or not (Path(trainfleet_exporter.__file__).parent / "simulator").exists():
    from trainfleet_simulator import Door, Fault, Simulator
    from trainfleet_simulator.modelarts import catalog
    from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
else:  # an installed `trainfleet_simulator` would be that of another checkout
    from trainfleet_exporter.simulator import Door, Fault, Simulator
    from trainfleet_exporter.simulator.modelarts import catalog
    from trainfleet_exporter.simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

__all__ = ["ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "Door", "Fault", "Simulator", "catalog"]
