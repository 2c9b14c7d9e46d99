"""A parser of the subset of PromQL that the simulated AOM supports. It rejects other queries.

It parses a selector (`name{label="value", other=~"expression"}`), a selector within `last_over_time(…[10m])`, and
either of the two within `avg|sum|max by (label, …) (…)`. The syntax of names, strings and durations is that of
Prometheus.

https://prometheus.io/docs/prometheus/latest/querying/basics/
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\r\n]*")
_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARISON = re.compile(r"=~|!~|!=|=")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_DURATION = re.compile(r"\[ *(\d{1,6})([smhd]) *\]", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PLAIN = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "r": "\r", "t": "\t"}
_OVER_TIME = "last_over_time"
_AGGREGATIONS = ("avg", "sum", "max")
MOST_WINDOW = 86400  # seconds

# The part of regular expressions that all dialects share and that always ends quickly: no group is repeated, and at
# most three repetitions are unlimited.
_ATOM = re.compile(r"[\w:/@ =-]|\\[dwsDWS\][.*+?(){}|^$\\/-]|\.|\[\^?(?:\w(?:-\w)?)+-?\]|[*+?|()]", re.ASCII)
_REPEATS = {"*", "+", "?"}
_MOST_ENDLESS = 3


class Refused(ValueError):
    """The query is not supported. The text has the position and the expected token, and no part of the query."""


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
    """A parsed query. `by` is None without an aggregation. `window` is in seconds."""

    metric: str
    matchers: tuple[Matcher, ...] = ()
    window: int | None = None
    aggregation: str = ""
    by: tuple[str, ...] = ()


def read(text: str) -> Query:
    """Parse a whole query. Raises only Refused."""
    reader = _Reader(text)
    query = reader.query()
    reader.end()
    return query


class _Reader:
    """Reads from left to right. It reads nothing twice, and nesting is limited to the forms above."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def query(self) -> Query:
        aggregation = self._word(_AGGREGATIONS)
        if not aggregation:
            return self._instant()
        if not self._word(("by",)):
            raise self._refused("by")
        self._must("(")
        by = self._labels()
        self._must("(")
        inner = self._instant()
        self._must(")")
        return Query(inner.metric, inner.matchers, inner.window, aggregation, by)

    def _instant(self) -> Query:
        if not self._word((_OVER_TIME,)):
            return self._selector()
        self._must("(")
        inner = self._selector()
        window = self._take(_DURATION, "a duration such as [10m]")
        seconds = int(window[1]) * _UNITS[window[2]]
        if not 0 < seconds <= MOST_WINDOW:
            raise self._refused("a duration of at most a day")
        self._must(")")
        return Query(inner.metric, inner.matchers, seconds)

    def _selector(self) -> Query:
        metric = self._take(_METRIC, "the name of a metric")[0]
        if metric in {*_AGGREGATIONS, _OVER_TIME, "by"}:
            raise self._refused("the name of a metric")
        matchers: list[Matcher] = []
        if self._may("{"):
            while not self._may("}"):
                matchers.append(self._matcher())
                if not self._may(","):
                    self._must("}")
                    break
        return Query(metric, tuple(matchers))

    def end(self) -> None:
        """Require the end of the query."""
        self._skip()
        if self._at != len(self._text):
            raise self._refused("the end of the query")

    def _labels(self) -> tuple[str, ...]:
        """Read labels up to the closing bracket. A comma may precede it."""
        names: dict[str, None] = {}
        while not self._may(")"):
            names[self._take(_LABEL, "the name of a label")[0]] = None
            if not self._may(","):
                self._must(")")
                break
        return tuple(names)

    def _matcher(self) -> Matcher:
        label = self._take(_LABEL, "the name of a label")[0]
        if label == "__name__":
            raise self._refused("the name of a label other than __name__")
        comparison = self._take(_COMPARISON, "one of =, !=, =~, !~")[0]
        value = self._string()
        expression = self._expression(value) if comparison.endswith("~") else None
        return Matcher(label, value, expression, comparison.startswith("!"))

    def _string(self) -> str:
        inner = self._take(_STRING, "a text in double quotes")[1]
        escapes = _ESCAPE.findall(inner)
        if not set(escapes) <= set(_PLAIN):
            raise self._refused("a text without unknown escapes")
        return _ESCAPE.sub(lambda found: _PLAIN[found[1]], inner)

    def _expression(self, text: str) -> re.Pattern[str]:
        atoms: list[str] = []
        at = 0
        while at < len(text):
            found = _ATOM.match(text, at)
            if found is None:
                raise self._refused("a simple regular expression")
            atoms.append(found[0])
            at = found.end()
        before = ["(", *atoms]
        repeated = [one for one, after in zip(before, atoms, strict=False) if after in _REPEATS]
        endless = atoms.count("*") + atoms.count("+")
        if endless > _MOST_ENDLESS or {"(", ")", "|", *_REPEATS} & set(repeated):
            raise self._refused("a simple regular expression")
        try:
            return re.compile(text, re.ASCII | re.DOTALL)
        except (re.error, RecursionError, OverflowError):
            raise self._refused("a regular expression") from None

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _may(self, mark: str) -> bool:
        self._skip()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _must(self, mark: str) -> None:
        if not self._may(mark):
            raise self._refused(mark)

    def _word(self, words: tuple[str, ...]) -> str:
        """Read one of the words if an opening bracket (or `by`) follows; otherwise read nothing."""
        self._skip()
        found = _METRIC.match(self._text, self._at)
        if found is None or found[0] not in words:
            return ""
        self._at = found.end()
        return found[0]

    def _take(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        self._skip()
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._refused(wanted)
        self._at = found.end()
        return found

    def _refused(self, wanted: str) -> Refused:
        return Refused(f"at character {self._at + 1}: {wanted} is wanted")
