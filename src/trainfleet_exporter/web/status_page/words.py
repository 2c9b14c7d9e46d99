"""Numbers, times and texts as people read them: the filters of the template."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from markupsafe import Markup

NAME_CHARS = 60
"""Characters of a name that are shown."""

_HARMFUL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters
    "\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069"  # what turns the direction of a text, or breaks its line
    "\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff"  # halves of surrogate pairs, and code points that are not characters
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)


def harmless(value: object) -> object:
    """Replace characters that control the reader's screen by U+FFFD; leave markup, and values that are not text."""
    return _HARMFUL.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def ago(then: float | None, now: float) -> str:
    """Say how long ago a Unix time was; a time to come (a clock was set) is 0 s ago."""
    return "never" if then is None else f"{span(int(max(now - then, 0)))} ago"


def span(seconds: float) -> str:
    """Write a duration in its one or two largest units."""
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
    """Write a number with its thousands apart, and with at most one decimal."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def several(count: float, noun: str) -> str:
    """Write `1 job`, `2 jobs`."""
    return f"{amount(count)} {noun}" if count == 1 else f"{amount(count)} {noun}s"


def percent(ratio: float) -> str:
    """Write a ratio, with decimals only below 10 %. A value above 0 never looks like 0."""
    if 0 < ratio < 0.0005:
        return "<0.1 %"
    shown = f"{ratio * 100:.1f}" if ratio < 0.0995 else f"{ratio * 100:.0f}"
    return f"{shown.removesuffix('.0')} %"


def utc(when: float, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Write a Unix time in UTC."""
    return datetime.fromtimestamp(when, UTC).strftime(form)


def cut(text: str, limit: int = NAME_CHARS) -> str:
    """Keep at most `limit` characters, the last of them an ellipsis where some are left out; spaces and line breaks
    become one space each."""
    short = re.sub(r"\s+", " ", text[: limit * 2]).strip()  # no work on 10 kB of which nothing is shown
    return short if len(short) <= limit and len(text) <= limit * 2 else f"{short[: limit - 1]}…"
