"""Rules that make chosen calls fail or take their time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_KEYS = {"match", "status", "body", "headers", "delay", "times"}


@dataclass(slots=True)
class Fault:
    """What to do to the calls that match.

    `match` compares `api`, `operation`, what the path names (`JobId`, `TaskId`, `PoolId`), any query parameter, or a
    field or filter of a ModelArts job search (`workspace_id`, `phase`) with one value; all must agree. `status` is the
    HTTP status to answer with (None: only `delay`, then the true answer); `body` is sent as JSON, or as it is where it
    is text; `times` is how often it happens (None: for ever).
    """

    match: Mapping[str, str]
    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    times: int | None = None

    @classmethod
    def of(cls, given: Any) -> Fault:
        """Build one of decoded JSON. Raises ValueError that says what is wrong."""
        if not isinstance(given, dict) or set(given) - _KEYS or not isinstance(given.get("match"), dict):
            raise ValueError(f"a fault is an object with `match` and some of: {', '.join(sorted(_KEYS))}")
        whole = all(given.get(name) is None or type(given[name]) is int for name in ("status", "times"))
        if (
            not whole
            or not isinstance(given.get("delay", 0), int | float)
            or not isinstance(given.get("headers", {}), dict)
        ):
            raise ValueError("status and times are whole numbers or null, delay is seconds, headers is an object")
        return cls(**given)


class Faults:
    """The rules in force; the first that matches a call is applied."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """One more rule, behind the others."""
        self._rules.append(fault)

    def clear(self) -> None:
        """Everything works again."""
        self._rules.clear()

    def replace(self, faults: Iterable[Fault]) -> None:
        """These rules and no others."""
        self._rules[:] = list(faults)

    def __len__(self) -> int:
        return len(self._rules)

    def take(self, facts: Mapping[str, str]) -> Fault | None:
        """The fault for a call, counted as used."""
        for fault in self._rules:
            if fault.times != 0 and all(facts.get(name) == value for name, value in fault.match.items()):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None
