"""The modules of the exporter that providers may import, inside and outside the exporter's package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from trainfleet_exporter.providers.registry import Platform

_MODULES = {
    "": ("model", "errors", "polling", "transport", "config"),
    "transport.": ("json_fields", "payload", "calls", "proxies"),
    "process.": ("logs", "redaction", "threads"),
    "config.": ("schema", "kinds", "secrets"),
    "families.": ("family", "usage"),
    "fleet.": (
        *("chosen_metrics", "collectors", "jobs", "lists", "sources", "workspaces", "usage", "past", "history"),
        *("histories", "quantities"),
    ),
    "providers.": ("registry", "history", "values", "canonical", "key_search", "judging", "keys"),
}
PUBLIC = tuple(f"trainfleet_exporter.{package}{name}" for package, names in _MODULES.items() for name in names)
"""The modules by name. The docstring of each says what it is for."""
_CLIENTS = frozenset({"aiohttp", "httpcore", "httpx", "requests", "urllib3"})
_CLIENT_MODULES = frozenset({"http.client", "urllib.request"})
_OURS = frozenset({"trainfleet_conformance", "trainfleet_exporter", "trainfleet_simulator"})


def source_folder(platform: Platform) -> Path:
    """Return the folder of a platform's modules: the folder of the module that has its `build`."""
    file = sys.modules[platform.build.__module__].__file__
    assert file is not None
    return Path(file).parent


def private_imports(folder: Path) -> list[str]:
    """Find imports of HTTP clients and of modules that are not public, in the modules of a folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        package = _package(folder)
        for line, module in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if _is_private(module, package):
                found.append(f"{path.relative_to(folder)}:{line} imports {module}")
    return found


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and module of each import; `from package import module` yields the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if name in sys.modules]
            yield from ((node.lineno, name) for name in modules or [node.module])


def _package(folder: Path) -> str:
    """Return the package of a folder."""
    parts = [folder.name]
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
        parts.insert(0, folder.name)
    return ".".join(parts)


def _is_private(module: str, package: str) -> bool:
    if f"{module}.".startswith(f"{package}."):
        return False
    top = module.partition(".")[0]
    return top in _CLIENTS or module in _CLIENT_MODULES or (top in _OURS and module not in PUBLIC)
