"""The modules of the packages under `src`, as the tests of this folder read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
EXPORTER = "trainfleet_exporter"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its full name; a package by its own name."""
    found = {}
    for path in sorted(SOURCE.glob("trainfleet_*/**/*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(module: str) -> set[str]:
    """The modules of ours that a module imports: at its top, in functions, and for type checking."""
    found: set[str] = set()
    for node in ast.walk(modules()[module]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(_imported(node.module, node.names))
    return {name for name in found if name in modules()} - {module}


def _imported(package: str, names: list[ast.alias]) -> Iterator[str]:
    """The modules that `from package import names` imports: a name may be a module or stand in the package."""
    for alias in names:
        inner = f"{package}.{alias.name}"
        yield inner if inner in modules() else package


def component(module: str) -> str:
    """The component of a module: a package or module at the top of the exporter, of `providers`, or of another package.

    Empty for the packages that only hold components; anything may import those.
    """
    package, *path = module.split(".")
    if package != EXPORTER:
        return package
    if path[:1] == ["providers"]:
        return "/".join(path[:2]) if len(path) > 1 else ""
    return path[0] if path else ""
