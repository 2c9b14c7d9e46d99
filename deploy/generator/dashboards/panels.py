"""Panels in Grafana's classic JSON. The dashboard adds their ids and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

Json = dict[str, Any]

Words = Mapping[int, tuple[str, str]]
"""Text and colour by value."""
DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel. `legend` is a template that names each series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel without its title. Its width is in columns of 24, and its height in rows of 30 pixels."""

    body: Json
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Scale:
    """Colours by value: `base` for low values, and the colour of each step from its value on."""

    base: str
    steps: Sequence[tuple[float, str]] = ()

    def json(self) -> Json:
        """Return the thresholds of a field."""
        steps: list[Json] = [{"color": self.base, "value": None}]
        return {"mode": "absolute", "steps": steps + [{"color": color, "value": at} for at, color in self.steps]}


PLAIN = Scale("text")
_CURRENT: Json = {"calcs": ["lastNotNull"], "fields": "", "values": False}
STATUS_COLORS = {
    "creating": "light-blue",
    "queued": "yellow",
    "starting": "blue",
    "running": "green",
    "restarting": "orange",
    "stopping": "light-orange",
    "succeeded": "dark-green",
    "failed": "red",
    "stopped": "semi-dark-purple",
    "unknown": "gray",
}


def row(title: str) -> Panel:
    """Return a heading over the panels that follow."""
    return Panel({"type": "row", "title": title, "collapsed": False, "panels": []}, 24, 1)


def timeseries(
    queries: Sequence[Query],
    *,
    unit: str = "none",
    stacked: bool = False,
    limits: tuple[float, float] | None = None,
    scale: Scale | None = None,
    colors: Mapping[str, str] | None = None,
    width: int = 12,
    height: int = 8,
) -> Panel:
    """Return a graph over time that has gaps where samples are missing.

    `limits` are the ends of the axis, which begins at 0 without them. The steps of `scale` become horizontal lines.
    `colors` are by the name of a series.
    """
    custom: Json = {
        "drawStyle": "line",
        "lineInterpolation": "stepAfter",
        "lineWidth": 1,
        "fillOpacity": 30 if stacked else 8,
        "showPoints": "auto",
        "pointSize": 4,
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "off" if scale is None else "dashed"},
    }
    defaults = _defaults(unit, scale or PLAIN, custom=custom, color="palette-classic") | _axis(limits)
    options: Json = {
        "legend": {
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
            "calcs": ["lastNotNull", "mean", "max"],
            "sortBy": "Last *",
            "sortDesc": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    overrides = [_colored(name, color) for name, color in (colors or {}).items()]
    return Panel(_body("timeseries", queries, defaults, options, overrides), width, height)


def stat(
    queries: Sequence[Query],
    *,
    unit: str = "none",
    scale: Scale = PLAIN,
    words: Words | None = None,
    decimals: int | None = None,
    text: str = "auto",
    width: int = 4,
    height: int = 4,
) -> Panel:
    """Return a panel with the current value in large type.

    `words` replace values by text and colour. `text` is Grafana's `textMode`.
    """
    defaults = _defaults(unit, scale, words=words)
    if decimals is not None:
        defaults["decimals"] = decimals
    options: Json = {
        "reduceOptions": _CURRENT,
        "orientation": "auto",
        "textMode": text,
        "wideLayout": True,
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
    }
    return Panel(_body("stat", queries, defaults, options, instant=True), width, height)


def bars(
    queries: Sequence[Query],
    *,
    unit: str = "none",
    scale: Scale = PLAIN,
    limits: tuple[float, float] | None = None,
    width: int = 12,
    height: int = 8,
) -> Panel:
    """Return a panel with the current values as horizontal bars."""
    defaults = _defaults(unit, scale) | _axis(limits)
    options: Json = {
        "reduceOptions": _CURRENT,
        "orientation": "horizontal",
        "displayMode": "basic",
        "valueMode": "text",
        "namePlacement": "left",
        "showUnfilled": True,
        "minVizHeight": 16,
        "minVizWidth": 8,
        "maxVizHeight": 28,
        "sizing": "manual",
        "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom", "calcs": []},
    }
    return Panel(_body("bargauge", queries, defaults, options, instant=True), width, height)


def states(queries: Sequence[Query], *, words: Words, width: int = 24, height: int = 8) -> Panel:
    """Return a state timeline: a line of coloured intervals for each series. `words` are text and colour by value."""
    defaults = _defaults("none", PLAIN, custom={"fillOpacity": 75, "lineWidth": 0}, words=words)
    options: Json = {
        "mergeValues": True,
        "showValue": "never",
        "alignValue": "left",
        "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return Panel(_body("state-timeline", queries, defaults, options), width, height)


def _body(
    kind: str,
    queries: Sequence[Query],
    defaults: Json,
    options: Json,
    overrides: Sequence[Json] = (),
    *,
    instant: bool = False,
) -> Json:
    return {
        "type": kind,
        "datasource": DATASOURCE,
        "targets": [
            target(letter, query.expr, query.legend, instant=instant)
            for letter, query in zip(ascii_uppercase, queries, strict=False)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
        "options": options,
    }


def target(letter: str, expr: str, legend: str = "", *, form: str = "time_series", instant: bool = True) -> Json:
    """Return a query of a panel. `form` is the format of its result."""
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "format": form,
        "instant": instant,
        "range": not instant,
    }


def _axis(limits: tuple[float, float] | None) -> Json:
    return {"min": 0} if limits is None else {"min": limits[0], "max": limits[1]}


def _defaults(
    unit: str, scale: Scale, *, custom: Json | None = None, color: str = "thresholds", words: Words | None = None
) -> Json:
    return {
        "unit": unit,
        "color": {"mode": color},
        "thresholds": scale.json(),
        "mappings": [] if words is None else [mapping(words)],
        "noValue": "no data",
        "custom": custom or {},
    }


def mapping(words: Words) -> Json:
    """Return the mapping of values to words."""
    options = {
        str(value): {"text": text, "color": color, "index": index}
        for index, (value, (text, color)) in enumerate(words.items())
    }
    return {"type": "value", "options": options}


def _colored(name: str, color: str) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
    }
