"""The values of fields that the installed SDKs of the vendors document in their sources."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

DLC, STUDIO = "alibabacloud_pai_dlc20201203", "alibabacloud_paistudio20220112"
WORKSPACES = "alibabacloud_aiworkspace20210204"
MODELARTS = "huaweicloudsdkmodelarts"
NEWER: Mapping[str, str] = {}
"""Words of ModelArts' jobs and workloads that its SDK lacks, each with the place that has it."""

_LIST_ITEM = re.compile(r"^#\s+[-*]\s+`?([A-Za-z][\w-]*)", re.MULTILINE)
_INLINE = re.compile(r"(?:[Vv]alid values|Possible values include):?\s+([^.]+)\.")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_HUAWEI_ITEM = re.compile(r"(?:^|\s)-\s+\[?([A-Za-z][\w-]*)")


def alibaba(package: str, module: str, model: str, field: str) -> frozenset[str]:
    """Return the values in the comment above a field of a model. Empty if it lists none."""
    source = _source(package, f"models/{module}.py")
    _, found, rest = source.partition(f"class {model}(")
    assert found, f"{package} has no {model}"
    body = rest.partition("\nclass ")[0]
    lines = body[: body.index(f"self.{field} = {field}\n")].splitlines()[:-1]  # the last one is only the indent
    comment: list[str] = []
    while lines and lines[-1].strip().startswith("#"):
        comment.insert(0, lines.pop().strip())
    text = "\n".join(comment)
    listed = _LIST_ITEM.findall(text)
    inline = _INLINE.search(text)
    if listed or inline is None:
        return frozenset(listed)
    return frozenset(_WORD.findall(inline[1].replace(" and ", " ").replace("`", " ")))


def modelarts(module: str, field: str) -> frozenset[str]:
    """Return the values in the docstring of a field of a model. Empty if it lists none."""
    documented = re.search(rf":param {field}: (.*)", _source(MODELARTS, f"v1/model/{module}.py"))
    assert documented is not None, f"{MODELARTS} has no {module}.{field}"
    return frozenset(_HUAWEI_ITEM.findall(documented[1]))


def modelarts_keys(module: str) -> frozenset[str]:
    """Return the JSON keys of a model."""
    for node in ast.walk(ast.parse(_source(MODELARTS, f"v1/model/{module}.py"))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "attribute_map":
            return frozenset(ast.literal_eval(node.value).values())
    raise AssertionError(f"{module} has no attribute_map")


@cache
def folder(package: str) -> Path:
    """Return the folder of an installed package, without importing it.

    One of the packages has 1,300 modules and writes to the home folder.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        assert not os.environ.get("CI"), f"the vendor's package {package} is not installed"
        pytest.skip(f"the vendor's package {package} is not installed")
    return Path(spec.origin).parent


@cache
def _source(package: str, path: str) -> str:
    return (folder(package) / path).read_text(encoding="utf-8")
