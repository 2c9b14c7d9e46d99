"""The pages about providers quote the example exactly, and their tables match the code."""

from __future__ import annotations

import re

from tests.conformance.deliberate import EXAMPLE
from tests.docs.pages import ROOT, blocks
from trainfleet_conformance.public_api import PUBLIC

PAGE = ROOT / "docs" / "adding-a-provider.md"
REFERENCE = ROOT / "docs" / "provider-reference.md"


def test_excerpts_stand_in_the_example() -> None:
    files = [*EXAMPLE.rglob("*.py"), EXAMPLE / "pyproject.toml"]
    texts = [_flat(path.read_text(encoding="utf-8")) for path in files]
    excerpts = [*blocks(PAGE, "python", "toml"), *blocks(REFERENCE, "python")]
    assert len(excerpts) >= 8
    for excerpt in excerpts:
        assert any(_flat(excerpt.text) in text for text in texts), f"{excerpt} stands in no file of the example"


def test_the_list_of_public_modules() -> None:
    shown = REFERENCE.read_text(encoding="utf-8").partition("<!-- public -->")[2].partition("<!-- end of public -->")[0]
    assert sorted(re.findall(r"`([\w.]+)`", shown)) == sorted(PUBLIC)


def _flat(text: str) -> str:
    """Remove indents, because pages quote methods without the indent of their class."""
    return "\n".join(line.strip() for line in text.splitlines())
