"""The table of metrics: every family that is made from what clouds report, in the order of the public contract.

HELP texts, heads, the series forecast, `metrics.deny` and the tests all read this one table. The exporter's telemetry
about itself, and `trainfleet_provider_up`, are made elsewhere.
"""

from __future__ import annotations

from trainfleet_exporter.exposition.family import KEYS, Family
from trainfleet_exporter.exposition.fleet_families import FLEET_FAMILIES, QUOTA_FAMILIES
from trainfleet_exporter.exposition.job_families import JOB_FAMILIES
from trainfleet_exporter.exposition.node_families import NODE_FAMILIES
from trainfleet_exporter.exposition.pod_families import POD_FAMILIES
from trainfleet_exporter.exposition.pool_families import POOL_FAMILIES
from trainfleet_exporter.exposition.usage_families import USAGE_FAMILIES

__all__ = ["FAMILIES", "KEYS", "Family"]

FAMILIES: tuple[Family, ...] = (
    *FLEET_FAMILIES,
    *JOB_FAMILIES,
    *POD_FAMILIES,
    *POOL_FAMILIES,
    *NODE_FAMILIES,
    *QUOTA_FAMILIES,
    *USAGE_FAMILIES,
)
