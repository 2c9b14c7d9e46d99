"""Checks of each operation under each fault: no wrong values, a report of the fault, and full recovery."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from trainfleet_conformance.answers import ODD, WHOLE, FaultKind, only
from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.contract import strangers, untrue_numbers
from trainfleet_conformance.page import COUNTS, ERRORS, LAST_SUCCESS, REQUESTS, Page, gone, shown, unlike, words, wrong
from trainfleet_conformance.stage import LOG, Stage

_FIGURES = ("_ratio", "_bytes", "_seconds", "_cores", "_watts", "_per_second", "_accelerators")
"""Suffixes of families of measured amounts. States, infos and counts may change while words are odd."""
_STATES = ("_status", "_holds_resources", "_evicted")
"""Suffixes of families that show 0 for what does not apply."""
_MOST_ATTEMPTS = 3
_SENT_AGAIN = 20
"""Allowed additional calls in two polls: those that hanging calls interrupted, and that are sent again."""
_FOLLOWS = frozenset({"not_ready", "throttled"})
"""Reasons for which a collector may fail although it does not call the operation."""
_READ = (
    "read fields by json_fields.py and providers/values.py, which answer None for what is unreadable and for times "
    "that are not set. Never `or 0`, never .get(key, 0)"
)
SILENCE = (
    "name what a request sends to prove who asks in SignedRequest.secrets, hold secrets as config.Secret, and never "
    "put them into messages"
)


class FaultChecks(ProviderCase):
    """Checks of faults, one operation at a time, in a cloud that does not change."""

    @pytest.mark.parametrize("kind", WHOLE, ids=str)
    def test_fault_in_place_of_an_answer(self, kind: FaultKind) -> None:
        """The last good values stay for their time. The exporter reports the fault, other parts continue, and all
        recovers."""
        with self.stage() as stage:
            before = start = stage.page(2)
            for operation in self.faulted_operations:
                arrived = len(stage.gateway.arrivals)
                spoil = only(operation, kind.make)
                early, late = stage.page(1, spoil), stage.page(1, spoil)
                complaints = shown(wrong(late, before), late, "shown, and not true")
                if not (kind.name in ("empty", "no object") and operation in self.may_be_empty):
                    complaints += self._lost(before, early, late, operation, kind)
                    complaints += self._unreported(start, late, operation, kind)
                if not kind.pauses:
                    complaints += self._others(start, early, late, operation)
                calls = sum(arrival.operation == operation for arrival in stage.gateway.arrivals[arrived:])
                usual = sum(arrival.operation == operation for arrival in self.good.steady)
                if calls > _MOST_ATTEMPTS * usual + _SENT_AGAIN:
                    complaints.append(f"called {calls} times in two polls, not {usual}: the transport retries")
                advice = f"{kind.meaning}: let the error leave its part. Never catch to publish less, nor to try again"
                complain(complaints, advice, f"{operation}, {kind}")
                start = self._recovered(stage, before, operation, kind)
            self._end(stage, kind)

    @pytest.mark.parametrize("kind", ODD, ids=str)
    def test_fault_of_values(self, kind: FaultKind) -> None:
        """The page shows no invalid values, and nothing breaks."""
        with self.stage() as stage:
            before = stage.page(2)
            for operation in self.faulted_operations:
                during = stage.page(2, only(operation, kind.make))
                complaints = [*strangers(during), *untrue_numbers(during)]
                if not kind.renames:
                    amounts = (key for key in wrong(during, before) if key[0].endswith(_FIGURES))
                    complaints += [*shown(amounts, during, "shown, and not true"), *_zeros(during, before)]
                if kind.keeps_jobs:
                    listed = {labels["job_id"] for labels, _ in during.of("trainfleet_job_info")}
                    complaints += [f"job {job_id} is lost with it" for job_id in self.good.truth.keys() - listed]
                complain(complaints, f"{kind.meaning}: {_READ}", f"{operation}, {kind}")
                # Values that depend on the states of jobs return one poll after the states.
                stage.polls(1)
                self._recovered(stage, before, operation, kind)
            self._end(stage, kind)

    def _lost(self, before: Page, early: Page, late: Page, operation: str, kind: FaultKind) -> Iterable[str]:
        """Return values that disappear early or never."""
        # A deleted object disappears at once.
        if kind.name != "not found" or not self.good.callers(operation).isdisjoint({*self.good.bulk, ""}):
            yield from gone(early, before, "gone at once, and should be kept")
        if operation not in self.copes and not gone(late, before):
            yield "what it reported never disappears"

    def _unreported(self, start: Page, late: Page, operation: str, kind: FaultKind) -> Iterable[str]:
        """Return the missing reports of a failed call."""
        if operation in self.copes:
            return
        if late.total(ERRORS) <= start.total(ERRORS):
            yield "no error is counted"
        callers = self.good.callers(operation)
        if callers.isdisjoint(late.failing):
            yield f"none of its collectors ({', '.join(sorted(callers))}) says that it fails"
        good = late.total(REQUESTS, operation=operation, outcome="ok")
        if good > start.total(REQUESTS, operation=operation, outcome="ok") and kind.name != "no object":
            yield "its calls are counted as ok: Dialect.judge, or the transport, takes the answer for a good one"

    def _others(self, start: Page, early: Page, late: Page, operation: str) -> Iterable[str]:
        """Return collectors that fail without a reason, or do not poll."""
        callers = self.good.callers(operation)
        for labels, value in late.of(ERRORS):
            before = start.total(ERRORS, **labels)
            if value > before and labels["collector"] not in callers and labels["reason"] not in _FOLLOWS:
                yield f"{labels['collector']} fails, too, which does not call it ({labels['reason']})"
        for labels, value in late.of(LAST_SUCCESS):
            if labels["collector"] not in callers.union(late.failing) and value <= early.total(LAST_SUCCESS, **labels):
                yield f"{labels['collector']} has stopped polling"

    def _recovered(self, stage: Stage, before: Page, operation: str, kind: FaultKind) -> Page:
        """Return a page of good polls, which must be as before."""
        after = stage.page(self.recovery_polls)
        advice = "keep nothing of a failed poll; say so in `recovery_polls` where waiting is meant"
        complain(unlike(after, before), advice, f"after {operation}, {kind}")
        return after

    def _end(self, stage: Stage, kind: FaultKind) -> None:
        """Complain of forbidden effects during the fault."""
        complaints = stage.read_everything().complaints
        complaints += [line[:600] for line in stage.logs[LOG].getvalue().splitlines() if "internal error" in line]
        complain(complaints, "read answers by json_fields.py; raise BadAnswer", str(kind))
        complain(stage.leaks(self.secrets), SILENCE, str(kind))
        complain(["no answer could be spoilt"] * (not stage.gateway.spoilt), "see that the pretend cloud answers JSON")


def _zeros(now: Page, before: Page) -> Iterable[str]:
    """Return series that became 0, except counts of what is left, and states that do not apply."""
    for key, value in now.shown.items():
        if value == 0 and before.shown.get(key) != 0 and not key[0].endswith(COUNTS + _STATES):
            yield f"{words(key)} is 0, and no answer says so"
