"""The JSON of a dashboard, from its YAML file in this folder. Panels are placed from left to right, line by line.

The first key of a panel is its kind, with the options of that function in panels.py or tables.py. `about` is its
description. Every other key is the legend of a query or the name of a column; names in brackets are hidden. `columns`
has options of columns, or only a unit.

In every text, `$NAME` stands for a fragment: of `let` of the panel, `fragments` of the file or `_SHARED`. `with` adds
names to the series of a query, of a fragment or of all queries of a panel: see `promql.NAMING`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from deploy.generator.dashboards import panels, promql
from deploy.generator.dashboards.panels import Json, Panel, Query, Scale
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import DATASOURCES, PROVIDER, choice

TAG = "trainfleet"
COLUMNS = 24
_FRAGMENT = re.compile(r"\$([A-Z](?:[A-Z_]*[A-Z])?)")
_SHARED = {
    "P": promql.P,
    "AT_PRICES": promql.AT_PRICES,
    "POOL_NAMES": promql.POOL_NAMES,
    "MODEL_NAMES": promql.MODEL_NAMES,
}
_KINDS: Mapping[str, Callable[..., Panel]] = {
    "stat": panels.stat,
    "number": partial(panels.stat, unit="short"),
    "money": partial(panels.stat, text="value_and_name", decimals=0),
    "timeseries": panels.timeseries,
    "counts": partial(panels.timeseries, unit="short"),
    "share": partial(panels.timeseries, unit="percentunit", limits=(0, 1)),
    "bars": panels.bars,
    "states": panels.states,
    "table": table,
}
_SCALES = {
    "bad_above_zero": Scale("green", ((1, "red"),)),
    "goodput": Scale("red", ((0.7, "orange"), (0.85, "yellow"), (0.95, "green"))),
    "idle_to_busy": Scale("red", ((0.1, "orange"), (0.4, "yellow"), (0.7, "green"))),
    "room_to_full": Scale("green", ((0.8, "yellow"), (0.95, "red"))),
    "waste": Scale("green", ((0.3, "yellow"), (0.6, "red"))),
}
_Fragments = Mapping[str, Any]


def dashboard(path: Path) -> str:
    """Return the JSON of the dashboard in a file."""
    content: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    fragments = _SHARED | content.get("fragments", {})
    chosen = (PROVIDER if each == "provider" else choice(**_filled(each, fragments)) for each in content["variables"])
    body: Json = {
        "uid": f"trainfleet-{path.stem}",
        "title": content["title"],
        "description": content["description"],
        "tags": [TAG],
        "schemaVersion": 42,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "fiscalYearStartMonth": 0,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": content.get("since", "now-6h"), "to": "now"},
        "timepicker": {"refresh_intervals": ["30s", "1m", "5m", "15m", "1h"]},
        "annotations": {"list": []},
        "links": [_links()],
        "templating": {"list": [DATASOURCES, *chosen]},
        "panels": _placed(_panel(each, fragments) for each in content["panels"]),
    }
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _panel(content: Json, fragments: _Fragments) -> Panel:
    """Return a panel. Raises TypeError for an option that its kind does not have."""
    if "row" in content:
        return panels.row(content["row"])
    kind = next(key for key in content if key in _KINDS)
    options = _looks(content[kind])
    texts = {"title": options.pop("title"), "description": content["about"]}
    fragments, naming = {**fragments, **content.get("let", {})}, options.pop("with", [])
    shown = {name: text for name, text in content.items() if name not in (kind, "about", "columns", "let")}
    exprs = {name: _named(_expr(text, fragments), naming) for name, text in shown.items()}
    if kind == "table":
        looks = content.get("columns", {})
        made = table([_column(name, expr, looks.get(name, {})) for name, expr in exprs.items()], **options)
    else:
        made = _KINDS[kind]([Query(expr, _filled(legend, fragments)) for legend, expr in exprs.items()], **options)
    return replace(made, body={"type": made.body["type"], **texts, **made.body})


def _column(name: str, expr: str, looks: str | Json) -> Column:
    options = {"unit": looks} if isinstance(looks, str) else _looks(looks)
    if "gauge" in options:
        options |= {"scale": _scale(options["gauge"]), "gauge": True, "unit": "percentunit"}
    return Column("" if name.startswith("(") else name, expr, **options)


def _looks(options: Json) -> Json:
    """Return options with their scale and colours, of which the file has only names."""
    made = dict(options)
    if "scale" in made:
        made["scale"] = _scale(made["scale"])
    if made.get("colors") == "statuses":
        made["colors"] = panels.STATUS_COLORS
    return made


def _scale(given: str | Mapping[Any, str]) -> Scale:
    """Return a scale by its name, or from its colours by value. The first one is for lower values."""
    if isinstance(given, str):
        return _SCALES[given]
    (_, base), *steps = given.items()
    return Scale(base, steps)


def _filled(given: Any, fragments: _Fragments) -> Any:
    """Replace the fragments in a text, or in all texts of a mapping."""
    if isinstance(given, dict):
        return {name: _filled(text, fragments) for name, text in given.items()}
    if not isinstance(given, str):
        return given
    return _FRAGMENT.sub(lambda found: _expr(fragments[found[1]], fragments), given)


def _expr(given: str | Mapping[str, Any], fragments: _Fragments) -> str:
    """Return a query. Raises KeyError for an unknown fragment."""
    if isinstance(given, str):
        return str(_filled(given, fragments))
    return _named(_expr(given["expr"], fragments), given["with"])


def _named(expr: str, naming: str | list[str]) -> str:
    for each in [naming] if isinstance(naming, str) else naming:
        expr = promql.NAMING[each](expr)
    return expr


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
