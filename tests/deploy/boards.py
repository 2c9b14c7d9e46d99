"""The shipped dashboards: their panels, and their queries with the variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from deploy.generator import DEPLOY

FOLDER = DEPLOY / "grafana" / "dashboards"
VARIABLE = re.compile(r"\$\{?([a-zA-Z_]\w*)(?::\w+)?\}?")
BUILT_IN = {"__rate_interval": "4m", "__interval": "1m", "__range": "2h", "__range_s": "7200"}
"""Values of Grafana's own variables for a scrape interval of a minute and a range of two hours."""


@dataclass(frozen=True)
class Asked:
    """A query of a dashboard. `place` names its panel or variable."""

    place: str
    expr: str
    kind: str
    """`instant`, `range`, `label_values` or `query_result`."""


class Board:
    """A dashboard as read from its file."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.json: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    @cached_property
    def panels(self) -> list[dict[str, Any]]:
        """All panels except the headings."""
        return [panel for panel in self.json["panels"] if panel["type"] != "row"]

    @cached_property
    def variables(self) -> dict[str, dict[str, Any]]:
        """The variables by name."""
        return {variable["name"]: variable for variable in self.json["templating"]["list"]}

    def targets(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield each panel with each of its queries."""
        for panel in self.panels:
            for target in panel["targets"]:
                yield panel, target

    def asked(self) -> Iterator[Asked]:
        """Yield all queries of variables and panels."""
        for name, variable in self.variables.items():
            if variable["type"] == "query":
                yield Asked(f"{self.name}: ${name}", *_of_variable(variable["query"]["query"]))
        for panel, target in self.targets():
            place = f"{self.name}: {panel['title']} ({target['refId']})"
            yield Asked(place, target["expr"], "instant" if target["instant"] else "range")

    def filled(self, text: str, chosen: Mapping[str, str]) -> str:
        """Replace variables in `text` by the values in `chosen`, or by "All". Raises KeyError for an unknown one.

        "All" becomes a pattern for any text, because the tested data has only the exporter's series.
        """

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if name in BUILT_IN:
                return BUILT_IN[name]
            return chosen[name] if name in chosen else self.variables[name]["allValue"] or ".+"

        return VARIABLE.sub(value, text)


def boards() -> list[Board]:
    """Return all dashboards, sorted by name."""
    return [Board(path) for path in sorted(FOLDER.glob("*.json"))]


def _of_variable(query: str) -> tuple[str, str]:
    kind, rest = query.split("(", 1)
    return rest.removesuffix(")"), kind
