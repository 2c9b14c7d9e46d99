"""Every command of every page runs, or `NOT_HERE` has the reason why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.commands import Command, commands
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, name_of
from tests.docs.session import compare, session

_WITH_COMMANDS = [page for page in PAGES if commands(page)]


@pytest.mark.parametrize("page", _WITH_COMMANDS, ids=name_of)
def test_no_command_is_of_an_unknown_kind(page: Path) -> None:
    assert [f"{command.block}: {command.text}" for command in commands(page) if not command.kind] == []


def test_no_block_is_of_an_unknown_language() -> None:
    known = {"sh", "console", "yaml", "json", "promql", "python", "toml", "text"}
    assert [f"{block}: {block.language}" for block in all_blocks() if block.language not in known] == []


@pytest.mark.long
@pytest.mark.parametrize("page", _WITH_COMMANDS, ids=name_of)
def test_a_reader_who_types_what_the_page_says(page: Path, tmp_path: Path) -> None:
    with session(tmp_path) as reader:
        for command in commands(page):
            reader.type(command)


def test_what_a_page_shows_is_compared_but_for_figures() -> None:
    shown = _command("x", "a 12 b", "...", "last")
    compare(shown, "first\na 345 b\nmore\nlast\n")
    for printed in ("a x b\nlast\n", "a 1 b\n", "a 1 b c\nlast\n"):
        with pytest.raises(AssertionError, match="no line like"):
            compare(shown, printed)


def test_lines_that_a_page_does_not_show_are_noticed() -> None:
    compare(_command("x", "a"), "a\n")
    compare(_command("x", "a", "..."), "a\nb\n")
    compare(_command("x"), "anything\n")
    with pytest.raises(AssertionError, match="shows 1 line"):
        compare(_command("x", "a"), "a\nb\n")


def _command(text: str, *shown: str) -> Command:
    return Command(Block(ROOT / "README.md", 1, "sh", text), text, shown)
