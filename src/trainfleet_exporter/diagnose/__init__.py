"""What an operator wants to know before it hurts: rights, endpoints, series, calls against limits, what to change."""

from trainfleet_exporter.diagnose.examine import examine
from trainfleet_exporter.diagnose.report import ProviderReport
from trainfleet_exporter.diagnose.tables import show

__all__ = ["ProviderReport", "examine", "show"]
