"""Responses with single invalid values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trainfleet_simulator.rows import ENDLESS_NUMBER, Change, Rows, change_each, rows_of

_WORD, _NUMBER = "Sublimating", 99
_STATES = frozenset(
    {
        *("status", "substatus", "phase", "secondary_phase", "state", "nodestatus", "workloadstatus", "orderstatus"),
        *("trainingjobstatus", "secondarystatus", "clusterstatus"),
    }
)
_FREE = frozenset(
    {
        *("DisplayName", "WorkspaceName", "Username", "UserName", "WorkloadName", "QuotaName", "quotaName"),
        *("ResourceName", "ResourceQuotaName", "ReasonCode", "ReasonMessage", "Reason", "Description"),
        *("job_name", "jobName", "job_desc", "user_name", "userName", "pool_name", "description", "message"),
        *("end_reason", "flavor_name", "os.modelarts/name"),
        *("FailureReason", "StatusMessage", "FailureMessage"),
    }
)
_FREE_BESIDE = {
    "name": frozenset({"id", "uid"}),
    "NodeName": frozenset({"PodId"}),
    "Message": frozenset({"Status"}),
    "Value": frozenset({"Key"}),
}
"""Names and free texts. Some fields are free texts only if an id is next to them."""
_TAGS = frozenset({"Tags", "annotations"})
_NOT_MEASURED = re.compile(
    r"(time|timestamps?|stamp|_at|ids?|uid|version|priority|index|name|period|code|mode|creator|window)$", re.IGNORECASE
)
_UNMEASURED_PARTS = frozenset({"Tags", "annotations", "labels", "Envs", "metric", "dimensions", "QuotaConfig"})
_ENVELOPE = frozenset({"TotalCount", "RequestId", "JobId", "Code", "Period", "token", "is_success"})
_AMOUNT = re.compile(r"-?\d+(\.\d+)?( ?[A-Za-z]{1,5})?(/\d+)?")
"""A number as text, perhaps with a unit, perhaps with a total."""

_WORST = (
    "\"double\" 'single' `back`",
    'back\\slash \\n \\" \\',
    "line\nbreak\r\nand\ttab",
    "control\x00\x01\x07\x08\x1b[31mred\x7f\x85\u2028\u2029",
    "\u202egnp.exe\u202c \u2066\u2069\u200b\ufeff",
    "🚂💥👩‍👩‍👧‍👦 ÅÅ e\u0301",
    "{} {0} %s %(x)s ${HOME} #{7*7} {{7*7}}",
    "</script><script>alert(1)</script><!-- -->&amp;",
    'x"} 1\n# TYPE trainfleet_injected gauge\ntrainfleet_injected 1\n',
    "   ",
)
INVALID: Mapping[str, tuple[Callable[[float], Any], Callable[[str], str]]] = {
    "negative": (
        lambda number: -(abs(number) or 1),
        lambda text: f"-{text.lstrip('-')}" if text.strip("-0.") else "-1",
    ),
    "nan": (lambda number: float("nan"), lambda text: "NaN"),
    "infinite": (lambda number: ENDLESS_NUMBER, lambda text: "1e400"),
}
"""By kind, what becomes of a number, and of an amount as text."""
HOSTILE = (" ".join(_WORST), *_WORST, "long" * 2560)
"""The texts that replace names, one after the other."""


def warp_values(kind: str, body: Any) -> bool:
    """Change a decoded response as the kind says; return False if it has no such values."""
    part, passing = _part(body, rows_of(body))
    if kind in INVALID:
        return bool(change_each(part, _numbers(kind), passing=passing | _UNMEASURED_PARTS))
    return bool(change_each(part, _unknown if kind == "unknown_words" else _Names(kind), passing=passing))


def _part(body: Any, found: Rows | None) -> tuple[Any, frozenset[str]]:
    """Return the rows, or the response without its envelope if it describes a single thing."""
    if found is None or "JobId" in body:
        return body, _ENVELOPE
    return found.all, frozenset()


def _unknown(_: dict[str, Any], name: str, value: Any) -> Any:
    if isinstance(value, dict):  # counts by status: the first status becomes unknown
        if name != "status" or not value or not all(str(count).isdigit() for count in value.values()):
            return value
        first, *others = value
        return {_WORD: value[first], **{status: value[status] for status in others}}
    if name.lower() not in _STATES or not value or not isinstance(value, str | int) or isinstance(value, bool):
        return value
    return _WORD if isinstance(value, str) else _NUMBER


class _Names:
    """Makes each name and each tag hostile in another way, or breaks it into halves."""

    def __init__(self, kind: str) -> None:
        self._halves = kind == "lone_surrogates"
        self._names, self._tags = itertools.cycle(HOSTILE), itertools.cycle(HOSTILE)

    def __call__(self, owner: dict[str, Any], name: str, value: Any) -> Any:
        if name in _TAGS and owner.get(name) is value and isinstance(value, dict):
            return {key: self._worse(tag, self._tags) if isinstance(tag, str) else tag for key, tag in value.items()}
        free = name in _FREE or not _FREE_BESIDE.get(name, frozenset()).isdisjoint(owner)
        return self._worse(value, self._names) if free and isinstance(value, str) and value else value

    def _worse(self, value: str, hostile: Iterator[str]) -> str:
        return f"\ud83d{value}\udc00\ud800" if self._halves else next(hostile)


def _numbers(kind: str) -> Change:
    """Make numbers, and amounts as text, invalid measurements."""
    of_number, of_text = INVALID[kind]

    def change(owner: dict[str, Any], name: str, value: Any) -> Any:
        if _NOT_MEASURED.search(name) or isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        if isinstance(value, str):
            return of_text(value) if _AMOUNT.fullmatch(value) else value
        return value if _is_stamp(owner, name, value) else of_number(value)

    return change


def _is_stamp(owner: dict[str, Any], name: str, value: Any) -> bool:
    """Return whether a number is the time of a sample: PromQL responses have pairs of a time and a text."""
    pair = owner.get(name)
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str) and pair[0] is value
