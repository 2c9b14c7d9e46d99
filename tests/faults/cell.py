"""One cell: an operation under a fault, from before it to the recovery, and everything that is wrong about it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tests.faults.columns import KEPT, LESS, OTHER, REPORTED, SAME, SHUT, VOID, Column
from tests.faults.judges import nothing_else
from tests.faults.operations import beside
from tests.faults.row import Row
from tests.faults.site import INTERVAL, Footprint, Site
from trainfleet_conformance.page import Key, Page, missing, words, wrong

AFFECTED = "affected"
_MOST_COMPLAINTS = 4
_LINES_A_COLLECTOR = 3
"""Log lines at most: what it fails by, what follows from that, and one more kind of it."""
_REQUESTS = "trainfleet_exporter_api_requests_total"
_SUCCESS = "trainfleet_exporter_collector_success"
_LAST_SUCCESS = "trainfleet_exporter_collector_last_success_timestamp_seconds"
_ERRORS = "trainfleet_exporter_collector_errors_total"
_DROPPED = "trainfleet_exporter_dropped_readings_total"


@dataclass(slots=True)
class Cell:
    """What came of it. `complaints` is empty where everything held."""

    end: str
    outcomes: dict[str, int]
    """How the operation's calls were counted while the fault lasted."""
    lines: int
    """Warnings and errors in the log meanwhile."""
    complaints: list[str] = field(default_factory=list)


class Trial:
    """Makes a fault, looks while it lasts, ends it, looks again. `before` is a page from before any fault.

    Without a `footprint` the daemon meets the fault at its start and has never shown anything.
    """

    def __init__(self, site: Site, row: Row, column: Column, before: Page, footprint: Footprint | None) -> None:
        self._site = site
        self._row = row
        self.column = column
        self._before = before
        self._footprint = footprint
        self._complaints: list[str] = []
        self._judge = row.judges.get(column.name, column.judge)
        self._may_fail, self._may_lack = beside(row, column)
        self._unlike = row.unlike.get(column.name)

    async def run(self) -> Cell:
        """The whole cell."""
        site, row = self._site, self._row
        start = Page("")
        if self._footprint is not None:
            start = await site.scrape()
            await site.mark()
            site.make(row, self.column)
            await site.after_polls(1)
            early = await site.scrape()
        await site.after_polls(2)
        late = await site.scrape()
        await site.read_everything()
        end = self._end(start, late, applied=self.column.name == SHUT or await site.applied(row, self.column))
        outcomes = _outcomes(start, late, row.operation)
        lines = _warnings(site.log.getvalue())
        self._judge_end(end)
        if end == LESS and "no_data" not in outcomes and not _is_reported(start, late):
            self._complain("less", ["and no metric reports it"])
        if self.column.times is not None and _counted(_ERRORS, start, late):
            self._complain("errors", ["a poll failed"])
        self._judge_neighbours(late)
        self._judge_lines(lines, late, end)
        self._judge_calls(outcomes, end)
        self._judge_page(late, end)
        if self._footprint is not None and end in (KEPT, VOID, SAME, REPORTED):
            lost = [f"missing: {words(key)}" for key in missing(early, self._before)]
            self._complain("while it should be kept", self._judge(early, self._before) + lost)
        site.unmake(row, self.column)
        await self._judge_recovery(end)
        return Cell(end, outcomes, len(lines), self._complaints)

    def _end(self, start: Page, late: Page, *, applied: bool) -> str:
        """What came of the fault, by what can be seen."""
        lost, untrue = missing(late, self._before), wrong(late, self._before)
        if set(_failing(late, AFFECTED)) & set(self._row.fails):
            return KEPT
        if untrue:
            return OTHER
        if lost:
            return LESS
        if not applied:
            return VOID
        return REPORTED if _is_reported(start, late) else SAME

    def _judge_end(self, end: str) -> None:
        wanted = self.column.ends if self._unlike is None else (self._unlike.end,)
        wanted = (*wanted, REPORTED, LESS, OTHER) if self._row.copes else wanted
        if end not in wanted:
            self._complain("end", [f"{end} in place of {' or '.join(wanted)}"])

    def _judge_calls(self, outcomes: dict[str, int], end: str) -> None:
        allowed = set(self.column.outcomes) | ({"ok", "no_data"} if end == VOID or self._row.query else set())
        found = set(outcomes)
        if not found and self.column.name != SHUT:
            self._complain("calls", ["it was not called"])
        elif (
            found
            and not found & (set(self.column.outcomes) - {"ok", "no_data"})
            and end == KEPT
            and self.column.is_whole
        ):
            self._complain("calls", [f"none was {self.column.outcomes[0]}"])
        self._complain("calls", [f"counted as {outcome}" for outcome in sorted(found - allowed)])

    def _judge_neighbours(self, page: Page) -> None:
        """Everybody who does not build on the operation polls on."""
        neighbours = [
            (labels["provider"], labels["collector"], moment)
            for labels, moment in page.of(_LAST_SUCCESS)
            if labels["provider"] != AFFECTED or labels["collector"] not in self._may_fail
        ]
        # A host that throttles is left alone for a while by everybody who asks it: that is what it wants.
        polls = 2 if "throttled" in self.column.outcomes else 1
        old = self._site.now() - polls * INTERVAL - 1
        self._complain("neighbours", [f"{who} {what} not fresh" for who, what, moment in neighbours if moment < old])
        ups = {labels["provider"]: value for labels, value in page.of("trainfleet_provider_up")}
        self._complain("neighbours", [f"{name} is not up" for name, up in ups.items() if name != AFFECTED and not up])

    def _judge_lines(self, lines: Sequence[str], page: Page, end: str) -> None:
        polls = Counter(labels["provider"] for labels, _ in page.of(_SUCCESS))
        if len(lines) > _LINES_A_COLLECTOR * max(1, len(self._may_fail)):
            self._complain("lines", [f"{len(lines)} lines for {polls[AFFECTED]} collectors", *lines])
        names = (self._row.operation, *self._row.told_by)
        if end == KEPT and self.column.name != SHUT and not any(name in line for line in lines for name in names):
            self._complain("log", ["no line names the operation", *lines])
        self._complain("log", [line for line in lines if "internal error" in line or "Traceback" in line])

    def _judge_page(self, page: Page, end: str) -> None:
        before = self._before
        self._complain("while it lasts", self._judge(page, before))
        gone = set(missing(page, before))
        self._complain("lost as well", map(words, gone - _matching(before.shown, self._may_lack, AFFECTED)))
        if end == KEPT and self.column.is_whole:
            self._complain(
                "kept for ever", map(words, _matching(before.shown, self._row.surely_loses, AFFECTED) - gone)
            )

    async def _judge_recovery(self, end: str) -> None:
        site = self._site
        await site.after_polls(self._row.recovers_after(self.column))
        after = await site.scrape()
        self._complain("after it", _untrue(after, self._before))
        self._complain("after it", [f"{name} is failing" for name in _failing(after, AFFECTED)])
        if end == KEPT and "poll recovered" not in site.log.getvalue():
            self._complain("recovery line", ["the log does not report the recovery"])
        if self._footprint is not None:
            left = self._footprint.exceeded_by(site.footprint())
            if left:  # unreferenced objects do not count
                gc.collect()
                left = self._footprint.exceeded_by(site.footprint())
            self._complain("left behind", left)

    def _complain(self, when: str, found: Iterable[str]) -> None:
        if self._unlike is not None and when in self._unlike.excused:
            return
        complaints = list(found)
        self._complaints += [f"{when}: {text}" for text in complaints[:_MOST_COMPLAINTS]]
        if len(complaints) > _MOST_COMPLAINTS:
            self._complaints.append(f"{when}: and {len(complaints) - _MOST_COMPLAINTS} more")


