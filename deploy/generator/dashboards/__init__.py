"""All files under deploy/grafana: dashboards and provisioning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.generator.dashboards import cost, exporter, fleet, goodput, job, pools
from deploy.generator.dashboards.provisioning import DASHBOARDS, DATASOURCE

GRAFANA = Path("grafana")
MADE = (fleet, job, pools, goodput, cost, exporter)
"""The module of each dashboard."""


def files() -> Mapping[Path, str]:
    """Return all files. Paths are relative to deploy/."""
    boards = {GRAFANA / "dashboards" / f"{made.UID}.json": made.build() for made in MADE}
    return {
        **boards,
        GRAFANA / "provisioning" / "datasources" / "prometheus.yaml": DATASOURCE,
        GRAFANA / "provisioning" / "dashboards" / "trainfleet.yaml": DASHBOARDS,
    }
