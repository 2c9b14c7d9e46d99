"""The conformance kit: all checks, as one class to derive from."""

from __future__ import annotations

from trainfleet_conformance.budgets import BudgetChecks
from trainfleet_conformance.contract import ContractChecks
from trainfleet_conformance.faults import FaultChecks
from trainfleet_conformance.hygiene import PlatformChecks
from trainfleet_conformance.parts import PartChecks
from trainfleet_conformance.sharing import SharingChecks
from trainfleet_conformance.silence import SecretChecks
from trainfleet_conformance.statuses import StatusChecks


class ProviderConformance(
    ContractChecks, StatusChecks, PartChecks, FaultChecks, BudgetChecks, SecretChecks, PlatformChecks, SharingChecks
):
    """What the exporter promises of every cloud, held against one provider.

    Derive a class whose name begins with `Test`, and say of your cloud what ProviderCase asks for. A whole exporter
    polls your pretend cloud over loopback HTTP, in stepped time: hours take seconds.
    """
