"""One name means one thing, and no class or module has a name that only its author can read."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.architecture.source import EXPORTER, component, modules

RETIRED = {
    "aside": "daemon-thread executor",
    "board": "page store, family lines, chunk",
    "book": "job registry",
    "calendar": "billing period",
    "confirm": "etag, not modified",
    "division": "shard assignment, primary shard",
    "doors": "public API, listeners",
    "ending": "signals",
    "fit_in": "cooperative scheduling",
    "give_way": "cooperative scheduling",
    "groundwork": "topic, shared state",
    "guest": "connection",
    "guests": "connection",
    "handover": "source arbitration",
    "hangup": "signals",
    "home": "shard assignment, primary shard",
    "knowledge": "topic, shared state",
    "lease": "refreshable credential",
    "lineup": "entity index",
    "mark": "etag, not modified",
    "moment": "billing period",
    "paces": "throttling by budget",
    "piece": "page store, family lines, chunk",
    "pile": "page store, family lines, chunk",
    "places": "entity index",
    "readers": "slow-client timeout",
    "roster": "entity index",
    "sealed": "HoldsSecrets",
    "seat": "shard assignment, primary shard",
    "setback": "back-off",
    "shelf": "page store, family lines, chunk",
    "spread": "shard assignment, primary shard",
    "strangers": "connection",
    "sweep": "bulk collector",
    "told": "redaction, or note, report, publish",
    "turns": "fair queue",
    "way_out": "transport factory",
}
"""Words of the first plan, and what the second one calls their things."""
_CLOUDS = re.compile(
    r"trainfleet_exporter\.providers\.(alibaba_pai|aws_sagemaker|huawei_modelarts)\b"
    r"|trainfleet_simulator\.(pai|modelarts|sagemaker)\b"
)
"""Modules of one cloud, real or simulated: these may mirror each other."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
_CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
"""Rooms that are being rewritten elsewhere: to be checked, too, as soon as that has been merged."""


def _shared(package: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules of a package that are not of one cloud."""
    for module, tree in modules().items():
        if module.partition(".")[0] == package and not _CLOUDS.match(module):
            yield module, tree


def _retired(name: str, here: str = "") -> list[str]:
    """The retired words in a name: whole words of it, however they are joined."""
    words = "_".join(word.lower() for word in _WORD.findall(name))
    found = [word for word in sorted(RETIRED) if f"_{word}_" in f"_{words}_"]
    # A standby holds a lease, in the field's sense. Credentials do not.
    return [word for word in found if word != "lease" or here.startswith("providers/")]


def test_no_module_or_class_has_a_retired_name() -> None:
    found = []
    for module, tree in modules().items():
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for name in (module.rpartition(".")[2], *classes):
            found += [f"{module}: {name}: say {RETIRED[word]}" for word in _retired(name, component(module))]
    assert found == []


def test_retired_words_are_found_within_names() -> None:
    assert _retired("FairTurns") == ["turns"]
    assert _retired("way_out_of_it") == ["way_out"]
    assert _retired("Lease", "providers/keys") == ["lease"]
    assert _retired("Lease", "app") == _retired("Returns") == _retired("Homepage") == []


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
