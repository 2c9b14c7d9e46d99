"""Which modules of the exporter are open to providers, those within the exporter's own package as well."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from trainfleet_exporter.providers.registry import Platform

PUBLIC: Mapping[str, str] = {
    "trainfleet_exporter.model": "the vocabulary of all clouds",
    "trainfleet_exporter.errors": "what may be raised",
    "trainfleet_exporter.transport.json_fields": "tolerant reading of fields",
    "trainfleet_exporter.process.redaction": "a base of dataclasses that hold secrets",
    "trainfleet_exporter.process.yielding": "long work in slices, between which scrapes are answered",
    "trainfleet_exporter.config": "what configs of providers derive from",
    "trainfleet_exporter.config.kinds": "types of fields",
    "trainfleet_exporter.config.secrets": "secrets that cannot print themselves",
    "trainfleet_exporter.config.plain": "keys that are no secrets and look like some",
    "trainfleet_exporter.config.scalars": "types of fields of your own",
    "trainfleet_exporter.config.urls": "addresses",
    "trainfleet_exporter.config.wording": "what is said of faults in a config; `Wording` for those of your own",
    "trainfleet_exporter.budgets.billing": "the months by which a cloud bills",
    "trainfleet_exporter.polling": "collectors, parts, and topics that collectors share",
    "trainfleet_exporter.transport": "calls, signed and limited",
    "trainfleet_exporter.transport.payload": "answers as the structs that describe them",
    "trainfleet_exporter.transport.calls": "the same as of the transport, for those that it is built of",
    "trainfleet_exporter.providers.registry": "what a platform is",
    "trainfleet_exporter.providers.transport_factory": "the transport of a config",
    "trainfleet_exporter.providers.jobs.shared": "what the collectors of a provider share",
    "trainfleet_exporter.providers.collectors": "collectors of lists, and of a part for each workspace",
    "trainfleet_exporter.providers.jobs.collectors": "the collectors of jobs, and a base for polling job by job",
    "trainfleet_exporter.providers.jobs.reader": "one poll of the jobs of a workspace",
    "trainfleet_exporter.providers.jobs.registry": "live jobs and how they ended",
    "trainfleet_exporter.providers.jobs.listing": "lists, page by page until they are whole",
    "trainfleet_exporter.providers.jobs.history": "what a job's time was spent on, its faults and recoveries",
    "trainfleet_exporter.providers.jobs.histories": "these of all jobs, counted once",
    "trainfleet_exporter.providers.jobs.filters": "which jobs have series of their own",
    "trainfleet_exporter.providers.jobs.past": "jobs of the past, found by lists; the base of a history",
    "trainfleet_exporter.providers.jobs.workspace_assignment": "large workspaces, divided job by job among shards",
    "trainfleet_exporter.providers.history": "what a cloud tells of the past, for the backfill",
    "trainfleet_exporter.providers.usage.table": "families of usage, and what the config chooses for them",
    "trainfleet_exporter.providers.usage.quantities": "units, and values that can be true",
    "trainfleet_exporter.providers.usage.entities": "what bulk readings are of",
    "trainfleet_exporter.providers.usage.newest": "the newest reading of each thing, of one metric",
    "trainfleet_exporter.providers.usage.columns": "from these to columns, and to wholes made of parts",
    "trainfleet_exporter.providers.usage.sized": "the same for jobs whose size is known",
    "trainfleet_exporter.providers.usage.sheet": "the readings of one job or pool",
    "trainfleet_exporter.providers.usage.staleness": "dated readings, shown until they are too old",
    "trainfleet_exporter.providers.usage.per_job": "usage that is asked for job by job",
    "trainfleet_exporter.providers.usage.arbitration": "which of two sources serves a job",
    "trainfleet_exporter.providers.usage.past": "how a past range is cut into calls",
    "trainfleet_exporter.providers.usage.dated": "dated readings of a range, and what wholes have of them",
    "trainfleet_exporter.providers.values": "what single values of payloads mean",
    "trainfleet_exporter.providers.credentials": "credentials of every form, refreshed and followed",
    "trainfleet_exporter.providers.credentials.canonical": "the form in which requests are signed",
}
"""By module, what it is for."""
_CLIENTS = frozenset({"aiohttp", "httpcore", "httpx", "requests", "urllib3"})
_CLIENT_MODULES = frozenset({"http.client", "urllib.request"})
_OURS = frozenset({"trainfleet_conformance", "trainfleet_exporter", "trainfleet_simulator"})


def source_folder(platform: Platform) -> Path:
    """The folder of a platform's modules: that of the one in which its `build` stands."""
    file = sys.modules[platform.build.__module__].__file__
    assert file is not None
    return Path(file).parent


def private_imports(folder: Path) -> list[str]:
    """Imports of modules that are not public, and of HTTP clients, in the modules of a folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        package = _package(folder)
        for line, module in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if _is_private(module, package):
                found.append(f"{path.relative_to(folder)}:{line} imports {module}")
    return found


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of each import; `from package import module` may be either, and is told as the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if name in sys.modules]
            yield from ((node.lineno, name) for name in modules or [node.module])


def _package(folder: Path) -> str:
    """The package that a folder is."""
    parts = [folder.name]
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
        parts.insert(0, folder.name)
    return ".".join(parts)


def _is_private(module: str, package: str) -> bool:
    if module == package or module.startswith(f"{package}."):
        return False
    if module.partition(".")[0] in _CLIENTS or module in _CLIENT_MODULES:
        return True
    return module.partition(".")[0] in _OURS and module not in PUBLIC
