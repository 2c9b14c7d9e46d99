"""Rules that make chosen calls fail or delay them: which calls, how, how often and when."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trainfleet_simulator.fault_kinds import KINDS


@dataclass(slots=True)
class Fault:
    """What to do to the calls that match.

    `match` compares `api`, `operation`, `connection` (`new`, or `kept` from an earlier call), what the path names
    (`JobId`, `TaskId`, `PoolId`), any query parameter, or a field or filter of a ModelArts job search (`workspace_id`,
    `phase`) with one value; all must agree. Then one of two:

    * `status` is the HTTP status to answer with; `body` is sent as JSON, or as it is where it is text (None: what the
      cloud says with that status);
    * `kind` is one of KINDS, which says what happens. A kind that makes no sense for an operation (rows twice where
      there are none) gives the true answer.

    With neither there is only the delay, and then the true answer. `headers` are added to what is answered; `delay` is
    the seconds before anything happens. `skip` is how many matching calls are let through first, `times` how often it
    happens after that (None: for ever). `after` and `lasts` are seconds by the cloud's clock, counted from when the
    fault was added: it begins so late, and is over so much later (None: never). Rules are tried in the order in which
    they were added, and the first one that applies is the only one.
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
        """Raises ValueError for a kind that there is not, or that contradicts the rest."""
        if self.kind and self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r}; there are: {', '.join(KINDS)}")
        if self.kind and (self.status is not None or self.body is not None):
            raise ValueError("kind says all of the answer: status and body go without it")

    @property
    def word(self) -> str:
        """What the log of answers calls it; empty for a mere delay."""
        return self.kind or ("" if self.status is None else "status")

    @classmethod
    def of(cls, given: Any) -> Fault:
        """Build one of decoded JSON. Raises ValueError that says what is wrong."""
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
    """The rules in force; the first that matches a call is applied. `clock` is the cloud's."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rules: list[tuple[Fault, float]] = []

    def add(self, fault: Fault) -> None:
        """One more rule, behind the others. Its time counts from now."""
        self._rules.append((fault, self._clock()))

    def clear(self) -> None:
        """Everything works again."""
        self._rules.clear()

    def replace(self, faults: Iterable[Fault]) -> None:
        """These rules and no others. Their time counts from now."""
        now = self._clock()
        self._rules[:] = [(fault, now) for fault in faults]

    def __len__(self) -> int:
        return len(self._rules)

    def take(self, facts: Mapping[str, str]) -> Fault | None:
        """The fault for a call, counted as used."""
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
