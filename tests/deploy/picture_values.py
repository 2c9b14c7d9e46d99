"""Values as Grafana shows them: texts with units, colours by threshold, rows of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.deploy.history_server import Series

PALETTE = (
    "#7EB26D", "#EAB839", "#6ED0E0", "#EF843C", "#E24D42", "#5195CE",
    "#BA43A9", "#8F8BD8", "#B7DBAB", "#F4D598", "#70DBED", "#F9BA8F",
)  # fmt: skip
_COLORS = {
    "green": "#73BF69",
    "dark-green": "#56A64B",
    "red": "#F2495C",
    "orange": "#FF9830",
    "light-orange": "#FFB357",
    "yellow": "#FADE2A",
    "blue": "#5794F2",
    "light-blue": "#8AB8FF",
    "semi-dark-purple": "#A352CC",
    "purple": "#B877D9",
    "gray": "#808080",
    "text": "#ccccdc",
}


def color_of(name: str) -> str:
    """Return the hex code of a colour of Grafana."""
    return _COLORS.get(name, name if name.startswith("#") else _COLORS["text"])


def legend(template: str, labels: Mapping[str, str]) -> str:
    """Return the name of a series by a legend template."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), template) or ", ".join(labels.values())


class Look:
    """The texts and colours of a field, by its config in a panel."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.unit: str = config.get("unit", "none")
        self._decimals: int | None = config.get("decimals")
        self._steps: Sequence[Mapping[str, Any]] = config.get("thresholds", {}).get("steps", ())
        self._words = {key: word for each in config.get("mappings", ()) for key, word in each["options"].items()}

    def text(self, value: float) -> str:
        """Return the value as text."""
        word = self._words.get(f"{value:g}")
        return word["text"] if word else shown(value, self.unit, self._decimals)

    def color(self, value: float, plain: str = "") -> str:
        """Return the colour of the value's step, or `plain` instead of the colour of text."""
        if word := self._words.get(f"{value:g}"):
            return color_of(word["color"])
        name = "text"
        for step in self._steps:
            if step["value"] is None or value >= step["value"]:
                name = step["color"]
        return plain if plain and name == "text" else color_of(name)


def shown(value: float, unit: str, decimals: int | None = None) -> str:
    """Return a value with its unit."""
    if unit == "percentunit":
        return f"{_number(value * 100, decimals)}%"
    if unit == "dateTimeAsIso":
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    if unit in ("s", "h"):
        seconds = value * (3600 if unit == "h" else 1)
        for size, name in ((86400, "days"), (3600, "hours"), (60, "mins")):
            if abs(seconds) >= size:
                return f"{_number(seconds / size, decimals)} {name}"
        return f"{_number(seconds, decimals)} s"
    if unit in ("bytes", "Bps"):
        step, names, end = (1024, ("", "Ki", "Mi", "Gi", "Ti"), "B") if unit == "bytes" else (1000, _KILO, "B/s")
        return _scaled(value, step, names, decimals, f" {{}}{end}")
    if unit == "watt":
        return _scaled(value, 1000, ("", "k", "M"), decimals, " {}W")
    if unit == "celsius":
        return f"{_number(value, decimals)} \N{DEGREE SIGN}C"
    if unit == "cpm":
        return f"{_number(value, decimals)} c/m"
    return _scaled(value, 1000, _KILO, decimals, " {}") if unit == "short" else _number(value, decimals)


_KILO = ("", "K", "M", "G", "T")


def _scaled(value: float, step: int, names: Sequence[str], decimals: int | None, end: str) -> str:
    power = 0
    while abs(value) >= step and power < len(names) - 1:
        value, power = value / step, power + 1
    return f"{_number(value, decimals)}{end.format(names[power])}".rstrip()


def _number(value: float, decimals: int | None) -> str:
    if decimals is None:
        decimals = 0 if abs(value) >= 100 or value == round(value) else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. `share` is the length of its bar from 0 to 1, or None."""

    text: str
    color: str = ""
    share: float | None = None


def table_rows(panel: Mapping[str, Any], answers: Sequence[Sequence[Series]]) -> tuple[list[str], list[list[Cell]]]:
    """Return the titles of the columns and the sorted rows, joined by the labels that all answers share."""
    labels = [{name for one in answer for name in one.labels} for answer in answers if answer]
    if not labels:
        return [], []
    shared = set.intersection(*labels)
    merged: dict[tuple[str, ...], dict[str, Any]] = {}
    for target, answer in zip(panel["targets"], answers, strict=True):
        field = "Value" if len(answers) == 1 else f"Value #{target['refId']}"
        for one in answer:
            key = tuple(one.labels.get(name, "") for name in sorted(shared))
            merged.setdefault(key, {}).update({**one.labels, field: one.values[max(one.values)]})
    names: Mapping[str, str] = panel["transformations"][2]["options"]["renameByName"]
    defaults = panel["fieldConfig"]["defaults"]
    configs: dict[str, dict[str, Any]] = {title: dict(defaults) for title in names.values()}
    for override in panel["fieldConfig"]["overrides"]:
        configs[override["matcher"]["options"]] |= {each["id"]: each["value"] for each in override["properties"]}
    (order,) = panel["options"]["sortBy"]
    by = next(field for field, title in names.items() if title == order["displayName"])
    rows = sorted(
        merged.values(),
        key=lambda row: (by in row, row.get(by, 0) if by.startswith("Value") else str(row.get(by, ""))),
        reverse=order["desc"],
    )
    return list(names.values()), [
        [_cell(row.get(field), configs[title]) for field, title in names.items()] for row in rows
    ]


def _cell(value: float | str | None, config: Mapping[str, Any]) -> Cell:
    if value is None or isinstance(value, str):
        return Cell(value or "")
    look, kind = Look(config), config.get("custom.cellOptions", {}).get("type")
    color = look.color(value) if kind else ""
    return Cell(look.text(value), color, value if kind == "gauge" else None)
