"""The dashboards for Grafana, and the files that provision them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.generator.dashboards import cost, exporter, fleet, goodput, job, pools
from deploy.generator.dashboards.provisioning import DASHBOARDS, DATASOURCE

GRAFANA = Path("grafana")
MADE = (fleet, job, pools, goodput, cost, exporter)
"""The dashboards' modules."""


def files() -> Mapping[Path, str]:
    """Every file under deploy/grafana."""
    boards = {GRAFANA / "dashboards" / f"{made.UID}.json": made.build() for made in MADE}
    return {
        **boards,
        GRAFANA / "provisioning" / "datasources" / "prometheus.yaml": DATASOURCE,
        GRAFANA / "provisioning" / "dashboards" / "trainfleet.yaml": DASHBOARDS,
    }
