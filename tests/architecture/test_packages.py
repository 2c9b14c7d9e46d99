"""Which of the distribution's packages imports which: the exporter runs without the simulator and without the kit."""

from __future__ import annotations

import importlib

import pytest

from tests.architecture.source import EXPORTER, ROOT, SOURCE, imports, modules

KIT, SIMULATOR = "trainfleet_conformance", "trainfleet_simulator"


def importers(package: str, wanted: str) -> dict[str, set[str]]:
    """Return the modules of a package that import from the package `wanted`, and what they import."""
    own = {name: imports(name) for name in modules() if name.partition(".")[0] == package}
    assert own
    found = {name: {other for other in others if other.partition(".")[0] == wanted} for name, others in own.items()}
    return {name: others for name, others in found.items() if others}


def test_only_the_demo_imports_the_simulator() -> None:
    assert importers(EXPORTER, SIMULATOR).keys() == {f"{EXPORTER}.app.demo"}


def test_only_the_former_path_imports_the_kit() -> None:
    """pytest is no dependency of the exporter."""
    assert importers(EXPORTER, KIT).keys() == {f"{EXPORTER}.testing"}


def test_former_path_of_the_kit_gives_the_same_objects() -> None:
    for name in ("ProviderConformance", "PretendCloud", "PUBLIC"):
        former = importlib.import_module(f"{EXPORTER}.testing")
        assert getattr(former, name) is getattr(importlib.import_module(KIT), name)
    for module in ("clock", "planted", "page"):
        assert importlib.import_module(f"{EXPORTER}.testing.{module}") is importlib.import_module(f"{KIT}.{module}")


def test_the_simulator_shares_nothing_with_the_exporter() -> None:
    """The simulated clouds must not read a field as the exporter's translators do: both could be wrong alike."""
    assert not importers(SIMULATOR, EXPORTER)


@pytest.mark.parametrize("package", [EXPORTER, KIT, SIMULATOR])
def test_packages_are_typed_and_built(package: str) -> None:
    assert (SOURCE / package / "py.typed").exists()
    assert f'"src/{package}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
