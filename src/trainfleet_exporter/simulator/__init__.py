"""The simulated clouds: real HTTP, real signatures, one seeded world in which time passes.

Of the exporter it knows the signature only; everything else is written anew from what the services document, so that
a misunderstanding of the exporter's is not repeated here.
"""

from trainfleet_exporter.simulator.faults import Fault
from trainfleet_exporter.simulator.server import Simulator

__all__ = ["Fault", "Simulator"]
