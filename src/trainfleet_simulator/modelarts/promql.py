"""A parser of the subset of PromQL that the simulated AOM supports. It rejects other queries.

It parses a selector (`name{label="value", other=~"expression"}`), a selector within `last_over_time(…[10m])`, and
either of the two within `avg|sum|max by (label, …) (…)`.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = r"[A-Za-z_][A-Za-z0-9_]*"
_MATCHER = rf'\s*({_LABEL})\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*(?:,|$)'
_UNNAMED = re.sub(r"\((?!\?)", "(?:", _MATCHER).replace("$", r"(?=\})")
_SELECTOR = rf"\s*(?P<metric>[A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{{(?P<matchers>(?:{_UNNAMED})*\s*)\}}\s*)?"
_INSTANT = (
    rf"(?P<over>\s*last_over_time\s*\()?{_SELECTOR}"
    r"(?(over)\[ *(?P<window>[0-9]{1,6})(?P<unit>[smhd]) *\]\s*\)\s*)"
)
_QUERY = re.compile(
    rf"(?P<group>\s*(?P<aggregation>avg|sum|max)\s*by\s*\((?P<by>(?:\s*{_LABEL}\s*(?:,|(?=\))))*\s*)\)\s*\()?"
    rf"{_INSTANT}(?(group)\)\s*)"
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\'": "'", "\\n": "\n", "\\r": "\r", "\\t": "\t"}
_KEYWORDS = {"avg", "sum", "max", "by", "last_over_time"}
_LONGEST_WINDOW = 86400  # seconds
_EXPRESSION = re.compile(r"(?:(?:[\w/:@ =|-]|\\[dwsDWS.*+?(){}|^$\[\]\\/-]|\.)[*+?]?)*", re.ASCII)
"""The part of regular expressions that all dialects share and that always ends quickly: without groups."""


class Refused(ValueError):
    """The query is not supported."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on a label. A missing label is empty."""

    label: str
    value: str
    expression: re.Pattern[str] | None = None
    negated: bool = False

    def fits(self, value: str) -> bool:
        """Return whether the label's value is accepted."""
        found = self.value == value if self.expression is None else self.expression.fullmatch(value) is not None
        return found is not self.negated


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `window` is in seconds, and None without `last_over_time`."""

    metric: str
    matchers: tuple[Matcher, ...] = ()
    window: int | None = None
    aggregation: str = ""
    by: tuple[str, ...] = ()


def read(text: str) -> Query:
    """Parse a whole query. Raises only Refused."""
    found = _QUERY.fullmatch(text)
    if found is None or found["metric"] in _KEYWORDS:
        raise Refused("a selector is wanted, perhaps within last_over_time and an aggregation by labels")
    window = None if found["window"] is None else int(found["window"]) * _UNITS[found["unit"]]
    if window is not None and not 0 < window <= _LONGEST_WINDOW:
        raise Refused("a duration of at most a day is wanted")
    matchers = tuple(_matcher(*parts) for parts in re.findall(_MATCHER, found["matchers"] or ""))
    by = tuple(dict.fromkeys(re.findall(_LABEL, found["by"] or "")))
    return Query(found["metric"], matchers, window, found["aggregation"] or "", by)


def _matcher(label: str, comparison: str, text: str) -> Matcher:
    escapes = set(re.findall(r"\\.", text))
    if label == "__name__" or not escapes <= _ESCAPES.keys():
        raise Refused("a label other than __name__ and a text without unknown escapes are wanted")
    value = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], text)
    expression = None
    if comparison.endswith("~"):
        if not _EXPRESSION.fullmatch(value):
            raise Refused("a simple regular expression is wanted")
        try:
            expression = re.compile(value, re.ASCII | re.DOTALL)
        except re.error:
            raise Refused("a regular expression is wanted") from None
    return Matcher(label, value, expression, comparison.startswith("!"))
