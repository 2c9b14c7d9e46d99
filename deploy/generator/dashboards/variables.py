"""Variables: the choices at the top of a dashboard."""

from __future__ import annotations

from deploy.generator.dashboards.panels import DATASOURCE, Json

_ALL: Json = {"selected": True, "text": ["All"], "value": ["$__all"]}


def datasource() -> Json:
    """Which Prometheus."""
    return {
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


def choice(
    name: str, label: str, query: str, description: str, *, regex: str = "", all_value: str = ".*", multi: bool = True
) -> Json:
    """Values of a query that runs again whenever the time range changes. With `multi` any number of them, at first all:
    then `all_value` is put into queries, or if it is empty every value that was found."""
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
    return {**variable, "current": _ALL} if multi else variable  # what else is first is known when it is asked


def named(text: str, value: str) -> str:
    """A regular expression over `query_result` that shows one label and chooses by another."""
    return f'/{text}="(?<text>[^"]+)|{value}="(?<value>[^"]+)/g'


PROVIDER = choice(
    "provider",
    "Provider",
    "label_values(trainfleet_provider_info, provider)",
    "A cloud account in one region, as the exporter's config names it.",
)
