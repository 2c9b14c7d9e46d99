"""Where the room stands among the others: above the transport, which knows budgets by a protocol only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import trainfleet_exporter
from trainfleet_conformance.public_api import imports

SOURCE = Path(trainfleet_exporter.__file__).parent
BELOW = {"budgets", "config", "errors", "transport"}


def rooms(folder: str) -> set[str]:
    """The rooms and modules of the package that the modules of a room import."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / folder).glob("*.py")]
    names = {module for tree in trees for _, module in imports(tree)}
    return {name.split(".")[1] for name in names if name.startswith("trainfleet_exporter.")}


def test_budgets_import_only_what_is_below_them() -> None:
    assert rooms("budgets") <= BELOW


@pytest.mark.parametrize("room", ["config", "transport"])
def test_what_is_below_does_not_import_budgets(room: str) -> None:
    assert rooms(room).isdisjoint({"budgets", "polling", "providers"})
