"""Variables of dashboards, which users choose at the top."""

from __future__ import annotations

from deploy.generator.dashboards.panels import DATASOURCE, Json

_ALL: Json = {"selected": True, "text": ["All"], "value": ["$__all"]}


DATASOURCES: Json = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "regex": "",
    "hide": 0,
    "includeAll": False,
    "multi": False,
    "refresh": 1,
    "options": [],
    "description": "The Prometheus that scrapes the exporter.",
}
"""The variable for the Prometheus data source."""


def choice(
    name: str,
    label: str,
    query: str,
    description: str,
    *,
    named: tuple[str, str] = ("", ""),
    all_value: str = ".*",
    multi: bool = True,
) -> Json:
    """Return a variable with the values of a query, which runs again when the time range changes.

    With `multi`, a user can choose several values. All are chosen at first: queries then contain `all_value`, or every
    found value if `all_value` is empty. With `named`, the query is a `query_result`: users see the first label and
    queries get the second.
    """
    text, value = named
    regex = f'/{text}="(?<text>[^"]+)|{value}="(?<value>[^"]+)/g' if text else ""
    variable: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"qryType": 3 if query.startswith("query_result(") else 1, "query": query, "refId": name},
        "regex": regex,
        "hide": 0,
        "includeAll": multi,
        "multi": multi,
        "allValue": all_value if multi else "",
        "refresh": 2,
        "sort": 1,
        "options": [],
        "description": description,
        "skipUrlSync": False,
    }
    return {**variable, "current": _ALL} if multi else variable  # otherwise Grafana chooses the first value


PROVIDER = choice(
    "provider",
    "Provider",
    "label_values(trainfleet_provider_info, provider)",
    "A cloud account in one region, as the exporter's config names it.",
)
