"""Long lists in pages: later pages are cut from the list that was made for the first one."""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

_TOKEN = re.compile(r"([0-9]{1,12}):([0-9]{1,9})")
Item = TypeVar("Item")


class Pages(Generic[Item]):
    """Cuts lists, and keeps the last `kept` of them. A token can be used more than once."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._lists: OrderedDict[int, tuple[Hashable, Sequence[Item]]] = OrderedDict()
        self._made = 0

    def cut(
        self, token: str, size: int, find: Callable[[], Sequence[Item]], *, question: Hashable = ""
    ) -> tuple[Sequence[Item], str, int] | None:
        """Return the first page of the results of `find`, or the page of a token of the same question. None for
        another token.

        A page is its items, the token of the next page ("" after the last), and the total number of items.
        """
        number, start = _place(token) or (0, 0)
        asked, found = self._lists.get(number, (None, ())) if token else (question, find())
        if asked != question:
            return None
        end, more = start + size, ""
        if end < len(found):
            more = base64.b64encode(f"{number or self._keep(question, found)}:{end}".encode()).decode()
        return found[start:end], more, len(found)

    def _keep(self, question: Hashable, found: Sequence[Item]) -> int:
        self._made += 1
        self._lists[self._made] = question, found
        while len(self._lists) > self._kept:
            self._lists.popitem(last=False)
        return self._made


def offset_of(token: str) -> int:
    """Return the number of rows before a token's page; 0 for an unknown token."""
    place = _place(token)
    return 0 if place is None else place[1]


def _place(token: str) -> tuple[int, int] | None:
    """Return the number of a list, and the first row of a page; None for an unknown token."""
    try:
        found = _TOKEN.fullmatch(base64.b64decode(token, validate=True).decode())
    except ValueError:
        return None
    return None if found is None else (int(found[1]), int(found[2]))
