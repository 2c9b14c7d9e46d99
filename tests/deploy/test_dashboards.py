"""The dashboards are valid for Grafana and keep the rules of its linter, with exceptions and their reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from tests.deploy.boards import VARIABLE, Board, boards

BOARDS = boards()

BY_TARGET = {"trainfleet-exporter"}
"""Dashboards about exporters, which users choose by job and instance.

The others are about clouds, which users choose by provider. Records have neither job nor instance.
"""

OVER_THE_CHOSEN_TIME = {
    "Collectors": "errors within the chosen time",
    "Calls by operation": "calls within the chosen time are what is billed",
    "Queue wait of nine in ten jobs": "of all jobs that started within the chosen time",
    "Start-up of nine in ten jobs": "of all jobs that started within the chosen time",
}
OVER_A_FIXED_TIME = {
    "Calls in 30 days as a share of the budget": "1h",  # polls come every few minutes
    "Calls of the last 30 days as a share of the budget": "30d",  # the time of the budget
}
"""The windows of panels that do not follow the chosen time."""

WITHOUT_PROVIDER = {
    "accelerator_model:trainfleet_accelerator_price:per_hour": "prices are of models, over all providers",
    "accelerator_model:trainfleet_accelerator_peak:flops_per_second": "is of models, over all providers",
    "trainfleet_exporter_build_info": "is of the exporter as a whole",
    "trainfleet_exporter_config_last_reload_successful": "is of the exporter as a whole",
    "trainfleet_provider_info": "lists the providers to choose from",
}

_SELECTOR = re.compile(r"([a-zA-Z_][\w:]*)\{([^}]*)\}")
_COUNTER = re.compile(r"(?:(\w+)\()?\b([a-zA-Z_]\w*_total)\b(\{[^}]*\})?(\[[^]]+\])?")
_RANGE = re.compile(r"\b(rate|irate|increase)\([^[]*\[([^]]+)\]")

each_board = pytest.mark.parametrize("board", BOARDS, ids=[board.name for board in BOARDS])


@each_board
def test_panels_neither_overlap_nor_stick_out(board: Board) -> None:
    panels = board.json["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: list[set[tuple[int, int]]] = []
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        taken.append({(x, y) for x in columns for y in rows})
    assert all(one.isdisjoint(other) for one, other in combinations(taken, 2))


@each_board
def test_what_is_absent_is_not_drawn_as_0(board: Board) -> None:
    for panel, target in board.targets():
        assert not re.search(r"\bvector\s*\(|\babsent", target["expr"]), panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"] in {"no data", ""}
        assert defaults["custom"].get("spanNulls", False) is False


@each_board
def test_links_lead_to_dashboards_and_set_their_variables(board: Board) -> None:
    by_uid = {found.json["uid"]: found for found in BOARDS}
    for panel in board.panels:
        for url in _links(panel):
            uid, _, query = url.removeprefix("/d/").partition("?")
            target = by_uid[uid]
            assert set(re.findall(r"var-(\w+)=", query)) <= target.variables.keys()
            columns = panel["transformations"][2]["options"]["renameByName"].values()
            assert set(re.findall(r'__data\.fields\["([^"]+)"\]', query)) <= set(columns)


@each_board
def test_every_variable_is_used_and_known(board: Board) -> None:
    own = {f"query of ${name}: {v['query']}": v for name, v in board.variables.items() if v["type"] == "query"}
    texts = [target["expr"] for _, target in board.targets()] + [v["query"]["query"] for v in own.values()]
    used = {name for text in texts for name in VARIABLE.findall(text) if not name.startswith("__")}
    assert used | {"datasource"} == board.variables.keys()


def _links(panel: dict[str, Any]) -> list[str]:
    return [
        link["url"]
        for override in panel["fieldConfig"]["overrides"]
        for property_ in override["properties"]
        if property_["id"] == "links"
        for link in property_["value"]
    ]


@each_board
def test_every_selector_keeps_to_the_choice(board: Board) -> None:
    for place, metric, matchers in _selectors(board):
        if board.name in BY_TARGET:
            assert 'job=~"$job"' in matchers, place
            assert 'instance=~"$instance"' in matchers, place
        is_of_target = metric.startswith(("process_", "scrape_")) or metric in {"up", *WITHOUT_PROVIDER}
        if not is_of_target:
            assert 'provider=~"$provider"' in matchers, f"{place}: {metric}"


@each_board
def test_no_metric_is_asked_for_without_matchers(board: Board) -> None:
    for panel, target in board.targets():
        bare = re.findall(r"\b(?:\w+:)?trainfleet_\w+(?::\w+)?\b(?![{\w:])", re.sub(r'"[^"]*"', '""', target["expr"]))
        assert set(bare) <= WITHOUT_PROVIDER.keys(), panel["title"]


@each_board
def test_rates_look_back_over_the_rate_interval(board: Board) -> None:
    for panel, target in board.targets():
        for _, window in _RANGE.findall(target["expr"]):
            wanted = {"$__range"} if panel["title"] in OVER_THE_CHOSEN_TIME else {"$__rate_interval"}
            wanted |= {OVER_A_FIXED_TIME.get(panel["title"], "$__rate_interval")}
            assert window in wanted, panel["title"]


@each_board
def test_counters_are_taken_as_rates(board: Board) -> None:
    totals_so_far = {"trainfleet_job_restarts_total"}  # the cloud counts it from the start of the job
    for panel, target in board.targets():
        for call, counter, _, window in _COUNTER.findall(target["expr"]):
            if counter not in totals_so_far:
                assert call in {"rate", "increase"}, f"{panel['title']}: {counter}"
                assert window


def test_the_selectors_are_found() -> None:
    """Without selectors, the tests above would test nothing."""
    found = [metric for board in BOARDS for _, metric, _ in _selectors(board)]
    assert len(found) > 300
    assert {"trainfleet_jobs", "user:trainfleet_held_accelerators:sum", "process_open_fds"} <= set(found)


def _selectors(board: Board) -> Iterator[tuple[str, str, str]]:
    for panel, target in board.targets():
        for metric, matchers in _SELECTOR.findall(target["expr"]):
            yield f"{board.name}: {panel['title']}", metric, matchers
