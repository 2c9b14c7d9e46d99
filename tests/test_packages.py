"""Which of the distribution's packages imports which: the exporter runs without the simulator and without the kit."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from trainfleet_conformance.public_api import imports

SOURCES = Path(__file__).parent.parent / "src"
EXPORTER, KIT, SIMULATOR = PACKAGES = ("trainfleet_exporter", "trainfleet_conformance", "trainfleet_simulator")


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
    assert importers(EXPORTER, SIMULATOR).keys() == {"app/demo.py"}


def test_only_the_former_path_imports_the_kit() -> None:
    """pytest is no dependency of the exporter."""
    assert importers(EXPORTER, KIT).keys() == {"testing.py"}


def test_former_path_of_the_kit_gives_the_same_objects() -> None:
    for name in ("ProviderConformance", "PretendCloud", "PUBLIC"):
        former = importlib.import_module(f"{EXPORTER}.testing")
        assert getattr(former, name) is getattr(importlib.import_module(KIT), name)
    for module in ("clock", "planted", "page"):
        assert importlib.import_module(f"{EXPORTER}.testing.{module}") is importlib.import_module(f"{KIT}.{module}")


def test_the_simulator_shares_only_signatures_with_the_exporter() -> None:
    """The simulated clouds must not read a field as the exporter's translators do: both could be wrong alike."""
    imported = set().union(*importers(SIMULATOR, EXPORTER).values())
    assert imported <= {
        "trainfleet_exporter.providers.alibaba_pai.api",
        "trainfleet_exporter.providers.canonical",
        "trainfleet_exporter.providers.huawei_modelarts.api",
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed_and_built(package: str) -> None:
    assert (SOURCES / package / "py.typed").exists()
    assert f'"src/{package}"' in (SOURCES.parent / "pyproject.toml").read_text(encoding="utf-8")
