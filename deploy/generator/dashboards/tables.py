"""Tables: rows of labels, with a column of values for each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from deploy.generator.dashboards.panels import DATASOURCE, Json, Panel, Scale


@dataclass(frozen=True, slots=True)
class Column:
    """Values of a table. Its query's labels are those of the table's rows, or some of them.

    `expr` is empty for a label's column, whose `name` is then the label's title. A column without a name is not shown:
    its query is there for its labels. `words` are text and colour in the place of values. `link` is an address to which
    a click on the cell leads.
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
    """`labels` are shown in their order, then the values; labels that are not named are hidden. A row that a column has
    nothing for stays empty there."""
    letters = ascii_uppercase[: len(values)]
    fields = [f"Value #{letter}" for letter in letters] if len(values) > 1 else ["Value"]  # as Grafana names them
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
