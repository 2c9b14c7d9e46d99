"""Rules that delay chosen calls or make them fail."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trainfleet_simulator.fault_kinds import KINDS


@dataclass(slots=True)
class Fault:
    """A fault, and the calls that it applies to.

    `match` has names and values that must all agree:

    - `api` and `operation`
    - `connection`: `new`, or `kept` from an earlier call
    - names in the path: `JobId`, `TaskId`, `PoolId`
    - any query parameter
    - a field or filter of a ModelArts job search, such as `workspace_id` or `phase`

    The fault is one of the following:

    - `status` is the HTTP status of the response. `body` is sent as JSON, or unchanged if it is a text. None: the
      cloud's own error with that status.
    - `kind` is one of KINDS. If an operation cannot have this kind (duplicate rows without a list), the response is
      the true one.
    - With neither, the true response follows after the delay.

    `headers` are added to the response. `delay` is the number of seconds before it. `skip` is the number of matching
    calls that pass first. `times` is the number of calls that then fail (None: all). `after` and `lasts` are seconds
    by the cloud's clock: the fault begins `after` seconds after it was added, and ends `lasts` seconds later (None:
    never). Rules are tried in the order in which they were added. Only the first one that applies is used.
    """

    match: Mapping[str, str]
    status: int | None = None
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    times: int | None = None
    kind: str = ""
    skip: int = 0
    after: float = 0.0
    lasts: float | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if the kind is unknown, or contradicts other fields."""
        if self.kind and self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.kind and (self.status is not None or self.body is not None):
            raise ValueError("kind says all of the answer: status and body go without it")

    @property
    def word(self) -> str:
        """Return the name in the log of responses; empty if there is only a delay."""
        return self.kind or ("" if self.status is None else "status")

    @classmethod
    def of(cls, given: Any) -> Fault:
        """Build a fault from decoded JSON. Raises ValueError with the reason."""
        known = sorted(one.name for one in fields(cls))
        if not isinstance(given, dict) or set(given) - set(known) or not isinstance(given.get("match"), dict):
            raise ValueError(f"a fault is an object with `match` and some of: {', '.join(known)}")
        for name, (fits, wanted) in _WANTED.items():
            if name in given and not fits(given[name]):
                raise ValueError(f"{name} is {wanted}")
        return cls(**given)


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _whole(value: Any, lowest: int = 0) -> bool:
    return type(value) is int and value >= lowest


def _seconds(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


_WANTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "match": (_texts, "an object of texts"),
    "status": (lambda value: value is None or (_whole(value, 200) and value < 600), "200 to 599, or null"),
    "headers": (_texts, "an object of texts"),
    "delay": (_seconds, "seconds, 0 or more"),
    "times": (lambda value: value is None or _whole(value), "a whole number, or null"),
    "kind": (lambda value: isinstance(value, str), "text: the name of a kind"),
    "skip": (_whole, "a whole number"),
    "after": (_seconds, "seconds, 0 or more"),
    "lasts": (lambda value: value is None or _seconds(value), "seconds, 0 or more, or null"),
}


class Faults:
    """The rules in use. The first one that matches a call applies. `clock` is the cloud's."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rules: list[tuple[Fault, float]] = []

    def add(self, fault: Fault) -> None:
        """Add a rule behind the others. Its time begins now."""
        self._rules.append((fault, self._clock()))

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def replace(self, faults: Iterable[Fault]) -> None:
        """Replace all rules. Their time begins now."""
        now = self._clock()
        self._rules[:] = [(fault, now) for fault in faults]

    def __len__(self) -> int:
        return len(self._rules)

    def take(self, facts: Mapping[str, str]) -> Fault | None:
        """Return the fault for a call, and count it as used."""
        now = self._clock()
        for fault, added in self._rules:
            if fault.times == 0 or not _in_time(fault, now - added):
                continue
            if not all(facts.get(name) == value for name, value in fault.match.items()):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
            return fault
        return None


def _in_time(fault: Fault, age: float) -> bool:
    return age >= fault.after and (fault.lasts is None or age < fault.after + fault.lasts)
