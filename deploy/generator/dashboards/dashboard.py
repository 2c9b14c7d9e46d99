"""The JSON of a dashboard. Panels are placed from left to right, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from deploy.generator.dashboards.panels import Json, Panel

TAG = "trainfleet"
COLUMNS = 24


def dashboard(
    uid: str,
    title: str,
    description: str,
    variables: Sequence[Json],
    panels: Iterable[Panel],
    *,
    since: str = "now-6h",
) -> str:
    """Return the JSON of a dashboard. `since` is the start of its time range."""
    body: Json = {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": [TAG],
        "schemaVersion": 42,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": since, "to": "now"},
        "timepicker": {"refresh_intervals": ["30s", "1m", "5m", "15m", "1h"]},
        "annotations": {"list": []},
        "links": [_links()],
        "templating": {"list": list(variables)},
        "panels": _placed(panels),
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _links() -> Json:
    """Return links to the other dashboards that keep the time range and the variables."""
    return {
        "type": "dashboards",
        "title": "trainfleet",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _placed(panels: Iterable[Panel]) -> list[Json]:
    placed: list[Json] = []
    x = y = line_height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        place = {"h": panel.height, "w": panel.width, "x": x, "y": y}
        placed.append({"id": number, "gridPos": place, **panel.body})
        x += panel.width
        line_height = max(line_height, panel.height)
    return placed
