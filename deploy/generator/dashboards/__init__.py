"""The dashboards of deploy/grafana."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deploy.generator.dashboards.dashboard import dashboard


def files() -> Mapping[Path, str]:
    """Return the JSON of each dashboard. Paths are relative to deploy/."""
    folder = Path("grafana/dashboards")
    return {folder / f"trainfleet-{path.stem}.json": dashboard(path) for path in Path(__file__).parent.glob("*.yaml")}
