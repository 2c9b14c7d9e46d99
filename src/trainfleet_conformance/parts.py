"""Checks of parts: a poll replaces a part completely or not at all, and a missing value is not zero."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from trainfleet_conformance.answers import (
    REMOVED,
    change_rows,
    has_total,
    holds,
    is_identity,
    lists,
    only,
    refusing,
    spoiling,
    spoiling_leaves,
    spoiling_rows,
)
from trainfleet_conformance.case import ProviderCase, complain, on_stage
from trainfleet_conformance.contract import ENDED, miscounted, not_shown_as, untrue_numbers
from trainfleet_conformance.gateway import Arrival, Spoil, payload_of
from trainfleet_conformance.page import DATED, ERRORS, Key, Page, gone, missing, shown, words, wrong
from trainfleet_conformance.stage import KEPT_POLLS, Stage
from trainfleet_exporter.model import FINISHED, Status

_COMPLETE = "publish a list when it is whole, and only then: read_whole_list raises BadAnswer where it is not"
_ONE_OWNER = "leave out jobs that another workspace lists, right before they are published (fleet.Workspaces)"
_NUMERIC = re.compile(r"-?\d+(\.\d+)?( ?[KMGT]i?B?)?|\d{4}-\d\d-\d\dT.*")
_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*")
_TEN_YEARS = 315_360_000.0
_NOT_SET = (("0001-01-01T00:00:00Z", 0), ("1970-01-01T08:00:00.000+08:00", -62_135_596_800))
"""Values that clouds send for a time that is not set, as text or as a number."""
_ODD_ROWS: tuple[object, ...] = ("no object", 7, None, {}, {"id": {"a": 1}, "name": []})
_COUNTS = (
    *("trainfleet_jobs", ENDED, "trainfleet_job_pods", "trainfleet_job_replaced_pods", "trainfleet_pool_nodes"),
    "trainfleet_pool_workloads",
)
"""Families that count objects and show 0 if there is none."""
_STATES = ("_status", "_holds_resources", "_evicted")
"""Suffixes of families that show 0 for what does not apply."""


class PartChecks(ProviderCase):
    """Checks of the values that a provider publishes from an incomplete response."""

    def test_part_a_page_that_fails_fails_its_list(self) -> None:
        """The second page of a list is a 500."""
        several = Counter(arrival.operation for arrival in self.good.steady)
        paged = [name for name in self.faulted_operations if several[name] > 2]
        complain(
            ["no operation is called more than once in a poll"] * (not paged),
            "let the pretend cloud have several workspaces, and lists of several pages",
        )
        self._nothing_new(paged, _after_the_first, "a page behind the first one fails")

    def test_part_a_list_that_lacks_rows_is_not_taken(self) -> None:
        """A list states its number of rows, and half of the rows are missing."""
        payloads = self.good.payloads
        counted = [name for name in self.faulted_operations if any(map(has_total, payloads.get(name, [])))]
        self._nothing_new(counted, _half, "the list lacks half of its rows")

    def _nothing_new(self, operations: Collection[str], spoil: Callable[[], Spoil], what: str) -> None:
        """If the responses of one operation are invalid, a collector fails and the page does not change."""

        async def main(folder: Path) -> None:
            async with self.stage(folder) as stage:
                before = await stage.page(2)
                for operation in operations:
                    now = await stage.page(1, only(operation, spoil()))
                    complaints = gone(now, before) + shown(wrong(now, before), now, "not as before")
                    if not now.failing and operation not in self.copes:
                        complaints.append("no collector says that it fails")
                    complain([f"{operation}, {what}: {text}" for text in complaints], _COMPLETE)
                    await stage.polls(self.recovery_polls + 1)

        if operations:
            self.play(main)

    @on_stage()
    async def test_part_one_malformed_row_loses_itself_only(self, stage: Stage) -> None:
        """If one row of a list is not an object or has values of other types, the other rows do not change."""
        before = await stage.page(2)
        job_id = max(stage.cloud.live_jobs())
        for odd in _ODD_ROWS:
            now = await stage.page(1, _replaced(job_id, odd))
            complaints = [
                f"{what} with it: {words(key)}"
                for what, keys in (("lost", missing(now, before)), ("changed", wrong(now, before)))
                for key in keys
                if not _is_of(key, job_id) and key[0] not in _COUNTS
            ]
            complaints += [f"{text} for one row" for text in now.complaints]
            complain(
                [f"with {odd!r} for the row of {job_id}: {text}" for text in complaints],
                "translate each row by itself, and count those that cannot be read: part.dropped('malformed')",
            )
            await stage.polls(self.recovery_polls + 1)

    @on_stage()
    async def test_part_a_value_not_reported_is_absent(self, stage: Stage) -> None:
        """If rows have no numbers and times, no series becomes 0."""
        now = await stage.page(3, spoiling_rows(_without_number))
        usual = self.good.page.shown
        complain(
            [
                f"{words(key)} is 0, and no answer says so"
                for key, value in now.shown.items()
                if value == 0 and usual.get(key) != 0 and key[0] not in _COUNTS and not key[0].endswith(_STATES)
            ],
            "read numbers by json_fields.py, and leave None as it is: never `or 0`, never .get(key, 0)",
        )
        complain(untrue_numbers(now), "leave out what was not reported")

    @on_stage()
    async def test_part_times_that_are_not_set_are_absent(self, stage: Stage) -> None:
        """Year 1 and Unix times up to 0 are not shown as times, and nothing else disappears."""
        usual = self.good.page.shown
        times = {key for key in usual if key[0].endswith("_timestamp_seconds") and key[0] not in DATED}
        complain(["no time is shown"] * (not times), "let the jobs of the pretend cloud have times")
        for written, counted in _NOT_SET:
            now = await stage.page(2, _untimed(written, counted))
            complaints = [
                f"{words(key)} is {value:.0f}, of a time that is not set"
                for key, value in now.shown.items()
                if key in times or (key[0].endswith("_seconds") and key[0] not in DATED and value != usual.get(key))
            ]
            listed = {labels["job_id"] for labels, _ in now.of("trainfleet_job_info")}
            complaints += [f"job {job_id} is lost with it" for job_id in self.good.truth.keys() - listed]
            complain(
                [f"with {written!r} and {counted} for every time: {text}" for text in complaints],
                "read times by unix_time of providers/values.py, which answers None for such ones",
            )

    @on_stage()
    async def test_part_what_vanished_goes(self, stage: Stage) -> None:
        """A deleted job has no series, and the other jobs do not change."""
        before = await stage.page(2)
        job_id = min(stage.cloud.live_jobs())
        stage.cloud.forget(job_id)
        now = await stage.page(KEPT_POLLS + 2)
        complaints = [f"still there: {words(key)}" for key in now.shown if _is_of(key, job_id)]
        complaints += [
            f"gone with it: {words(key)}"
            for key in missing(now, before)
            if not _is_of(key, job_id) and key[0].startswith(("trainfleet_job_", "trainfleet_workspace_"))
        ]
        advice = "publish each part again, from what this poll found; look up the missing by their ids"
        complain([*complaints, *now.complaints], advice)

    @on_stage()
    async def test_part_how_a_job_ends_is_shown_and_counted(self, stage: Stage) -> None:
        """Each job that ended and left the lists of live jobs is counted once and shown with its final status."""
        word_of = {status: word for word, status in reversed([*self.statuses.items()]) if status in FINISHED}
        ends = dict(zip(self._running_first(), word_of, strict=False))
        before = await stage.page(2)
        for job_id, status in ends.items():
            stage.cloud.end(job_id, word_of[status])
        now = await stage.page(self.recovery_polls + 2)
        complaints = [*not_shown_as(now, ends), *_not_counted(now, before, Counter(ends.values()), word_of)]
        counted = {labels["platform_status"] for labels, _ in now.of("trainfleet_jobs")}
        live = [word for word, status in self.statuses.items() if status not in FINISHED and word in counted]
        complaints += [*miscounted(now, stage.cloud.live_jobs(), live), *now.complaints]
        complain(complaints, "ask by its id for what left the lists (JobTracker.missing), and settle it")

    @on_stage()
    async def test_part_live_jobs_do_not_need_the_ended_ones(self, stage: Stage) -> None:
        """A job of each workspace ends, and the cloud rejects calls about these jobs.

        The page shows the live jobs now, and the ended jobs later.
        """
        word, status = next((word, status) for word, status in self.statuses.items() if status in FINISHED)
        homes = self._homes()
        ended = {homes.get(job_id, ""): job_id for job_id in reversed(self._running_first())}.values()
        before = await stage.page(2)
        for job_id in ended:
            stage.cloud.end(job_id, word)
        live = dict(stage.cloud.live_jobs())
        now = await stage.page(KEPT_POLLS + 2, _refused(ended, live))
        if not stage.gateway.spoilt:
            pytest.skip("no answer is about jobs that ended, and not about live ones")
        complaints = not_shown_as(now, {job_id: self.statuses[state] for job_id, state in live.items()})
        complaints += miscounted(now, live, {*live.values(), *(self.good.truth[job_id] for job_id in ended)})
        complaints += ["no error is counted"] * (now.total(ERRORS) <= before.total(ERRORS))
        after = await stage.page(max(self.recovery_polls, self.refusal_polls) + 1)
        complaints += [f"{text} afterwards" for text in not_shown_as(after, dict.fromkeys(ended, status))]
        complaints += [*_not_counted(after, before, Counter({status: len(ended)}), [status]), *after.complaints]
        complain(
            complaints,
            "catch CloudError around each look-up: note it by part.failed, and settle its job as `unresolved`",
        )

    @on_stage()
    async def test_part_a_job_of_two_lists_is_shown_once(self, stage: Stage) -> None:
        """If two lists have the same job, such as a moved one, each series is on the page only once."""
        homes = {job_id: home for job_id, home in self._homes().items() if job_id in self.good.truth}
        job_id = min(homes)
        others = sorted(other for other, home in homes.items() if home != homes[job_id])
        if not others:
            pytest.skip("all jobs are in one workspace")
        await stage.polls(1)
        spoil = _elsewhere(job_id, others[0])
        for _ in range(3):
            try:
                page = await stage.page(1, spoil)
            except ValueError as error:  # the page has a duplicate series
                complain([str(error)], _ONE_OWNER)
        found = {
            "rows of trainfleet_job_info": len(list(page.of("trainfleet_job_info", job_id=job_id))),
            "states": len(page.states_of(job_id)),
        }
        complain([f"job {job_id} has {count} {what}" for what, count in found.items() if count != 1], _ONE_OWNER)

    def _running_first(self) -> list[str]:
        """Return the live jobs, those that run first."""
        truth = self.good.truth
        return sorted(truth, key=lambda job_id: (self.statuses[truth[job_id]] is not Status.RUNNING, job_id))

    def _homes(self) -> dict[str, str]:
        """Return the workspace of each job."""
        return {labels["job_id"]: labels["workspace_id"] for labels, _ in self.good.page.of("trainfleet_job_info")}


def _not_counted(now: Page, before: Page, ended: Counter[Status], statuses: Iterable[Status]) -> list[str]:
    """Return the statuses whose count of finished jobs did not grow by the number of jobs that ended so."""
    counted = {each: now.total(ENDED, status=str(each)) - before.total(ENDED, status=str(each)) for each in statuses}
    return [
        f"{more:.0f} more jobs are counted as {status}, where {ended[status]} ended so"
        for status, more in counted.items()
        if more != ended[status]
    ]


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
        payload = payload_of(answer)
        if not any(holds(payload, one) for one in ended) or any(holds(payload, one) for one in live):
            return None
        return refuse(arrival, answer)

    return spoil


def _half() -> Spoil:
    """Leave out every second row from all responses, and keep the stated length of the list."""
    kept: dict[str, bool] = {}

    def is_kept(row: Any) -> bool:
        return kept.setdefault(repr(row), len(kept) % 2 == 0)

    return spoiling(lambda payload: change_rows(payload, lambda rows: list(filter(is_kept, rows))))


def _replaced(job_id: str, row: object) -> Spoil:
    """Put another row in the place of a job's row in every list."""

    def change(payload: Any) -> Any:
        if not any(holds(rows, job_id) for rows in lists(payload)):
            return None
        return change_rows(payload, lambda rows: [row if holds(each, job_id) else each for each in rows])

    return spoiling(change)


