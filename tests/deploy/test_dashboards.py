"""The files of dashboards are up to date and valid for Grafana."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest
from deploy.generator import dashboards, out_of_step

from tests.deploy.boards import VARIABLE, Board, boards

BOARDS = boards()

each_board = pytest.mark.parametrize("board", BOARDS, ids=[board.name for board in BOARDS])


def test_files_are_in_step() -> None:
    """If this fails, run `python -m deploy.generator`."""
    assert sorted(out_of_step((dashboards.files,))) == []


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
