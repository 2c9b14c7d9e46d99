"""Panels as Grafana's classic JSON has them, but for their numbers and places, which the dashboard gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

Json = dict[str, Any]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel. The legend distinguishes its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of so many of the 24 columns, and of so many rows of 30 pixels."""

    body: Json
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Scale:
    """Colours by value: the first one from the bottom on, each further one from its value on."""

    base: str
    steps: Sequence[tuple[float, str]] = ()

    def json(self) -> Json:
        """The thresholds of a field."""
        steps: list[Json] = [{"color": self.base, "value": None}]
        return {"mode": "absolute", "steps": steps + [{"color": color, "value": at} for at, color in self.steps]}


PLAIN = Scale("text")
BAD_ABOVE_ZERO = Scale("green", ((1, "red"),))
IDLE_TO_BUSY = Scale("red", ((0.1, "orange"), (0.4, "yellow"), (0.7, "green")))
"""For shares of use, where little is a waste."""
ROOM_TO_FULL = Scale("green", ((0.8, "yellow"), (0.95, "red")))
"""For shares of what there is, where much is trouble."""
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
    """A heading over the panels that follow."""
    return Panel({"type": "row", "title": title, "collapsed": False, "panels": []}, 24, 1)


def timeseries(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    stacked: bool = False,
    limits: tuple[float, float] | None = None,
    scale: Scale | None = None,
    colors: Mapping[str, str] | None = None,
    width: int = 12,
    height: int = 8,
) -> Panel:
    """Lines over time, with gaps where there is nothing. `limits` are of the axis, which else begins at 0; `scale`
    draws its steps as lines; `colors` are by the series' names."""
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
    defaults = _defaults(unit, scale or PLAIN, custom=custom, color="palette-classic")
    low, high = limits or (0, None)
    defaults["min"] = low
    if high is not None:
        defaults["max"] = high
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
    return _panel(
        "timeseries", title, description, queries, defaults, options=options, size=(width, height), overrides=overrides
    )


def stat(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    scale: Scale = PLAIN,
    words: Mapping[int, tuple[str, str]] | None = None,
    decimals: int | None = None,
    text: str = "auto",
    width: int = 4,
    height: int = 4,
) -> Panel:
    """The present value in large. `words` are text and colour in the place of values; `text` is what is written."""
    defaults = _defaults(unit, scale, words=words, decimals=decimals)
    options: Json = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "auto",
        "textMode": text,
        "wideLayout": True,
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
    }
    return _panel("stat", title, description, queries, defaults, options=options, size=(width, height), instant=True)


def bars(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    scale: Scale = PLAIN,
    limits: tuple[float, float] | None = None,
    width: int = 12,
    height: int = 8,
) -> Panel:
    """The present values as bars beside one another."""
    defaults = _defaults(unit, scale)
    defaults["min"], high = limits or (0, None)
    if high is not None:
        defaults["max"] = high
    options: Json = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
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
    return _panel(
        "bargauge", title, description, queries, defaults, options=options, size=(width, height), instant=True
    )


def states(
    title: str,
    description: str,
    *queries: Query,
    words: Mapping[int, tuple[str, str]],
    width: int = 24,
    height: int = 8,
) -> Panel:
    """A line of coloured stretches for each series."""
    custom: Json = {"fillOpacity": 75, "lineWidth": 0}
    defaults = _defaults("none", PLAIN, custom=custom, words=words)
    options: Json = {
        "mergeValues": True,
        "showValue": "never",
        "alignValue": "left",
        "rowHeight": 0.85,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "single", "sort": "none"},
    }
    return _panel("state-timeline", title, description, queries, defaults, options=options, size=(width, height))


def _panel(
    kind: str,
    title: str,
    description: str,
    queries: Sequence[Query],
    defaults: Json,
    *,
    options: Json,
    size: tuple[int, int],
    overrides: Sequence[Json] = (),
    instant: bool = False,
) -> Panel:
    body: Json = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [_target(letter, query, instant) for letter, query in zip(ascii_uppercase, queries, strict=False)],
        "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
        "options": options,
    }
    return Panel(body, *size)


def _target(letter: str, query: Query, instant: bool) -> Json:
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend,
        "format": "time_series",
        "instant": instant,
        "range": not instant,
    }


def _defaults(
    unit: str,
    scale: Scale,
    *,
    custom: Json | None = None,
    color: str = "thresholds",
    words: Mapping[int, tuple[str, str]] | None = None,
    decimals: int | None = None,
) -> Json:
    defaults: Json = {
        "unit": unit,
        "color": {"mode": color},
        "thresholds": scale.json(),
        "mappings": [] if words is None else [_words(words)],
        "noValue": "no data",
        "custom": custom or {},
    }
    if decimals is not None:
        defaults["decimals"] = decimals
    return defaults


def _words(words: Mapping[int, tuple[str, str]]) -> Json:
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
