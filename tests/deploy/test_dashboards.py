"""The files of dashboards are up to date and valid for Grafana."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.generator import DEPLOY, dashboards, out_of_step
from deploy.generator.__main__ import main

from tests.deploy.boards import FOLDER, VARIABLE, Board, boards

BOARDS = boards()
UIDS = {f"trainfleet-{name}" for name in ("fleet", "job", "pools", "goodput", "cost", "exporter")}

each_board = pytest.mark.parametrize("board", BOARDS, ids=[board.name for board in BOARDS])


def test_files_are_in_step() -> None:
    """If this fails, run `python -m deploy.generator`."""
    assert sorted(out_of_step((dashboards.files,))) == []


def test_no_file_is_left_from_before() -> None:
    there = {path.relative_to(DEPLOY) for path in (DEPLOY / "grafana").rglob("*") if path.is_file()}
    assert there == set(dashboards.files())


def test_check_names_what_is_out_of_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {Path("a/kept.yaml"): "kept\n", Path("a/changed.yaml"): "new\n", Path("b/missing.yaml"): "new\n"}
    monkeypatch.setattr("deploy.generator.DEPLOY", tmp_path)
    monkeypatch.setattr("deploy.generator.__main__.SOURCES", (lambda: wanted,))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kept.yaml").write_text("kept\n")
    (tmp_path / "a" / "changed.yaml").write_text("old\n")
    assert main(["--check"]) == 1
    assert capsys.readouterr().out == "out of date: deploy/a/changed.yaml\nout of date: deploy/b/missing.yaml\n"
    assert main([]) == 0
    assert {path: (tmp_path / path).read_text() for path in wanted} == wanted
    assert main(["--check"]) == 0


def test_there_are_six() -> None:
    assert {board.json["uid"] for board in BOARDS} == UIDS
    assert {board.name for board in BOARDS} == UIDS
    assert len({board.json["title"] for board in BOARDS}) == len(UIDS)


@each_board
def test_head(board: Board) -> None:
    head = board.json
    assert head["schemaVersion"] == 42
    assert head["description"]
    assert head["editable"] is False
    assert "id" not in head  # Grafana assigns the id
    assert [(link["type"], link["tags"], link["includeVars"], link["keepTime"]) for link in head["links"]] == [
        ("dashboards", ["trainfleet"], True, True)
    ]
    assert head["tags"] == ["trainfleet"]


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
def test_lines_of_panels_are_full(board: Board) -> None:
    """A gap in a line means that a panel has the wrong width."""
    widths: dict[int, int] = {}
    for panel in board.json["panels"]:
        place = panel["gridPos"]
        widths[place["y"]] = widths.get(place["y"], 0) + place["w"]
    assert {y: width for y, width in widths.items() if width != 24} == {}


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


def test_the_job_is_reached_from_everywhere_but_the_exporter() -> None:
    linked = {board.name for board in BOARDS for panel in board.panels for url in _links(panel)}
    assert linked == UIDS - {"trainfleet-exporter"}


@each_board
def test_columns_of_tables_are_set_once(board: Board) -> None:
    """The settings of a column must name an existing column."""
    for panel in board.panels:
        if panel["type"] == "table":
            renamed = list(panel["transformations"][2]["options"]["renameByName"].values())
            said = [override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]]
            assert sorted(said) == sorted(renamed), panel["title"]
            assert len(set(renamed)) == len(renamed)


@each_board
def test_every_variable_is_used_and_known(board: Board) -> None:
    own = {f"query of ${name}: {v['query']}": v for name, v in board.variables.items() if v["type"] == "query"}
    texts = [target["expr"] for _, target in board.targets()] + [v["query"]["query"] for v in own.values()]
    used = {name for text in texts for name in VARIABLE.findall(text) if not name.startswith("__")}
    assert used | {"datasource"} == board.variables.keys()


def test_variables_of_the_job_go_from_provider_to_pod() -> None:
    job = next(board for board in BOARDS if board.name == "trainfleet-job")
    names = [name for name in job.variables if name not in {"datasource", "status"}]
    assert names == ["provider", "workspace", "user", "job_id", "pod"]
    for earlier, later in pairwise(names):
        assert f"${earlier}" in job.variables[later]["query"]["query"], later


def test_provisioning_names_the_data_source_and_the_folder() -> None:
    folder = DEPLOY / "grafana" / "provisioning"
    [source] = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text("utf-8"))["datasources"]
    assert (source["type"], source["isDefault"], source["url"]) == ("prometheus", True, "${PROMETHEUS_URL}")
    [provider] = yaml.safe_load((folder / "dashboards" / "trainfleet.yaml").read_text("utf-8"))["providers"]
    assert provider["type"] == "file"
    assert provider["options"]["path"].startswith("/")
    assert FOLDER.is_dir()


def _links(panel: dict[str, Any]) -> list[str]:
    return [
        link["url"]
        for override in panel["fieldConfig"]["overrides"]
        for property_ in override["properties"]
        if property_["id"] == "links"
        for link in property_["value"]
    ]
