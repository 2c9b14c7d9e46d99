"""The conformance kit for providers, in whichever package they live, and what their other tests need.

    class TestMyCloud(ProviderConformance):
        platform = PLATFORM
        ...

Installed with the extra `testing`; the daemon does without it, and imports nothing from here.
"""

from trainfleet_conformance.cloud import PretendCloud
from trainfleet_conformance.conformance import ProviderConformance
from trainfleet_conformance.doors import PUBLIC

__all__ = ["PUBLIC", "PretendCloud", "ProviderConformance"]
