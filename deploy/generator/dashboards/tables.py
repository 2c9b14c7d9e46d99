"""Table panels: a row for each set of labels, and a column of values for each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from deploy.generator.dashboards.panels import DATASOURCE, Json, Panel, Scale


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. The labels of its query must be labels of the rows.

    A column without `expr` shows a label. A column without a name is hidden, and only its labels are used. `words`
    replace values by text and colour. `link` is the URL that a click on a cell opens.
    """

    name: str
    expr: str = ""
    unit: str = "none"
    scale: Scale | None = None
    words: Mapping[int, tuple[str, str]] | None = None
    link: str = ""
    decimals: int | None = None
    gauge: bool = False
    width: int | None = None


def table(
    title: str,
    description: str,
    labels: Mapping[str, Column],
    values: Sequence[Column],
    *,
    sort: str,
    descending: bool = True,
    width: int = 24,
    height: int = 10,
) -> Panel:
    """Return a table with the columns `labels`, then `values`. All other labels are hidden.

    A cell is empty if its column has no value for the row.
    """
    letters = ascii_uppercase[: len(values)]
    fields = [f"Value #{letter}" for letter in letters] if len(values) > 1 else ["Value"]  # Grafana's names
    shown = [column for column in (*labels.values(), *values) if column.name]
    renamed = {label: column.name for label, column in labels.items()}
    renamed |= {field: column.name for field, column in zip(fields, values, strict=True) if column.name}
    body: Json = {
        "type": "table",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [_target(letter, column.expr) for letter, column in zip(letters, values, strict=True)],
        "transformations": [
            {"id": "merge", "options": {}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(renamed)}}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {},
                    "indexByName": {name: index for index, name in enumerate(renamed)},
                    "renameByName": renamed,
                },
            },
        ],
        "fieldConfig": {
            "defaults": {
                "unit": values[0].unit,
                "color": {"mode": "thresholds"},
                "thresholds": Scale("text").json(),
                "mappings": [],
                "noValue": "",
                "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True},
            },
            "overrides": [_override(column) for column in shown],
        },
        "options": {
            "showHeader": True,
            "cellHeight": "sm",
            "sortBy": [{"displayName": sort, "desc": descending}],
        },
    }
    assert sort in {column.name for column in shown}, sort
    return Panel(body, width, height)


def _target(letter: str, expr: str) -> Json:
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": "",
        "format": "table",
        "instant": True,
        "range": False,
    }


def _override(column: Column) -> Json:
    properties: list[Json] = []
    if column.expr:
        properties.append({"id": "unit", "value": column.unit})
    else:
        properties.append({"id": "unit", "value": "string"})
    if column.decimals is not None:
        properties.append({"id": "decimals", "value": column.decimals})
    if column.words is not None:
        options = {
            str(value): {"text": text, "color": color, "index": index}
            for index, (value, (text, color)) in enumerate(column.words.items())
        }
        properties.append({"id": "mappings", "value": [{"type": "value", "options": options}]})
    if column.scale is not None:
        properties.append({"id": "thresholds", "value": column.scale.json()})
    if column.gauge:
        properties += [
            {"id": "custom.cellOptions", "value": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}},
            {"id": "min", "value": 0},
            {"id": "max", "value": 1},
        ]
    elif column.scale is not None or column.words is not None:
        properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
    if column.link:
        properties.append({"id": "links", "value": [{"title": "Open", "url": column.link, "targetBlank": False}]})
    if column.width is not None:
        properties.append({"id": "custom.width", "value": column.width})
    return {"matcher": {"id": "byName", "options": column.name}, "properties": properties}
