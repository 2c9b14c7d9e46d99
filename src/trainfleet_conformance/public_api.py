"""The modules of the exporter that providers may import, inside and outside the exporter's package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainfleet_exporter.providers.registry import Platform

PUBLIC: Mapping[str, str] = {
    "trainfleet_exporter.model": "the objects of all clouds, in base units",
    "trainfleet_exporter.errors": "errors that a provider may raise",
    "trainfleet_exporter.transport.json_fields": "tolerant reading of fields",
    "trainfleet_exporter.process.logs": "`fields`, the facts of a log message of a built-in cloud",
    "trainfleet_exporter.process.redaction": "base of dataclasses that hold secrets",
    "trainfleet_exporter.process.threads": "threads that end with the daemon",
    "trainfleet_exporter.config": "base classes of configs of providers",
    "trainfleet_exporter.config.schema": "base classes of configs of providers with less common keys",
    "trainfleet_exporter.config.kinds": "types of fields; URLs of endpoints and proxies",
    "trainfleet_exporter.config.secrets": "secrets whose `repr` and `str` never contain the value; texts to show",
    "trainfleet_exporter.polling": "collectors, parts, and topics that collectors share",
    "trainfleet_exporter.transport": "calls, signed and limited",
    "trainfleet_exporter.transport.payload": "decoding of responses into structs",
    "trainfleet_exporter.transport.calls": "the building blocks of the transport",
    "trainfleet_exporter.transport.proxies": "the proxy for a URL",
    "trainfleet_exporter.families.family": "patterns of families that the config denies",
    "trainfleet_exporter.families.usage": "families of usage",
    "trainfleet_exporter.fleet.chosen_metrics": "metrics that the config chooses for families of usage",
    "trainfleet_exporter.fleet.collectors": "collectors that are methods, or read jobs one by one",
    "trainfleet_exporter.fleet.jobs": "live jobs, finished jobs and what is shown of them",
    "trainfleet_exporter.fleet.lists": "complete lists, read page by page",
    "trainfleet_exporter.fleet.sources": "which of two sources serves a job",
    "trainfleet_exporter.fleet.workspaces": "workspaces and the jobs in them",
    "trainfleet_exporter.fleet.usage": "the newest readings of usage, and for how long they are shown",
    "trainfleet_exporter.fleet.past": "division of a past range into calls, and its readings",
    "trainfleet_exporter.fleet.history": "phases, faults and recoveries of a job",
    "trainfleet_exporter.fleet.histories": "histories of all jobs, counted once",
    "trainfleet_exporter.fleet.quantities": "units, and limits of plausible values",
    "trainfleet_exporter.providers.registry": "the definition of a platform, and the transport of a config",
    "trainfleet_exporter.providers.history": "past values of a cloud, for the backfill",
    "trainfleet_exporter.providers.values": "the meaning of single values of payloads",
    "trainfleet_exporter.providers.canonical": "the form in which requests are signed",
    "trainfleet_exporter.providers.key_search": "the search for keys: calls, files, environment",
    "trainfleet_exporter.providers.judging": "errors by codes, and wrong clocks",
    "trainfleet_exporter.providers.keys": "keys, with refresh and rotation",
}
"""The purpose of each module."""
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