def _is_reported(start: Page, late: Page) -> bool:
    """Return whether a metric counts more errors or dropped readings."""
    return any(_counted(name, start, late) for name in (_ERRORS, _DROPPED))


def _counted(counter: str, start: Page, late: Page) -> bool:
    return late.total(counter, provider=AFFECTED) > start.total(counter, provider=AFFECTED)


def _failing(page: Page, provider: str) -> list[str]:
    return [labels["collector"] for labels, value in page.of(_SUCCESS, provider=provider) if not value]


def _untrue(now: Page, before: Page) -> list[str]:
    return nothing_else(now, before) + [f"missing: {words(key)}" for key in missing(now, before)]


def _outcomes(start: Page, late: Page, operation: str) -> dict[str, int]:
    """How many calls of the affected provider ended how, between two pages."""
    asked = {"provider": AFFECTED, "operation": operation}
    found = Counter({labels["outcome"]: int(value) for labels, value in late.of(_REQUESTS, **asked)})
    found.subtract({labels["outcome"]: int(value) for labels, value in start.of(_REQUESTS, **asked)})
    return {outcome: count for outcome, count in found.items() if count}


def _warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if " level=warn " in line or " level=error " in line]


def _matching(keys: Iterable[Key], patterns: Iterable[str], provider: str) -> set[Key]:
    """Return the series of a provider whose family (without `trainfleet_`) matches one of the globs."""
    globs = tuple(patterns)
    return {
        key
        for key in keys
        if ("provider", provider) in key[1]
        and any(fnmatchcase(key[0].removeprefix("trainfleet_"), glob) for glob in globs)
    }
