"""The pages about providers quote the example exactly, and their tables match the code."""

from __future__ import annotations

import os
import re

from tests.conformance.deliberate import EXAMPLE
from tests.docs.pages import ROOT, blocks
from trainfleet_conformance.public_api import PUBLIC

PAGE = ROOT / "docs" / "adding-a-provider.md"
REFERENCE = ROOT / "docs" / "provider-reference.md"
SOURCES = EXAMPLE / "src" / "trainfleet_lantern"


def test_excerpts_stand_in_the_example() -> None:
    files = [*EXAMPLE.rglob("*.py"), EXAMPLE / "pyproject.toml"]
    texts = [_flat(path.read_text(encoding="utf-8")) for path in files]
    excerpts = [*blocks(PAGE, "python", "toml"), *blocks(REFERENCE, "python")]
    assert len(excerpts) >= 8
    for excerpt in excerpts:
        assert any(_flat(excerpt.text) in text for text in texts), f"{excerpt} stands in no file of the example"


def test_the_lines_of_its_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    reported = {name: int(lines) for name, lines in re.findall(r"^\| `(\w+\.py)` \| (\d+) \|", page, re.MULTILINE)}
    assert reported == {
        path.name: len(path.read_text(encoding="utf-8").splitlines())
        for path in SOURCES.glob("*.py")
        if path.name != "__init__.py"
    }


def test_the_table_of_public_modules() -> None:
    rows = [f"| `{module}` | {purpose} |" for module, purpose in PUBLIC.items()]
    _check_table("public", "| module | what it is for |", rows)


def _flat(text: str) -> str:
    """Remove indents, because pages quote methods without the indent of their class."""
    return "\n".join(line.strip() for line in text.splitlines())


def _check_table(name: str, head: str, rows: list[str]) -> None:
    """Check the table between two marks of the page. UPDATE_GOLDEN=1 writes it."""
    table = "\n".join((head, "|---|---|", *rows))
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    before, found, rest = REFERENCE.read_text(encoding="utf-8").partition(begin)
    assert found
    shown, closed, after = rest.partition(end)
    if os.environ.get("UPDATE_GOLDEN"):
        REFERENCE.write_text(before + begin + table + end + (after if closed else f"\n{rest}"), encoding="utf-8")
        return
    assert shown == table
