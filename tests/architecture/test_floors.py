"""Modules and rooms import each other without circles, and docs/architecture.md shows the floors that follow."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

import pytest

from tests.architecture.source import ROOT, imports, modules, room


def _rooms() -> dict[str, set[str]]:
    """By room, the rooms that its modules import."""
    found: dict[str, set[str]] = {}
    for module in modules():
        if here := room(module):
            found.setdefault(here, set()).update({room(other) for other in imports(module)} - {here, ""})
    return found


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes of a circle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _picture(graph: Mapping[str, set[str]]) -> str:
    """The rooms floor by floor, the highest first: each stands right above the highest room that it imports."""
    floors: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        floors[name] = 1 + max((floors[other] for other in graph[name]), default=-1)
    ordered = sorted(floors, key=lambda name: (-floors[name], name))
    lines = [(floor, "  ".join(names)) for floor, names in groupby(ordered, key=lambda name: floors[name])]
    return "\n".join(f"    {floor:>2}  {names}" for floor, names in lines)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert _circle({module: imports(module) for module in modules()}) == []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    assert _circle(_rooms()) == []


def test_docs_show_the_floors_that_the_imports_make() -> None:
    picture = _picture(_rooms())
    assert picture in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), f"the floors are:\n{picture}"


def test_imports_in_functions_and_for_type_checking_count(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
if TYPE_CHECKING:
    from trainfleet_exporter.web import tls

def late():
    import trainfleet_exporter.model
    from trainfleet_exporter.errors import CloudError
"""
    name = "trainfleet_exporter.late"
    monkeypatch.setitem(modules(), name, ast.parse(text))
    assert imports(name) == {
        "trainfleet_exporter.web.tls",
        "trainfleet_exporter.model",
        "trainfleet_exporter.errors",
    }
