"""Numbers, times and texts as people read them. What a cloud calls things is made harmless here."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from trainfleet_exporter.web.status_page.markup import Html, element

NAME_CHARS = 60
"""Characters of a name that are shown."""
TEXT_CHARS = 300
"""Characters of an error's text that are shown."""


def ago(then: float | None, now: float) -> str:
    """How long ago a Unix time was; a time to come (a clock was set) is 0 s ago."""
    return "never" if then is None else f"{span(int(max(now - then, 0)))} ago"


def span(seconds: float) -> str:
    """A duration in its one or two largest units."""
    if seconds < 1:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s" if seconds < 0.001 else f"{seconds * 1000:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days < 100 else f"{days} d"


def amount(value: float) -> str:
    """A number with its thousands apart; at most one decimal, where it is no whole one."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def several(count: float, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{amount(count)} {noun}" if count == 1 else f"{amount(count)} {noun}s"


def percent(ratio: float) -> str:
    """A ratio, with decimals only below 10 %; what is not 0 does not look like it."""
    if 0 < ratio < 0.0005:
        return "<0.1 %"
    shown = f"{ratio * 100:.1f}" if ratio < 0.0995 else f"{ratio * 100:.0f}"
    return f"{shown.removesuffix('.0')} %"


def moment(when: float) -> Html:
    """A Unix time in UTC."""
    found = datetime.fromtimestamp(when, UTC)
    return element("time", f"{found:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{found:%Y-%m-%dT%H:%M:%SZ}")


def name(text: str, limit: int = NAME_CHARS) -> Html:
    """A text of somebody else's: one line, cut, and apart from its neighbours whichever way it is written."""
    return element("bdi", cut(text, limit))


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, the last of them an ellipsis where some are left out; spaces and line breaks
    become one space each."""
    short = re.sub(r"\s+", " ", text[: limit * 2]).strip()  # no work on 10 kB of which nothing is shown
    return short if len(short) <= limit and len(text) <= limit * 2 else f"{short[: limit - 1]}…"
