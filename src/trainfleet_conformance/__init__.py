"""The conformance kit for providers of any package, and tools for their other tests.

    class TestMyCloud(ProviderConformance):
        platform = PLATFORM
        ...

Installed with the extra `testing`. The daemon does not import it.
"""

from trainfleet_conformance.contract import ContractChecks
from trainfleet_conformance.faults import FaultChecks
from trainfleet_conformance.operation import OperationChecks
from trainfleet_conformance.parts import PartChecks
from trainfleet_conformance.public_api import PUBLIC
from trainfleet_conformance.stage import PretendCloud

__all__ = ["PUBLIC", "PretendCloud", "ProviderConformance"]


class ProviderConformance(ContractChecks, PartChecks, FaultChecks, OperationChecks):
    """Checks the promises of the exporter for one provider.

    Derive a class whose name begins with `Test`, and define the members of ProviderCase for your cloud. An exporter
    polls your simulated cloud over loopback HTTP, in stepped time: hours take seconds.
    """
