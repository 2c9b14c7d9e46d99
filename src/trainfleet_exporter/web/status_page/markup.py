"""HTML that is safe by construction: whatever is not made by `element` is text, and is escaped.

Forty lines in the place of a template language: what the page has to guard against (control characters, text that is
written from right to left, ten thousand characters) none of them guards against, the type checker reads this too, and
the exporter has one dependency less to be updated.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import cache

_HARMFUL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters
    "\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069"  # what turns the direction of a text, or breaks its line
    "\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff"  # halves of pairs, and what is no character
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_VOID = {"meta", "link"}


class Html(str):
    """Markup. Only this module makes any."""

    __slots__ = ()


Child = Html | str | None
"""None is nothing."""


def text(value: str) -> Html:
    """A text as markup that shows it; harmful characters become U+FFFD."""
    return value if isinstance(value, Html) else Html(html.escape(_HARMFUL.sub("\ufffd", value)))


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Html:
    """One element. An attribute's underscores are hyphens, and a last one is dropped (`class_`); True has no value,
    False and None are left out."""
    pairs = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{_name(tag)}{pairs}>")
    return Html(f"<{_name(tag)}{pairs}>{joined(children)}</{tag}>")


def joined(children: Iterable[Child], between: str = "") -> Html:
    """One after the other."""
    return Html(text(between).join([text(child) for child in children if child is not None]))


def raw_style(sheet: str) -> Html:
    """A style sheet of our own, which is no text of anybody else's."""
    assert "</" not in sheet
    return Html(f"<style>{sheet}</style>")


@cache
def _name(given: str) -> str:
    """A tag or an attribute, which only this package's code names."""
    found = given.removesuffix("_").replace("_", "-")
    assert re.fullmatch("[a-z][a-z0-9-]*", found), found
    return found
