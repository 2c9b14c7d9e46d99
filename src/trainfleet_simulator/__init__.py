"""The simulated clouds: real HTTP, real signatures, seeded worlds in which time passes.

Of the exporter they know the signatures only; everything else is written anew from what the services document, so that
a misunderstanding of the exporter's is not repeated here.
"""

from trainfleet_simulator.fault_kinds import KINDS
from trainfleet_simulator.faults import Fault
from trainfleet_simulator.listener import Listener
from trainfleet_simulator.server import Simulator

__all__ = ["KINDS", "Fault", "Listener", "Simulator"]
