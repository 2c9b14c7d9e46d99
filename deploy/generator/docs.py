"""The references in docs/. The text between two marks of a page is generated from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.generator import docs_commands, docs_config, docs_metrics

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"

_PAGES: Mapping[str, Callable[[], str]] = {
    "command-line.md": docs_commands.reference,
    "configuration.md": docs_config.reference,
    "metrics.md": docs_metrics.reference,
}


def files() -> Mapping[Path, str]:
    """Return the whole text of each page with a generated part. Paths are relative to deploy/.

    Raises ValueError if a page does not have both marks exactly once.
    """
    return {Path("../docs", name): _renewed(DOCS / name, make()) for name, make in _PAGES.items()}


def _renewed(page: Path, made: str) -> str:
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{page.name} must hold {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{rest.partition(END)[2]}"
