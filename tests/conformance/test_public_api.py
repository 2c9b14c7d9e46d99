"""Which modules providers import, and that no other module of the exporter names a cloud."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.deliberate import ROOT
from trainfleet_conformance.public_api import PUBLIC, private_imports, source_folder
from trainfleet_exporter.providers.registry import installed_platforms

SOURCES = ROOT / "src" / "trainfleet_exporter"
CLOUD = re.compile(r"(?i:alibaba|aliyun|sagemaker|amazon|huawei|modelarts|lantern)|\b(?i:pai)\b|PAI")
BUILT_IN = {"alibaba_pai", "aws_sagemaker", "huawei_modelarts"}
ELSEWHERE = {
    "app/demo.py": "the demo is of these two",
}
"""Modules outside of the clouds' own folders that name one, and why."""
_MODULES = sorted(
    path
    for path in SOURCES.rglob("*.py")
    if path.relative_to(SOURCES).parts[:2] not in {("providers", name) for name in BUILT_IN}
)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_cloud_imports_what_is_public(name: str) -> None:
    assert private_imports(source_folder(installed_platforms()[name])) == []


@pytest.mark.parametrize(
    "line",
    [
        "import httpx",
        "import http.client",
        "from urllib.request import urlopen",
        "from trainfleet_exporter.app.exporter import Exporter",
        "import trainfleet_exporter.exposition.render",
        "from trainfleet_exporter.polling import runner",
        "from trainfleet_simulator import Simulator",
        "from trainfleet_exporter.providers.alibaba_pai import history",
    ],
)
def test_what_is_private_is_found(line: str, tmp_path: Path) -> None:
    importlib.import_module("trainfleet_exporter.providers.alibaba_pai.history")
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("from mine import other\n")
    (package / "other.py").write_text(f"import json\n\ndef late():\n    {line}\n")
    (found,) = private_imports(package)
    assert found.startswith("other.py:4 imports ")


@pytest.mark.parametrize("module", PUBLIC)
def test_a_public_module_is_there_and_says_what_it_is(module: str) -> None:
    assert importlib.import_module(module).__doc__


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: path.relative_to(SOURCES).as_posix())
def test_nobody_else_names_a_cloud(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = sorted({word for word in _words(tree) if CLOUD.search(word)})
    if path.relative_to(SOURCES).as_posix() in ELSEWHERE:
        assert named, "it names none: it needs no exception"
    else:
        assert named == []


def _words(tree: ast.Module) -> Iterator[str]:
    """Names and texts of a module, without what is written for people alone: docstrings and texts beneath fields."""
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in spoken:
                yield text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield text
            case ast.ImportFrom(module=str(text)) | ast.alias(name=text):
                yield text
