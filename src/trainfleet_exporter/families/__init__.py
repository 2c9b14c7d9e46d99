"""The table of metrics: every family that is made from what clouds report, in the order of the public contract.

HELP texts, heads, the series forecast, `metrics.deny` and the tests all read this one table. It names no cloud: the
APIs and fields that feed a family are in docs/metrics.md. The exporter's telemetry about itself, and
`trainfleet_provider_up`, are made elsewhere.
"""

from __future__ import annotations

from trainfleet_exporter.families.family import KEYS, MetricFamily
from trainfleet_exporter.families.table import FAMILIES

__all__ = ["FAMILIES", "KEYS", "MetricFamily"]
