"""Every query of a dashboard runs on a real Prometheus with two hours of the demo.

It returns data, its ratios are from 0 to 1, and its legends distinguish series.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from deploy.generator import DEPLOY

from tests.deploy.boards import Asked, Board, boards
from tests.deploy.history import record_history
from tests.deploy.history_server import HistoryServer, Series, serving_history
from tests.support.programs import need

JOBS = {
    "PAI, on devices, with everything that is known of pods": (
        'trainfleet_device_power_watts and on (job_id) trainfleet_pod_evicted{provider=~".*pai.*"} '
        "and on (job_id) trainfleet_job_usage_timestamp_seconds and on (job_id) trainfleet_job_replaced_pods"
    ),
    "PAI, measured job by job": 'trainfleet_job_usage_info{source="job_metrics"}',
    "ModelArts, on NPUs": (
        'trainfleet_device_utilization_ratio and on (job_id) trainfleet_job_usage_info{source="aom"} '
        "and on (job_id) trainfleet_device_temperature_celsius"
    ),
    "queued": 'trainfleet_job_status{status="queued"}',
    "failed": 'trainfleet_job_status_reason and on (job_id) trainfleet_job_status{status="failed"}',
    "with an alert": 'ALERTS{alertname=~"Trainfleet.+", job_id!=""}',
    "with pods compared": "last_over_time(pod:trainfleet_work_share:ratio[10m])",
    "with medians": (
        "job:trainfleet_accelerator_power_median:watts and on (job_id) job:trainfleet_network_median:bytes_per_second"
    ),
}
"""The jobs for which the job dashboard is tested. Each of its queries must return data for at least one."""

EMPTY: dict[str, str] = {}
"""Queries that return no data from the demo, with the reason."""

BEYOND_ONE = {
    "Calls in 30 days as a share of the budget": "shows too many calls",
    "Calls of the last 30 days as a share of the budget": "shows too many calls",
    "Share of the interval that polls take": "a poll may take longer than its interval",
    "Power and traffic compared with the job's own median": "a job may work harder than usual",
}
"""Panels of shares that may be above 1."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HistoryServer]:
    for program in ("prometheus", "promtool"):
        need(program)
    folder = tmp_path_factory.mktemp("history")
    rules = sorted((DEPLOY / "prometheus" / "rules").glob("*.yaml"))
    with serving_history(record_history(folder), rules, folder) as serving:
        yield serving


@pytest.mark.long
def test_every_query_returns_data_and_makes_sense(server: HistoryServer) -> None:
    # One test, because each worker of a parallel run would need its own history.
    jobs = [_one_job(server, query) for query in JOBS.values()]
    counted: Counter[str] = Counter()
    faults: list[str] = []
    for board in boards():
        for asked in board.asked():
            counted["queries"] += 1
            try:
                found = _answer(server, board, asked, jobs)
            except AssertionError as refused:
                faults.append(f"{asked.place}: {refused}")
                continue
            counted["parse"] += 1
            counted["with data"] += bool(found)
            if bool(found) == (asked.place in EMPTY):
                faults.append(f"{asked.place}: {'returns data now' if found else 'returns nothing'}")
        for panel in board.panels if not faults else []:
            faults += [
                f"{board.name}: {panel['title']}: {fault}" for fault in _look_at_panel(server, board, panel, jobs)
            ]
        faults += [f"{board.name}: {fault}" for fault in _look_at_variables(server, board)]
    print(f"{counted['queries']} queries, {counted['parse']} parse, {counted['with data']} return data")
    assert sorted(set(faults)) == [], "\n".join(sorted(set(faults)))
    assert counted["queries"] > 150


def _one_job(server: HistoryServer, query: str) -> str:
    found = sorted({series.labels["job_id"] for series in server.instant(query)})
    assert found, f"the history has no job for {query}"
    return found[0]


