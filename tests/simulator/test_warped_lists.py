"""Faults of paging: lists that move, repeat, do not end, or are not whole."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulator.operations import Asking
from tests.simulator.rig import Heard, Rig, fault_of
from tests.simulator.test_broken_bodies import ONE_THING, TEXTS

Rows = list[Any]


def points(body: Any) -> Rows:
    return list(json.loads(body["Datapoints"]))


PAGED: dict[str, tuple[Callable[[Any], Rows], Callable[[Any], str], str, int, str]] = {
    "pai ListJobs": (lambda body: body["Jobs"], lambda row: row["JobId"], "PageNumber", 1, "TotalCount"),
    "pai ListEcsSpecs": (lambda body: body["EcsSpecs"], lambda row: row["InstanceType"], "PageNumber", 1, "TotalCount"),
    "pai ListQuotas": (lambda body: body["Quotas"], lambda row: row["QuotaId"], "PageNumber", 1, "TotalCount"),
    "pai ListQuotaWorkloads": (
        lambda body: body["Workloads"],
        lambda row: row["WorkloadId"],
        "PageNumber",
        1,
        "TotalCount",
    ),
    "pai ListNodes": (lambda body: body["Nodes"], lambda row: row["NodeName"], "PageNumber", 1, "TotalCount"),
    "pai ListWorkspaces": (
        lambda body: body["Workspaces"],
        lambda row: row["WorkspaceId"],
        "PageNumber",
        1,
        "TotalCount",
    ),
    "pai DescribeMetricMetaList": (
        lambda body: body["Resources"]["Resource"],
        lambda row: row["MetricName"],
        "PageNumber",
        1,
        "TotalCount",
    ),
    "modelarts ListTrainingJobs": (
        lambda body: body["items"],
        lambda row: row["metadata"]["id"],
        "offset",
        0,
        "total",
    ),
    "modelarts ListWorkspaces": (
        lambda body: body["workspaces"],
        lambda row: row["id"],
        "offset",
        0,
        "total_count",
    ),
    "modelarts ListScheduledEvents": (
        lambda body: body["events"],
        lambda row: row["id"],
        "offset",
        0,
        "count",
    ),
    "modelarts ListTrainingJobsV1": (
        lambda body: body["jobs"],
        lambda row: row["job_id"],
        "page",
        1,
        "job_total_count",
    ),
}
"""Lists that are paged by a number: the rows, a row's id, the parameter and its first value, the total."""
BY_TOKEN: dict[str, tuple[Callable[[Any], Rows], Callable[[Any], str], str, Callable[[Any], str]]] = {
    "pai DescribeMetricLast": (points, lambda row: row["jobId"], "NextToken", lambda body: body.get("NextToken", "")),
    "modelarts ListPoolNodes": (
        lambda body: body["items"],
        lambda row: row["metadata"]["name"],
        "continue",
        lambda body: body["metadata"].get("continue", ""),
    ),
}


def read(
    rig: Rig, asking: Asking, more: Callable[[int, list[Heard]], dict[str, str] | None], **fault: Any
) -> list[Heard]:
    """The pages of a list, one after the other: `more` gives the parameters of the next one, or ends it."""
    rig.simulator.faults.clear()
    pages: list[Heard] = []
    while (query := more(len(pages), pages)) is not None:
        pages += rig.hear((asking.at(**query), fault_of(asking, **fault) if fault else None))
    return pages


def by_number(name: str) -> Callable[[int, list[Heard]], dict[str, str] | None]:
    rows, _, parameter, first, total = PAGED[name]

    def more(number: int, pages: list[Heard]) -> dict[str, str] | None:
        read_so_far = sum(len(rows(page.body)) for page in pages)
        if pages and (read_so_far >= int(pages[-1].body[total]) or not rows(pages[-1].body)):
            return None
        return {parameter: str(first + number)}

    return more


def by_token(name: str, most: int) -> Callable[[int, list[Heard]], dict[str, str] | None]:
    _, _, parameter, token = BY_TOKEN[name]

    def more(number: int, pages: list[Heard]) -> dict[str, str] | None:
        if number == 0:
            return {}
        found = token(pages[-1].body)
        return {parameter: found} if found and number < most else None

    return more


@pytest.mark.parametrize("name", sorted(PAGED.keys() - {"modelarts ListWorkspaces"}))
def test_rows_move_between_pages_and_are_all_to_be_had(rig: Rig, name: str) -> None:
    rows, id_of, _, _, total = PAGED[name]
    asking = rig.asking[name]
    true = read(rig, asking, by_number(name))
    assert len(true) > 1, "one page cannot move"
    moving = read(rig, asking, by_number(name), kind="moving_rows")
    assert [page.fault for page in moving] == [None, *["moving_rows"] * (len(moving) - 1)]
    pages = [[id_of(row) for row in rows(page.body)] for page in moving]
    for before, after in itertools.pairwise(pages):
        assert after[0] == before[-1]
    totals = [int(page.body[total]) for page in moving]
    assert totals == [totals[0] + number for number in range(len(totals))]
    assert max(map(len, pages)) == len(pages[0])
    assert {one for page in pages for one in page} == {id_of(row) for page in true for row in rows(page.body)}
    assert type(moving[-1].body[total]) is type(true[0].body[total])


