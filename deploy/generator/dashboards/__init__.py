"""All files under deploy/grafana: dashboards and provisioning."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.generator.dashboards.dashboard import dashboard
from deploy.generator.dashboards.provisioning import DASHBOARDS, DATASOURCE

GRAFANA = Path("grafana")


def files() -> Mapping[Path, str]:
    """Return all files. Paths are relative to deploy/."""
    boards = {
        GRAFANA / "dashboards" / f"trainfleet-{path.stem}.json": dashboard(path)
        for path in Path(__file__).parent.glob("*.yaml")
    }
    return {
        **boards,
        GRAFANA / "provisioning" / "datasources" / "prometheus.yaml": DATASOURCE,
        GRAFANA / "provisioning" / "dashboards" / "trainfleet.yaml": DASHBOARDS,
    }