def _answer(server: HistoryServer, board: Board, asked: Asked, jobs: Sequence[str]) -> Sequence[Any]:
    found: Sequence[Any] = []
    for job in jobs if "$job_id" in asked.expr else jobs[:1]:
        expr = board.filled(asked.expr, {"job_id": job})
        if asked.kind == "label_values":
            selector, _, label = expr.rpartition(",")
            found = server.label_values(label.strip(), selector)
        else:
            found = server.range(expr) if asked.kind == "range" else server.instant(expr)
        if found:
            break
    return found


def _look_at_panel(server: HistoryServer, board: Board, panel: dict[str, Any], jobs: Sequence[str]) -> Iterator[str]:
    missing: list[set[str]] = []
    about_a_job = any("$job_id" in target["expr"] for target in panel["targets"])
    for job in jobs if about_a_job else jobs[:1]:
        answers = []
        for target in panel["targets"]:
            expr = board.filled(target["expr"], {"job_id": job})
            answers.append(server.instant(expr) if target["instant"] else server.range(expr))
        if panel["type"] == "table":
            yield from _rows_that_clash(panel, answers)
            labels = {name for answer in answers for series in answer for name in series.labels}
            shown = panel["transformations"][1]["options"]["include"]["names"]
            if labels:  # a table of EMPTY queries has none
                missing.append({name for name in shown if not name.startswith("Value")} - labels)
        else:
            yield from _legends_that_fail(panel, answers)
            yield from _shares_that_are_none(panel, answers)
    # A cloud does not report every label for each job, but must report it for one of them.
    yield from (f"no query has the label {name}" for name in set.intersection(*missing or [set()]))


def _rows_that_clash(panel: Mapping[str, Any], answers: Sequence[Sequence[Series]]) -> Iterator[str]:
    """Grafana joins rows by the labels that all queries share, so these labels must be unique in each query."""
    labels = [{name for series in answer for name in series.labels} for answer in answers if answer]
    shared = set.intersection(*labels or [set()])
    for target, answer in zip(panel["targets"], answers, strict=True):
        rows = Counter(tuple(sorted((name, series.labels.get(name, "")) for name in shared)) for series in answer)
        yield from (f"query {target['refId']} has {count} rows of {row}" for row, count in rows.items() if count > 1)


def _legends_that_fail(panel: Mapping[str, Any], answers: Sequence[Sequence[Series]]) -> Iterator[str]:
    legends = Counter(
        _legend(target["legendFormat"], series)
        for target, answer in zip(panel["targets"], answers, strict=True)
        for series in answer
    )
    yield from (f"{count} series are called {name!r}" for name, count in legends.items() if count > 1)
    yield from (f"a legend says {name!r}" for name in legends if not name.strip(" ·"))


def _shares_that_are_none(panel: Mapping[str, Any], answers: Sequence[Sequence[Series]]) -> Iterator[str]:
    if panel["fieldConfig"]["defaults"]["unit"] == "percentunit" and panel["title"] not in BEYOND_ONE:
        values = [value for answer in answers for series in answer for value in series.values.values()]
        yield from (f"{value} as a share" for value in values if not 0 <= value <= 1)


def _look_at_variables(server: HistoryServer, board: Board) -> Iterator[str]:
    """A regular expression of a variable must find a text and a value in each result."""
    for name, variable in board.variables.items():
        if not variable.get("regex"):
            continue
        pattern = re.compile(variable["regex"].removeprefix("/").removesuffix("/g").replace("(?<", "(?P<"))
        for series in server.instant(board.filled(variable["query"]["query"].split("(", 1)[1].removesuffix(")"), {})):
            line = "{" + ", ".join(f'{label}="{value}"' for label, value in sorted(series.labels.items())) + "}"
            groups = [match.groupdict() for match in pattern.finditer(line)]
            if not all(any(group[part] for group in groups) for part in ("text", "value")):
                yield f"${name}: {line} gives {groups}"


def _legend(template: str, series: Series) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: series.labels.get(found[1], ""), template)
