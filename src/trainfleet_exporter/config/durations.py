"""Durations as Prometheus writes them, in the units of this config: `30s`, `5m`, `1h30m`, `30d`."""

from __future__ import annotations

import re

_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
# Each unit at most once, the largest first. Nine digits hold 3650d in seconds.
_DURATION = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _UNIT_SECONDS))
MAX_DURATION = 3650 * 86400
"""The longest duration in seconds, ten years: beyond it lies a typing error, and in the end an overflow."""


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `1h30m`; ValueError if it is not one, or longer than `MAX_DURATION`."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError("not a duration")
    seconds = sum(
        int(number) * size for number, size in zip(match.groups(), _UNIT_SECONDS.values(), strict=True) if number
    )
    if seconds > MAX_DURATION:
        raise ValueError("too long a duration")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """The shortest text of whole seconds from 0 to `MAX_DURATION` that `parse_duration` reads back; else ValueError."""
    if not 0 <= seconds <= MAX_DURATION or seconds != int(seconds):
        raise ValueError("not whole seconds within the longest duration")
    rest = int(seconds)
    text = ""
    for unit, size in _UNIT_SECONDS.items():
        number, rest = divmod(rest, size)
        text += f"{number}{unit}" if number else ""
    return text or "0s"