def _without_number(name: str, value: Any) -> Any:
    if is_identity(name) or isinstance(value, bool) or value is None:
        return value
    is_number = isinstance(value, int | float) or _NUMERIC.fullmatch(str(value)) is not None
    return REMOVED if is_number else value


def _untimed(written: str, counted: int) -> Spoil:
    """Replace every time that is close to the present."""

    def change(name: str, value: Any) -> Any:
        if isinstance(value, str) and _TIME_TEXT.fullmatch(value):
            return written
        if is_identity(name) or isinstance(value, bool) or not str(value).replace(".", "", 1).isdigit():
            return value
        is_time = any(abs(float(value) / scale - time.time()) < _TEN_YEARS for scale in (1, 1000))
        return type(value)(counted) if is_time else value

    return spoiling_leaves(change)


def _elsewhere(job_id: str, other_id: str) -> Spoil:
    """Replace another job's row by this job's row in all lists; totals stay correct."""
    rows_of: dict[str, Any] = {}
    """This job's row in the lists of each operation."""

    def spoil(arrival: Arrival, answer: Response) -> Response | None:
        payload = payload_of(answer)
        mine = [row for rows in lists(payload) for row in rows if holds(row, job_id)]
        rows_of.update((arrival.operation, row) for row in mine)
        if holds(payload, job_id) or arrival.operation not in rows_of:
            return None
        return _replaced(other_id, rows_of[arrival.operation])(arrival, answer)

    return spoil
