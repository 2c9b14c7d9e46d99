"""Checks of each operation under each fault: no wrong values, a report of the fault, and full recovery."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from trainfleet_conformance.answers import HANG, ODD, WHOLE, FaultKind, only
from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.contract import strangers, untrue_numbers
from trainfleet_conformance.page import ERRORS, REQUESTS, Page, gone, shown, unlike, wrong
from trainfleet_conformance.stage import INTERVAL, Stage

_LAST_SUCCESS = "trainfleet_exporter_collector_last_success_timestamp_seconds"
_FIGURES = ("_ratio", "_bytes", "_seconds", "_cores", "_watts", "_per_second", "_accelerators")
"""Suffixes of families of measured amounts. States, infos and counts may change while words are odd."""
_MOST_ATTEMPTS = 3
_SENT_AGAIN = 20
"""Allowed additional calls in two polls: those that hanging calls interrupted, and that are sent again."""
_FOLLOWS = frozenset({"not_ready", "throttled"})
"""Reasons for which a collector may fail although it does not call the operation."""
SILENCE = (
    "name what a request sends to prove who asks in SignedRequest.secrets, hold secrets as config.Secret, and never "
    "put them into messages"
)


class FaultChecks(ProviderCase):
    """Checks of faults, one operation at a time, in a cloud that does not change."""

    @pytest.mark.parametrize("kind", WHOLE, ids=str)
    @on_stage()
    async def test_fault_in_place_of_an_answer(self, stage: Stage, kind: FaultKind) -> None:
        """The last good values stay for their time. The exporter reports the fault, other parts continue, and all
        recovers."""
        before = start = await stage.page(2)
        for operation in self.faulted_operations:
            arrived = len(stage.gateway.arrivals)
            spoil = only(operation, kind.make)
            early, late = await stage.page(1, spoil), await stage.page(1, spoil)
            complaints = shown(wrong(late, before), late, "shown, and not true")
            if not (kind.name in ("empty", "no object") and operation in self.may_be_empty):
                complaints += self._lost(before, early, late, operation, kind)
                complaints += self._unreported(start, late, operation, kind)
            if not kind.pauses:
                complaints += self._others(start, late, operation)
            calls = sum(arrival.operation == operation for arrival in stage.gateway.arrivals[arrived:])
            usual = sum(arrival.operation == operation for arrival in self.good.steady)
            if calls > _MOST_ATTEMPTS * usual + _SENT_AGAIN:
                complaints.append(f"called {calls} times in two polls, where {usual} are usual: the transport retries")
            complain(
                [f"{operation}, {kind}: {text}" for text in complaints],
                f"{kind.meaning}: let the error leave its part. Never catch to publish less, nor to try again",
            )
            start = await self._recover(stage, before, operation, kind)
        await self._end(stage, kind)

    @pytest.mark.parametrize("kind", ODD, ids=str)
    @on_stage()
    async def test_fault_of_values(self, stage: Stage, kind: FaultKind) -> None:
        """The page shows no invalid values, and nothing breaks."""
        before = await stage.page(2)
        for operation in self.faulted_operations:
            during = await stage.page(2, only(operation, kind.make))
            amounts = (key for key in wrong(during, before) if key[0].endswith(_FIGURES))
            odd = () if kind.renames else shown(amounts, during, "shown, and not true")
            complain(
                [f"{operation}, {kind}: {text}" for text in (*odd, *strangers(during), *untrue_numbers(during))],
                f"{kind.meaning}: read fields by json_fields.py, which answers None for what is unreadable",
            )
            # Values that depend on the states of jobs return one poll after the states.
            await self._recover(stage, before, operation, kind, more_polls=1)
        await self._end(stage, kind)

    def test_fault_a_hanging_call_does_not_hold_up_the_end(self) -> None:
        """A poll ends when the exporter cancels it at a stop or reload."""

        async def main(folder: Path) -> None:
            for operation in self.faulted_operations:
                async with self.stage(folder) as stage:
                    await stage.polls(1)
                    await stage.during_a_poll(only(operation, HANG.make))
                    began = time.time()
                    await stage.daemon.stop()
                    took = time.time() - began
                complain(
                    [f"it took {took:.1f} s to stop while {operation} hung"] * (took > 1),
                    "let asyncio.CancelledError pass: catch CloudError, never BaseException; await nothing in finally",
                )

        self.play(main)

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

    def _others(self, start: Page, late: Page, operation: str) -> Iterable[str]:
        """Return collectors that fail without a reason."""
        callers = self.good.callers(operation)
        for labels, value in late.of(ERRORS):
            before = start.total(ERRORS, **labels)
            if value > before and labels["collector"] not in callers and labels["reason"] not in _FOLLOWS:
                yield f"{labels['collector']} fails, too, which does not call it ({labels['reason']})"
        for labels, moment in late.of(_LAST_SUCCESS):
            if labels["collector"] not in callers.union(late.failing) and moment < time.time() - INTERVAL - 1:
                yield f"{labels['collector']} has stopped polling"

    async def _recover(
        self, stage: Stage, before: Page, operation: str, kind: FaultKind, *, more_polls: int = 0
    ) -> Page:
        polls = max(self.recovery_polls, self.refusal_polls) if kind.refusal else self.recovery_polls
        after = await stage.page(polls + more_polls)
        complain(
            [f"after {operation}, {kind}: {text}" for text in unlike(after, before)],
            "keep nothing of a failed poll; say so in `recovery_polls` or `refusal_polls` where waiting is meant",
        )
        return after

    async def _end(self, stage: Stage, kind: FaultKind) -> None:
        """Complain of forbidden effects during the fault."""
        complaints = (await stage.read_everything()).raised
        complaints += [line[:600] for line in stage.logs.written.splitlines() if "exporter's own" in line]
        complain([f"{kind}: {text}" for text in complaints], "read answers by json_fields.py; raise BadAnswer")
        complain([f"{kind}: {text}" for text in stage.leaks(self.secrets)], SILENCE)
        complain(["no answer could be spoilt"] * (not stage.gateway.spoilt), "see that the pretend cloud answers JSON")
