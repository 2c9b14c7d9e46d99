"""The modules of the exporter that providers may import, inside and outside the exporter's package."""

from __future__ import annotations

import ast
import inspect
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
        *("chosen_metrics", "collectors", "jobs", "lists", "sources", "workspaces", "usage", "past", "histories"),
        "quantities",
    ),
    "providers.": ("registry", "past", "values", "canonical", "key_search", "judging", "keys"),
}
PUBLIC = tuple(f"trainfleet_exporter.{package}{name}" for package, names in _MODULES.items() for name in names)
"""The modules by name. The docstring of each says what it is for."""
_CLIENTS = frozenset({"aiohttp", "httpcore", "httpx", "requests", "urllib3", "http.client", "urllib.request"})
_OURS = frozenset({"trainfleet_conformance", "trainfleet_exporter", "trainfleet_simulator"})


def source_folder(platform: Platform) -> Path:
    """Return the folder of a platform's modules: the folder of the module that has its `build`."""
    return Path(inspect.getfile(platform.build)).parent


def private_imports(folder: Path) -> list[str]:
    """Find imports of HTTP clients and of modules that are not public, in the modules of a folder."""
    own = f"trainfleet_exporter.providers.{folder.name}."
    return [
        f"{path.relative_to(folder)}:{line} imports {module}"
        for path in sorted(folder.rglob("*.py"))
        for line, module in _imports(ast.parse(path.read_text(encoding="utf-8")))
        if _is_private(module) and not f"{module}.".startswith(own)
    ]


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and module of each import; `from package import module` yields the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if name in sys.modules]
            yield from ((node.lineno, name) for name in modules or [node.module])


def _is_private(module: str) -> bool:
    top = module.partition(".")[0]
    return not _CLIENTS.isdisjoint((top, module)) or (top in _OURS and module not in PUBLIC)
