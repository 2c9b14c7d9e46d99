"""Small pieces that several sections of the page are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainfleet_exporter.web.status_page.markup import Child, Html, element, joined
from trainfleet_exporter.web.status_page.own import State
from trainfleet_exporter.web.status_page.words import amount, name

ROWS = 50
"""As many rows or cards of one kind are shown; there may be any number of providers."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Which providers are not to be taken at their word."""

    doubtful: Sequence[str]
    """What is shown of them may be old, or lack some."""
    lacking: frozenset[str]
    """What is shown of their jobs lacks some."""


_WORDS = {
    State.DOWN: ("✕", "down"),
    State.FAILING: ("✕", "failing"),
    State.STALE: ("!", "stale"),
    State.WAITING: ("…", "first poll"),
    State.OK: ("✓", "ok"),
}


def badge(state: State, words: str = "") -> Html:
    """A state as a sign, a word (or some) and a colour, any of which is enough."""
    sign, word = _WORDS[state]
    word = words or word
    return element("span", element("span", sign, aria_hidden="true"), f" {word}", class_=f"badge {state.name.lower()}")


def unknown() -> Html:
    """What stands in the place of a figure that nobody gave."""
    return element("span", "not known", class_="unknown")


def at_least(value: float, *, complete: bool) -> Child:
    """A sum; of some of its parts only, where not all of them are known."""
    if complete:
        return amount(value)
    return f"≥ {amount(value)}" if value else unknown()


def muted(*children: Child) -> Html:
    """What matters less."""
    return element("span", *children, class_="muted")


def heads(*columns: tuple[str, str]) -> Html:
    """The head of a table: texts and classes of its columns (`n`: numbers, `w`: only where there is room)."""
    cells = [element("th", text, scope="col", class_=classes or None) for text, classes in columns]
    return element("thead", element("tr", *cells))


def table(caption: str, head: Html, rows: Iterable[Html]) -> Html:
    """A table. The caption is for those who hear the page."""
    return element("table", element("caption", caption), head, element("tbody", *rows))


def note(*children: Child) -> Html:
    """A line below a table."""
    return element("p", *children, class_="note")


def doubted(*providers: str) -> Html:
    """That figures are not sure; of which providers, where that is not clear from its place."""
    whose = joined([" of ", joined(map(name, providers[:ROWS]), ", ")]) if providers else None
    return element("p", "! Not all collectors", whose, " are ok: this may be old, or lack some.", class_="doubt")


def hidden(*families: str) -> Html:
    """What stands in the place of figures that the operator does not have published."""
    return element("p", unknown(), ": metrics.deny hides ", ", ".join(families), class_="card")


def section(key: str, title: str, *children: Child, aside: Child = None) -> Html:
    """A titled part of the page."""
    heading = element("h2", title, joined([" ", muted(aside)]) if aside else None, id=key)
    return element("section", heading, *children, class_=key, aria_labelledby=key)
