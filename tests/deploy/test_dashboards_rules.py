"""The rules of Grafana's dashboard linter, and exceptions with reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.deploy.boards import Board, boards

BOARDS = boards()
each_board = pytest.mark.parametrize("board", BOARDS, ids=[board.name for board in BOARDS])

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

UNITS = {
    "none", "string", "short", "percentunit", "bytes", "Bps", "s", "h", "cpm", "watt", "celsius", "dateTimeAsIso",
}  # fmt: skip
"""The units that dashboards use. Grafana shows an unknown unit as text after the number."""

_SELECTOR = re.compile(r"([a-zA-Z_][\w:]*)\{([^}]*)\}")
_COUNTER = re.compile(r"(?:(\w+)\()?\b([a-zA-Z_]\w*_total)\b(\{[^}]*\})?(\[[^]]+\])?")
_RANGE = re.compile(r"\b(rate|irate|increase)\([^[]*\[([^]]+)\]")


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
def test_units_are_known(board: Board) -> None:
    for panel in board.panels:
        units = [panel["fieldConfig"]["defaults"]["unit"]]
        for override in panel["fieldConfig"]["overrides"]:
            units += [found["value"] for found in override["properties"] if found["id"] == "unit"]
        assert set(units) <= UNITS, panel["title"]


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
