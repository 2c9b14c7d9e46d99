"""The simulated clouds: real HTTP, real signatures, seeded worlds in which time passes.

They import nothing from the exporter and follow the documentation of the services, so that the exporter and the
simulator do not misread a field in the same way.
"""

from trainfleet_simulator.faults import KINDS, Fault
from trainfleet_simulator.listener import Listener
from trainfleet_simulator.server import Simulator

__all__ = ["KINDS", "Fault", "Listener", "Simulator"]
