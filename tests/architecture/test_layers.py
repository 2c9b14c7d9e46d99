"""No modules or components import each other in cycles, and docs/architecture.md shows the layers that follow."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

import pytest

from tests.architecture.source import ROOT, component, imports, modules


def _components() -> dict[str, set[str]]:
    """By component, the components that its modules import."""
    found: dict[str, set[str]] = {}
    for module in modules():
        if here := component(module):
            found.setdefault(here, set()).update({component(other) for other in imports(module)} - {here, ""})
    return found


def _cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes of a cycle; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _picture(graph: Mapping[str, set[str]]) -> str:
    """The components by layer, the highest first: each is right above the highest component that it imports."""
    layers: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        layers[name] = 1 + max((layers[other] for other in graph[name]), default=-1)
    ordered = sorted(layers, key=lambda name: (-layers[name], name))
    lines = [(layer, "  ".join(names)) for layer, names in groupby(ordered, key=lambda name: layers[name])]
    return "\n".join(f"    {layer:>2}  {names}" for layer, names in lines)


def test_no_modules_import_each_other_in_a_cycle() -> None:
    assert _cycle({module: imports(module) for module in modules()}) == []


def test_no_components_import_each_other_in_a_cycle() -> None:
    assert _cycle(_components()) == []


def test_docs_show_the_layers_that_the_imports_make() -> None:
    picture = _picture(_components())
    assert picture in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), f"the layers are:\n{picture}"


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
