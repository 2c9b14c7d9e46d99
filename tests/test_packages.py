"""Which of the distribution's packages imports which: the exporter runs without the simulator and without the kit."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from trainfleet_exporter.testing.doors import imports

SOURCES = Path(__file__).parent.parent / "src"
SIMULATOR = "trainfleet_simulator"


def importers(package: str, wanted: str) -> dict[str, set[str]]:
    """The modules of a package that import from the package `wanted`, by path, and what they import."""
    found: dict[str, set[str]] = {}
    paths = sorted((SOURCES / package).rglob("*.py"))
    assert paths
    for path in paths:
        for _, module in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if module.partition(".")[0] == wanted:
                found.setdefault(path.relative_to(SOURCES / package).as_posix(), set()).add(module)
    return found


def test_only_the_demo_imports_the_simulator() -> None:
    found = {path for path in importers("trainfleet_exporter", SIMULATOR) if not path.startswith("testing/")}
    assert found == {"demo.py"}


def test_the_simulator_shares_only_signatures_with_the_exporter() -> None:
    """The simulated clouds must not read a field as the exporter's translators do: both could be wrong alike."""
    imported = set().union(*importers(SIMULATOR, "trainfleet_exporter").values())
    assert imported <= {
        "trainfleet_exporter.providers.alibaba_pai.signing",
        "trainfleet_exporter.providers.credentials.canonical",
        "trainfleet_exporter.providers.huawei_modelarts.signing",
    }


@pytest.mark.parametrize("package", ["trainfleet_exporter", SIMULATOR])
def test_packages_are_typed_and_built(package: str) -> None:
    assert (SOURCES / package / "py.typed").exists()
    assert f'"src/{package}"' in (SOURCES.parent / "pyproject.toml").read_text(encoding="utf-8")
