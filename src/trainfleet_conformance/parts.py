"""Checks of parts: a poll replaces a part completely or not at all, and a missing value is not zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest
from starlette.responses import Response

from trainfleet_conformance.answers import has_total, holds, lists, only, refusing, spoiling_lists
from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.contract import ENDED, miscounted, not_shown_as
from trainfleet_conformance.page import COUNTS, ERRORS, Key, gone, missing, shown, words, wrong
from trainfleet_conformance.stage import KEPT_POLLS, Arrival, Spoil
from trainfleet_exporter.model import FINISHED, Status

_COMPLETE = "publish a list when it is whole, and only then: read_whole_list raises BadAnswer where it is not"
_ONE_OWNER = "leave out jobs that another workspace lists, right before they are published (fleet.Workspaces)"
_ODD_ROWS: tuple[object, ...] = ("no object", 7, None, {}, {"id": {"a": 1}, "name": []})


class PartChecks(ProviderCase):
    """Checks of the values that a provider publishes from an incomplete response."""

    def test_part_an_incomplete_list_is_not_taken(self) -> None:
        """A page behind the first one is a 500, or half of the rows are missing: the last good list stays."""
        several = Counter(arrival.operation for arrival in self.good.steady)
        counted = {arrival.operation for arrival in self.good.arrivals if has_total(arrival.payload)}
        paged = [(name, "a page fails", _after_the_first()) for name in self.faulted_operations if several[name] > 2]
        short = [(name, "half of its rows are missing", _half()) for name in self.faulted_operations if name in counted]
        complain(
            ["no operation is called more than once in a poll"] * (not paged),
            "let the pretend cloud have several workspaces, and lists of several pages",
        )
        with self.stage() as stage:
            before = stage.page(2)
            for operation, what, spoil in (*paged, *short):
                now = stage.page(1, only(operation, spoil))
                complaints = gone(now, before) + shown(wrong(now, before), now, "not as before")
                if not now.failing and operation not in self.copes:
                    complaints.append("no collector says that it fails")
                complain(complaints, _COMPLETE, f"{operation}, {what}")
                stage.polls(self.recovery_polls + 1)

    def test_part_one_malformed_row_loses_itself_only(self) -> None:
        """If one row of a list is not an object or has values of other types, the other rows do not change."""
        job_id = max(self.good.truth)
        with self.stage() as stage:
            before = stage.page(2)
            for odd in _ODD_ROWS:
                now = stage.page(1, _replaced(job_id, odd))
                others = (key for key in missing(now, before) + wrong(now, before) if not _is_of(key, job_id))
                complaints = [f"lost or changed with it: {words(key)}" for key in others if not key[0].endswith(COUNTS)]
                complaints += [f"{text} for one row" for text in now.complaints]
                advice = "translate each row by itself, and count those that cannot be read: part.dropped('malformed')"
                complain(complaints, advice, f"with {odd!r} for the row of {job_id}")
                stage.polls(self.recovery_polls + 1)

    def test_part_what_vanished_goes(self) -> None:
        """A deleted job has no series, and the other jobs do not change."""
        job_id = min(self.good.truth)
        with self.stage() as stage:
            before = stage.page(2)
            stage.cloud.forget(job_id)
            now = stage.page(KEPT_POLLS + 2)
        complaints = [f"still there: {words(key)}" for key in now.shown if _is_of(key, job_id)]
        others = (key for key in missing(now, before) if not _is_of(key, job_id))
        kept = ("trainfleet_job_", "trainfleet_workspace_")
        complaints += [f"gone with it: {words(key)}" for key in others if key[0].startswith(kept)]
        advice = "publish each part again, from what this poll found; look up the missing by their ids"
        complain([*complaints, *now.complaints], advice)

    def test_part_how_a_job_ends_is_shown_and_counted(self) -> None:
        """A job ends in each final state and each workspace, and the cloud at first rejects calls about these jobs.

        The page shows the live jobs now, and the ended jobs later. It counts each ended job once.
        """
        word_of = {status: word for word, status in reversed([*self.statuses.items()]) if status in FINISHED}
        truth = self.good.truth
        running = sorted(truth, key=lambda job_id: (self.statuses[truth[job_id]] is not Status.RUNNING, job_id))
        homes = {labels["job_id"]: labels["workspace_id"] for labels, _ in self.good.page.of("trainfleet_job_info")}
        first = {homes[job_id]: job_id for job_id in reversed(running)}
        running.sort(key=lambda job_id: job_id not in first.values())
        count = max(len(first), len(word_of))
        ends = dict(zip(running[:count], [*word_of] * len(first), strict=False))
        with self.stage() as stage:
            before = stage.page(2)
            for job_id, status in ends.items():
                stage.cloud.end(job_id, word_of[status])
            live = dict(stage.cloud.live_jobs())
            now = stage.page(KEPT_POLLS + 2, _refused(ends, live))
            after = stage.page(max(self.recovery_polls, 1) + 1)
        shown_live = {job_id: self.statuses[state] for job_id, state in live.items()}
        complaints = [*not_shown_as(now, shown_live), *miscounted(now, live, {*live.values(), *truth.values()})]
        complaints += ["no error is counted"] * (stage.gateway.spoilt > 0 and now.total(ERRORS) <= before.total(ERRORS))
        complaints += [f"{text} afterwards" for text in not_shown_as(after, shown_live | ends)]
        for home, status in ((home, status) for home in first for status in word_of):
            labels = {"workspace_id": home, "status": str(status)}
            more = after.total(ENDED, **labels) - before.total(ENDED, **labels)
            if more != (ended := sum(homes[job_id] == home and end is status for job_id, end in ends.items())):
                complaints.append(f"{more:.0f} more jobs are counted as {status} in {home!r}, where {ended} ended so")
        complain(
            [*complaints, *after.complaints],
            "look up each id of `read.pending` in the second function of `poll_jobs`. Catch CloudError around each "
            "look-up: call `read.part.failed`, and append the id to `read.lost`",
        )

    def test_part_a_job_of_two_lists_is_shown_once(self) -> None:
        """If two lists have the same job, such as a moved one, each series is on the page only once."""
        infos = (labels for labels, _ in self.good.page.of("trainfleet_job_info"))
        homes = {job["job_id"]: job["workspace_id"] for job in infos if job["job_id"] in self.good.truth}
        job_id = min(homes)
        others = sorted(other for other, home in homes.items() if home != homes[job_id])
        if not others:
            pytest.skip("all jobs are in one workspace")
        with self.stage() as stage:
            stage.polls(1)
            spoil = _elsewhere(job_id, others[0])
            for _ in range(3):
                try:
                    page = stage.page(1, spoil)
                except ValueError as error:  # the page has a duplicate series
                    complain([str(error)], _ONE_OWNER)
        rows = len(list(page.of("trainfleet_job_info", job_id=job_id)))
        complaints = [f"job {job_id} has {rows} rows of trainfleet_job_info"] * (rows != 1)
        complain(complaints + not_shown_as(page, {job_id: self.statuses[self.good.truth[job_id]]}), _ONE_OWNER)


def _is_of(key: Key, job_id: str) -> bool:
    return any(name == "job_id" and value.partition("/")[0] == job_id for name, value in key[1])


def _after_the_first() -> Spoil:
    """Respond with 500 to all requests that differ from the first request."""
    asked: list[tuple[str, bytes]] = []
    refuse = refusing(500)

    def spoil(arrival: Arrival, answer: Response) -> Response | None:
        asked.append((arrival.url, arrival.body))
        return None if asked[-1] == asked[0] else refuse(arrival, answer)

    return spoil


def _refused(ended: Collection[str], live: Collection[str]) -> Spoil:
    """Respond with 400 to requests about one of these jobs and about no live job."""
    refuse = refusing(400)

    def spoil(arrival: Arrival, answer: Response) -> Response | None:
        about = {job_id for job_id in (*ended, *live) if holds(arrival.payload, job_id)}
        return refuse(arrival, answer) if about and about.isdisjoint(live) else None

    return spoil


def _half() -> Spoil:
    """Leave out every second row from all responses, and keep the stated length of the list."""
    kept: dict[str, bool] = {}
    return spoiling_lists(lambda rows: [row for row in rows if kept.setdefault(repr(row), len(kept) % 2 == 0)])


def _replaced(job_id: str, row: object) -> Spoil:
    """Put another row in the place of a job's row in every list."""
    return spoiling_lists(lambda rows: [row if holds(each, job_id) else each for each in rows])


def _elsewhere(job_id: str, other_id: str) -> Spoil:
    """Replace another job's row by this job's row in all lists; totals stay correct."""
    rows_of: dict[str, Any] = {}
    """This job's row in the lists of each operation."""

    def spoil(arrival: Arrival, answer: Response) -> Response | None:
        mine = [row for rows in lists(arrival.payload) for row in rows if holds(row, job_id)]
        rows_of.update((arrival.operation, row) for row in mine)
        if holds(arrival.payload, job_id) or arrival.operation not in rows_of:
            return None
        return _replaced(other_id, rows_of[arrival.operation])(arrival, answer)

    return spoil
