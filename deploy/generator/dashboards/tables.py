"""Table panels: a row for each set of labels, and a column of values for each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from deploy.generator.dashboards.panels import DATASOURCE, Json, Panel, Scale, Words, mapping, target

JOB_LINK = (
    '/d/trainfleet-job?${datasource:queryparam}&${__url_time_range}&var-job_id=${__data.fields["Job id"]}'
    '&var-provider=${__data.fields["Provider"]}'
)
"""Link from a row of a table to the dashboard of its job."""
_NAMES = {
    "alertname": "Alert",
    "alertstate": "State",
    "api": "API",
    "job_name": "Job",
    "job_type": "Type",
    "kind": "Work",
    "node_name": "Node",
    "payment_type": "Payment",
    "pod_id": "Pod",
    "pod_ip": "Address",
    "pool_name": "Pool",
    "resource_type": "Type",
    "user_name": "User",
    "workload_type": "Type",
    "workspace_name": "Workspace",
}
"""Names of columns by label. Other labels are named by their words."""


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
    words: Words | None = None
    link: str = ""
    decimals: int | None = None
    gauge: bool = False
    width: int | None = None


def _label(text: str) -> tuple[str, Column]:
    """Return the column of a label, from `LABEL` or `LABEL=NAME`. A job's name links to its dashboard."""
    label, _, name = text.partition("=")
    link = JOB_LINK if text == "job_name" else ""
    return label, Column(name or _NAMES.get(label, label.replace("_", " ").capitalize()), link=link)


def table(
    values: Sequence[Column],
    *,
    labels: str,
    sort: str,
    descending: bool = True,
    width: int = 24,
    height: int = 10,
) -> Panel:
    """Return a table with the columns `labels` (see `_label`, by blanks), then `values`. All other labels are hidden.

    A cell is empty if its column has no value for the row.
    """
    columns = dict(map(_label, labels.split()))
    letters = ascii_uppercase[: len(values)]
    fields = [f"Value #{letter}" for letter in letters] if len(values) > 1 else ["Value"]  # Grafana's names
    shown = [column for column in (*columns.values(), *values) if column.name]
    renamed = {label: column.name for label, column in columns.items()}
    renamed |= {field: column.name for field, column in zip(fields, values, strict=True) if column.name}
    body: Json = {
        "type": "table",
        "datasource": DATASOURCE,
        "targets": [target(letter, column.expr, form="table") for letter, column in zip(letters, values, strict=True)],
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


def _override(column: Column) -> Json:
    properties: list[Json] = [{"id": "unit", "value": column.unit if column.expr else "string"}]
    if column.decimals is not None:
        properties.append({"id": "decimals", "value": column.decimals})
    if column.words is not None:
        properties.append({"id": "mappings", "value": [mapping(column.words)]})
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
