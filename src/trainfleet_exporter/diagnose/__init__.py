"""The command `diagnose`: poll once and report permissions, endpoints, series, calls and what to change."""

from trainfleet_exporter.diagnose.examine import examine
from trainfleet_exporter.diagnose.report import ProviderReport
from trainfleet_exporter.diagnose.tables import show

__all__ = ["ProviderReport", "examine", "show"]
