"""The references in docs/: what stands between two marks of a page is made from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from deploy.generator import docs_config, docs_detection, docs_metrics

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"

_PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": docs_config.reference,
    "detection.md": docs_detection.reference,
    "metrics.md": docs_metrics.reference,
}


def files() -> Mapping[Path, str]:
    """Each page with a generated part, whole, as it should be; its path starts from deploy/ as those of all do.

    ValueError where a page lacks its marks.
    """
    return {Path("../docs", name): _renewed(DOCS / name, make()) for name, make in _PAGES.items()}


def _renewed(page: Path, made: str) -> str:
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{page.name} must hold {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{made.strip()}\n\n{END}{rest.partition(END)[2]}"
