"""The conformance kit: all checks, as one class to derive from."""

from __future__ import annotations

from trainfleet_exporter.testing.budgets import BudgetChecks
from trainfleet_exporter.testing.contract import ContractChecks
from trainfleet_exporter.testing.faults import FaultChecks
from trainfleet_exporter.testing.hygiene import PlatformChecks
from trainfleet_exporter.testing.parts import PartChecks
from trainfleet_exporter.testing.sharing import SharingChecks
from trainfleet_exporter.testing.silence import SecretChecks
from trainfleet_exporter.testing.statuses import StatusChecks


class ProviderConformance(
    ContractChecks, StatusChecks, PartChecks, FaultChecks, BudgetChecks, SecretChecks, PlatformChecks, SharingChecks
):
    """What the exporter promises of every cloud, held against one provider.

    Derive a class whose name begins with `Test`, and say of your cloud what ProviderCase asks for. A whole exporter
    polls your pretend cloud over loopback HTTP, in stepped time: hours take seconds.
    """
