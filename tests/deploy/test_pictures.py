"""The pictures of the dashboards in the docs show every panel and are small."""

from __future__ import annotations

from xml.sax.saxutils import escape

import pytest

from tests.deploy.boards import Board, boards
from tests.deploy.pictures import path_of
from tests.docs.pages import ROOT

_MOST_BYTES = 150 * 1024


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_picture_shows_every_panel(board: Board) -> None:
    """If this fails, run `python -m tests.deploy.pictures`."""
    picture = path_of(board).read_text(encoding="utf-8")
    titles = [panel["title"] for panel in board.json["panels"] if "$" not in panel["title"]]
    assert [title for title in titles if escape(title)[:15] not in picture] == []
    assert len(picture.encode()) < _MOST_BYTES


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_picture_is_on_the_page(board: Board) -> None:
    page = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    assert f"(images/{path_of(board).name})" in page
