"""Checks of each operation under each fault: no wrong values, a report of the fault, and full recovery."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.contract import strangers, untrue_numbers
from trainfleet_conformance.fault_kinds import ODD, WHOLE, FaultKind
from trainfleet_conformance.gateway import Spoil
from trainfleet_conformance.page import Page, missing, words, wrong
from trainfleet_conformance.stage import INTERVAL, Stage

ERRORS = "trainfleet_exporter_collector_errors_total"
_LAST_SUCCESS = "trainfleet_exporter_collector_last_success_timestamp_seconds"
_REQUESTS = "trainfleet_exporter_api_requests_total"
_FIGURES = ("_ratio", "_bytes", "_seconds", "_cores", "_watts", "_per_second", "_accelerators")
"""Suffixes of families of measured amounts. States, infos and counts may change while words are odd."""
_MOST_ATTEMPTS = 3
_PARTS_ASKED_ANEW = 20
"""Allowed additional calls in two polls: those that hanging calls interrupted, and that are sent again."""
_FOLLOWS = frozenset({"not_ready", "throttled"})
"""Reasons for which a collector may fail although it does not call the operation."""


def of(operation: str, kind: FaultKind) -> Spoil:
    """Injects the fault into one operation."""
    return lambda arrival, answer: kind.make(arrival, answer) if arrival.operation == operation else None


class FaultChecks(ProviderCase):
    """Checks of faults, one operation at a time, in a cloud that does not change."""

    @pytest.mark.parametrize("kind", WHOLE, ids=str)
    def test_fault_in_place_of_an_answer(self, kind: FaultKind) -> None:
        """The last good values stay for their time. The exporter reports the fault, other parts continue, and all
        recovers."""

        async def check(stage: Stage) -> None:
            await stage.polls(2)
            before = await stage.scrape()
            start = before
            for operation in self._faulted():
                start = await self._whole(stage, before, start, operation, kind)
            await self._end(stage, kind)

        self.on_stage(check)

    @pytest.mark.parametrize("kind", ODD, ids=str)
    def test_fault_of_values(self, kind: FaultKind) -> None:
        """The page shows no invalid values, and nothing breaks."""

        async def check(stage: Stage) -> None:
            await stage.polls(2)
            before = await stage.scrape()
            for operation in self._faulted():
                stage.gateway.spoil = of(operation, kind)
                await stage.polls(2)
                during = await stage.scrape()
                odd = () if kind.renames else _odd(during, before)
                complaints = [*odd, *strangers(during), *untrue_numbers(during)]
                complain(
                    [f"{operation}, {kind}: {text}" for text in complaints],
                    f"{kind.meaning}: read fields by json_fields.py, which answers None for what is unreadable",
                )
                await self._recover(stage, before, operation, kind)
            await self._end(stage, kind)

        self.on_stage(check)

    def test_fault_a_hanging_call_does_not_hold_up_the_end(self) -> None:
        """A poll ends when the exporter cancels it at a stop or reload."""
        (hang,) = (kind for kind in WHOLE if kind.name == "hang")
        for operation in self._faulted():

            async def main(folder: Path, operation: str = operation) -> None:
                async with self.stage(folder) as stage:
                    await stage.polls(1)
                    stage.gateway.spoil = of(operation, hang)
                    await stage.during_a_poll()
                    took = await stage.stop()
                complain(
                    [f"it took {took:.1f} s to stop while {operation} hung"] * (took > 1),
                    "let asyncio.CancelledError pass: catch CloudError, never BaseException; await nothing in finally",
                )

            self.play(main)

    def _faulted(self) -> list[str]:
        return self.good.chosen(self.faulted)

    async def _whole(self, stage: Stage, before: Page, start: Page, operation: str, kind: FaultKind) -> Page:
        """Check one operation under one fault, from the page `start` before it to the page after it."""
        asked = len(stage.gateway.arrivals)
        stage.gateway.spoil = of(operation, kind)
        await stage.polls(1)
        early = await stage.scrape()
        await stage.polls(1)
        late = await stage.scrape()
        complaints = [f"shown, and not true: {words(key)} {late.shown[key]}" for key in wrong(late, before)]
        may_be_good = kind.name in ("empty", "no object") and operation in self.may_be_empty
        if not may_be_good:
            rolls = self.good.callers(operation) <= self.good.per_object
            if not (kind.name == "not found" and rolls):  # a deleted object disappears at once
                complaints += [f"gone at once, and should be kept: {words(key)}" for key in missing(early, before)]
            if operation not in self.copes:
                complaints += self._unreported(start, late, operation, kind)
                if not missing(late, before):
                    complaints.append("what it reported is shown for ever")
        if not kind.pauses:
            complaints += self._beside(start, late, operation, stage)
        calls = sum(arrival.operation == operation for arrival in stage.gateway.arrivals[asked:])
        usual = sum(arrival.operation == operation for arrival in self.good.steady)
        if calls > _MOST_ATTEMPTS * usual + _PARTS_ASKED_ANEW:
            complaints.append(f"called {calls} times in two polls, where {usual} are usual: the transport tries again")
        complain(
            [f"{operation}, {kind}: {text}" for text in complaints],
            f"{kind.meaning}: let the error leave its part. Never catch to publish less, nor to try again",
        )
        return await self._recover(stage, before, operation, kind)

    def _unreported(self, start: Page, late: Page, operation: str, kind: FaultKind) -> Iterable[str]:
        """Return the missing reports of a failed call."""
        if late.total(ERRORS) <= start.total(ERRORS):
            yield "no error is counted"
        callers = self.good.callers(operation)
        failing = set(late.failing)
        if not failing & callers:
            yield f"none of its collectors ({', '.join(sorted(callers))}) says that it fails"
        good = late.total(_REQUESTS, operation=operation, outcome="ok")
        if good > start.total(_REQUESTS, operation=operation, outcome="ok") and kind.name != "no object":
            yield "its calls are counted as ok: Dialect.judge, or the transport, takes the answer for a good one"

    def _beside(self, start: Page, late: Page, operation: str, stage: Stage) -> Iterable[str]:
        """Return collectors that fail without a reason."""
        callers = self.good.callers(operation)
        for labels, value in late.of(ERRORS):
            before = sum(count for _, count in start.of(ERRORS, **labels))
            if value > before and labels["collector"] not in callers and labels["reason"] not in _FOLLOWS:
                yield f"{labels['collector']} fails, too, which does not call it ({labels['reason']})"
        failing = set(late.failing)
        for labels, moment in late.of(_LAST_SUCCESS):
            if labels["collector"] not in failing | callers and moment < stage.now() - INTERVAL - 1:
                yield f"{labels['collector']} has stopped polling"

    async def _recover(self, stage: Stage, before: Page, operation: str, kind: FaultKind) -> Page:
        stage.gateway.spoil = lambda arrival, answer: None
        # Values that depend on the states of jobs return one poll after the states.
        await stage.polls(max(self.recovery_polls, self.refusal_polls if kind.refusal else 1) + (kind in ODD))
        after = await stage.scrape()
        complaints = [f"not as before: {words(key)} {after.shown[key]}" for key in wrong(after, before)]
        complaints += [f"has not come back: {words(key)}" for key in missing(after, before)]
        complaints += [f"{name} is failing" for name in after.failing]
        complain(
            [f"after {operation}, {kind}: {text}" for text in complaints],
            "keep nothing of a failed poll; say so in `recovery_polls` or `refusal_polls` where waiting is meant",
        )
        return after

    async def _end(self, stage: Stage, kind: FaultKind) -> None:
        """Return forbidden effects during the fault."""
        page = await stage.scrape()
        await stage.read_everything()
        complaints = [
            f"{labels['collector']} raised an exception that is none of errors.py"
            for labels, value in page.of(ERRORS, reason="internal")
            if value
        ]
        complaints += [line[:600] for line in stage.logs.written.splitlines() if "exporter's own" in line]
        complain([f"{kind}: {text}" for text in complaints], "read answers by json_fields.py; raise BadAnswer")
        found = stage.leaks(self.secrets)
        complain([f"{kind}: {text}" for text in found], SILENCE)
        if not stage.gateway.spoilt:
            complain(["no answer could be spoilt"], "see that the pretend cloud answers JSON")


SILENCE = (
    "name what a request sends to prove who asks in SignedRequest.secrets, hold secrets as config.Secret, and never "
    "put them into messages"
)


def _odd(now: Page, before: Page) -> Iterable[str]:
    """Return amounts that changed or are new."""
    for key in wrong(now, before):
        if key[0].endswith(_FIGURES):
            yield f"shown, and not true: {words(key)} {now.shown[key]}"
