"""One name means one thing, and no class or module has a name that only its author can read."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.architecture.source import EXPORTER, modules

_CLOUDS = re.compile(
    r"trainfleet_exporter\.providers\.(alibaba_pai|aws_sagemaker|huawei_modelarts)\b"
    r"|trainfleet_simulator\.(pai|modelarts|sagemaker)\b"
)
"""Modules of one cloud, real or simulated: these may mirror each other."""
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def _shared(package: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of a package that are not of one cloud."""
    for module, tree in modules().items():
        if module.partition(".")[0] == package and not _CLOUDS.match(module):
            yield module, tree


@pytest.mark.parametrize("package", sorted({module.partition(".")[0] for module in modules()}))
def test_no_two_classes_of_shared_components_have_one_name(package: str) -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for module, tree in _shared(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_no_constant_of_shared_components_has_two_meanings() -> None:
    """Two modules may bound the same thing by the same value."""
    values: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for module, tree in _shared(EXPORTER):
        for node in tree.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ) if _CONSTANT.fullmatch(name):
                    values[name].setdefault(ast.unparse(value), module)
    assert {name: list(found.values()) for name, found in values.items() if len(found) > 1} == {}
