"""The references in docs/. The text between two marks of a page is generated from the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.generator import docs_commands, docs_config, docs_metrics, rules_page

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
_PART = re.compile(f"{BEGIN}(?s:.*?){END}")

_PAGES: Mapping[str, Sequence[Callable[[], str]]] = {
    "command-line.md": (docs_commands.reference,),
    "configuration.md": (docs_config.reference,),
    "metrics.md": (docs_metrics.tables, docs_metrics.usage, docs_metrics.own),
    "rules.md": (rules_page.records, rules_page.alerts, rules_page.families),
}
"""The generated parts of each page, in order."""


def files() -> Mapping[Path, str]:
    """Return the whole text of each page with generated parts. Paths are relative to deploy/.

    Raises ValueError if a page has another number of marks.
    """
    return {Path("../docs", name): _renewed(DOCS / name, [make() for make in parts]) for name, parts in _PAGES.items()}


def _renewed(page: Path, made: Sequence[str]) -> str:
    text = page.read_text(encoding="utf-8")
    if not text.count(BEGIN) == text.count(END) == len(_PART.findall(text)) == len(made):
        raise ValueError(f"{page.name} must hold {BEGIN} and {END}, {len(made)} times each")
    parts = iter(made)
    return _PART.sub(lambda _: f"{BEGIN}\n\n{next(parts).strip()}\n\n{END}", text)