@pytest.mark.parametrize("name", BY_TOKEN)
def test_rows_move_between_pages_by_token(rig: Rig, name: str) -> None:
    rows, id_of, _, _ = BY_TOKEN[name]
    asking = rig.asking[name]
    true = read(rig, asking, by_token(name, 100))
    moving = read(rig, asking, by_token(name, 100), kind="moving_rows")
    pages = [[id_of(row) for row in rows(page.body)] for page in moving]
    assert len(pages) == len(true) > 1
    for before, after in itertools.pairwise(pages):
        assert after[0] == before[-1]
    assert {one for page in pages for one in page} == {id_of(row) for page in true for row in rows(page.body)}


@pytest.mark.parametrize("name", PAGED)
def test_pages_by_number_do_not_end(rig: Rig, name: str) -> None:
    rows, id_of, parameter, first, total = PAGED[name]
    asking = rig.asking[name]
    (true,) = read(rig, asking, lambda number, _: {} if number == 0 else None)
    numbers = lambda number, _: {parameter: str(first + number)} if number < 6 else None  # noqa: E731
    found = read(rig, asking, numbers, kind="endless_pages")
    ids = [id_of(row) for page in found for row in rows(page.body)]
    assert len(ids) == len(set(ids)) == 6 * len(rows(true.body))
    assert {int(page.body[total]) for page in found} == {1_000_000_000}
    assert {(page.fault, page.outcome) for page in found} == {("endless_pages", "ok")}


@pytest.mark.parametrize("name", BY_TOKEN)
def test_pages_by_token_do_not_end(rig: Rig, name: str) -> None:
    rows, id_of, _, token = BY_TOKEN[name]
    found = read(rig, rig.asking[name], by_token(name, 12), kind="endless_pages")
    assert len(found) == 12
    assert len({token(page.body) for page in found}) == 12
    ids = [id_of(row) for page in found for row in rows(page.body)]
    assert len(ids) == len(set(ids)) == 12 * len(rows(found[0].body))


def test_a_token_of_a_list_without_end_is_the_clouds_no_longer(rig: Rig) -> None:
    asking = rig.asking["pai DescribeMetricLast"]
    (endless,) = read(rig, asking, by_token("pai DescribeMetricLast", 1), kind="endless_pages")
    (after,) = rig.hear((asking.at(NextToken=endless.body["NextToken"]), None))
    assert (after.status, after.body["Code"]) == (400, "ParameterInvalid")


UNPAGED = {"modelarts ShowWorkloadStatistics", "modelarts ListWorkloads", "modelarts ListTrainingJobVersions"}


def lists_of(heard: Heard) -> Rows:
    """The rows of any answer, by the longest way round."""
    body = heard.body
    for name in ("Datapoints",):
        if name in body:
            return points(body)
    holders = [body, *(value for value in body.values() if isinstance(value, dict))]
    names = (
        *("Jobs", "Quotas", "Workloads", "Nodes", "EcsSpecs", "Workspaces", "Resource", "Pods", "PodMetrics", "items"),
        *("workspaces", "jobs", "versions", "projects", "quotas", "metrics", "log_file_list", "result", "data"),
        "events",
    )
    for holder in holders:
        for name in names:
            if isinstance(holder.get(name), list):
                return [_opened(row) for row in holder[name]]
    return []


def _opened(row: Any) -> Any:
    if isinstance(row, dict) and "system_metric_list" in row:
        return row | {"system_metric_list": json.loads(row["system_metric_list"])}
    return row


def test_pages_of_one_row_do_not_move(rig: Rig) -> None:
    found = read(rig, rig.asking["modelarts ListWorkspaces"], by_number("modelarts ListWorkspaces"), kind="moving_rows")
    assert [page.fault for page in found] == [None, None]


def test_every_row_twice(rig: Rig) -> None:
    for name, (true, heard) in rig.everywhere(kind="duplicate_rows").items():
        if name in TEXTS | ONE_THING:
            assert heard.fault is None
            continue
        assert (heard.fault, heard.outcome) == ("duplicate_rows", "ok"), name
        assert lists_of(heard) == [row for row in lists_of(true) for _ in range(2)]
        for total in ("TotalCount", "total", "total_count", "job_total_count"):
            assert heard.body.get(total) == true.body.get(total)


def test_half_of_the_list(rig: Rig) -> None:
    answers = rig.everywhere(kind="half_list")
    halved = {name for name, (_, heard) in answers.items() if heard.fault}
    assert halved == {*PAGED, *UNPAGED}
    for name in halved:
        true, heard = answers[name]
        assert lists_of(heard) == lists_of(true)[: len(lists_of(true)) // 2]
        for total in ("TotalCount", "total", "total_count", "job_total_count", "version_count"):
            assert heard.body.get(total) == true.body.get(total)
        if "count" in true.body and name not in {"modelarts ListTrainingJobVersions", "modelarts ListScheduledEvents"}:
            assert heard.body["count"] == len(lists_of(heard))


def test_no_list_at_all(rig: Rig) -> None:
    for name, (true, heard) in rig.everywhere(kind="no_list").items():
        if name in TEXTS | ONE_THING:
            assert heard.fault is None
            continue
        assert (heard.fault, heard.outcome) == ("no_list", "bad_answer"), name
        assert lists_of(true)
        assert lists_of(heard) == []
