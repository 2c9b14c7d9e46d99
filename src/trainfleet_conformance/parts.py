"""Checks of parts: a poll replaces a part completely or not at all, and a missing value is not zero."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from trainfleet_conformance.answers import (
    REMOVED,
    change_leaves,
    change_rows,
    dumps,
    holds,
    is_identity,
    lists,
    tells_total,
)
from trainfleet_conformance.case import ProviderCase, complain
from trainfleet_conformance.contract import untrue_numbers
from trainfleet_conformance.faults import ERRORS
from trainfleet_conformance.gateway import Answer, Arrival, Spoil
from trainfleet_conformance.page import DATED, Key, missing, words, wrong
from trainfleet_conformance.stage import KEPT_POLLS, Stage
from trainfleet_exporter.model import FINISHED, Status

_WHOLE = "publish a list when it is whole, and only then: read_whole_list raises BadAnswer where it is not"
_NUMERIC = re.compile(r"-?\d+(\.\d+)?( ?[KMGT]i?B?)?|\d{4}-\d\d-\d\dT.*")
_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*")
_TEN_YEARS = 315_360_000.0
_NOT_SET = (("0001-01-01T00:00:00Z", 0), ("1970-01-01T08:00:00.000+08:00", -62_135_596_800))
"""Values that clouds send for a time that is not set, as text or as a number."""
_MOMENT = "_timestamp_seconds"
_COUNTS = (
    "trainfleet_jobs",
    "trainfleet_jobs_finished_total",
    "trainfleet_job_pods",
    "trainfleet_job_replaced_pods",
    "trainfleet_pool_nodes",
    "trainfleet_pool_workloads",
)
"""Families that count objects and show 0 if there is none."""
_ENDED = "trainfleet_jobs_finished_total"


class PartChecks(ProviderCase):
    """Checks of the values that a provider publishes from an incomplete response."""

    def test_part_a_page_that_fails_fails_its_list(self) -> None:
        """The second page of a list is a 500."""
        several = Counter(arrival.operation for arrival in self.good.steady)
        paged = [name for name in self.good.chosen(self.faulted) if several[name] > 2]

        complain(
            ["no operation is called more than once in a poll"] * (not paged),
            "let the pretend cloud have several workspaces, and lists of several pages",
        )
        self._nothing_new(paged, _after_the_first, "a page behind the first one fails")

    def test_part_a_list_that_lacks_rows_is_not_taken(self) -> None:
        """A list states its number of rows, and half of the rows are missing."""
        shown = [
            operation
            for operation in self.good.chosen(self.faulted)
            if any(map(tells_total, self.good.payloads.get(operation, [])))
        ]

        self._nothing_new(shown, _Half, "the list lacks half of its rows")

    def test_part_one_malformed_row_loses_itself_only(self) -> None:
        """If one row of a list is not an object or has values of other types, the other rows do not change."""

        async def check(stage: Stage) -> None:
            await stage.polls(2)
            before = await stage.scrape()
            job_id = max(stage.cloud.live_jobs())
            for odd in ("no object", 7, None, {}, {"id": {"a": 1}, "name": []}):
                stage.gateway.spoil = _with_row(job_id, odd)
                await stage.polls(1)
                now = await stage.scrape()
                lost = [key for key in missing(now, before) if not _is_of(key, job_id)]
                untrue = [key for key in wrong(now, before) if not _is_of(key, job_id) and key[0] not in _COUNTS]
                complaints = [f"lost with it: {words(key)}" for key in lost if key[0] not in _COUNTS]
                complaints += [f"changed with it: {words(key)}" for key in untrue]
                complaints += [f"{name} fails for one row" for name in now.failing]
                if now.total(ERRORS, reason="internal"):
                    complaints.append("it raises what it should not")
                complain(
                    [f"with {odd!r} for the row of {job_id}: {text}" for text in complaints],
                    "translate each row by itself, and count those that cannot be read: part.dropped('malformed')",
                )
                stage.gateway.spoil = lambda arrival, answer: None
                await stage.polls(self.recovery_polls + 1)

        self.on_stage(check)

    def test_part_a_value_not_reported_is_absent(self) -> None:
        """If rows have no numbers and times, no series becomes 0."""

        async def check(stage: Stage) -> None:
            stage.gateway.spoil = _without_numbers
            await stage.polls(3)
            now = await stage.scrape()
            usual = self.good.page.shown
            complain(
                [
                    f"{words(key)} is 0, and no answer says so"
                    for key, value in now.shown.items()
                    if value == 0 and usual.get(key) != 0 and key[0] not in _COUNTS and not _is_state(key)
                ],
                "read numbers by json_fields.py, and leave None as it is: never `or 0`, never .get(key, 0)",
            )
            complain(untrue_numbers(now), "leave out what was not reported")

        self.on_stage(check)

    def test_part_times_that_are_not_set_are_absent(self) -> None:
        """Year 1 and Unix times up to 0 are not shown as times, and nothing else disappears."""
        usual = self.good.page.shown
        times = {key for key in usual if key[0].endswith(_MOMENT) and key[0] not in DATED}
        complain(["no time is shown"] * (not times), "let the jobs of the pretend cloud have times")

        async def check(stage: Stage) -> None:
            for written, counted in _NOT_SET:
                stage.gateway.spoil = _untimed(written, counted)
                await stage.polls(2)
                now = await stage.scrape()
                shown = [
                    key
                    for key, value in now.shown.items()
                    if key[0].endswith("_seconds") and key[0] not in DATED and value != usual.get(key)
                ]
                shown += [key for key in times if key in now.shown and key not in shown]
                complaints = [f"{words(key)} is {now.shown[key]:.0f}, of a time that is not set" for key in shown]
                listed = {labels["job_id"] for labels, _ in now.of("trainfleet_job_info")}
                complaints += [f"job {job_id} is lost with it" for job_id in self.good.truth.keys() - listed]
                complain(
                    [f"with {written!r} and {counted} for every time: {text}" for text in complaints],
                    "read times by unix_time of providers/values.py, which answers None for such ones",
                )

        self.on_stage(check)

    def test_part_what_vanished_goes(self) -> None:
        """A deleted job has no series, and the other jobs do not change."""

        async def check(stage: Stage) -> None:
            await stage.polls(2)
            before = await stage.scrape()
            job_id = min(stage.cloud.live_jobs())
            stage.cloud.forget(job_id)
            await stage.polls(KEPT_POLLS + 2)
            now = await stage.scrape()
            complaints = [f"still there: {words(key)}" for key in now.shown if _is_of(key, job_id)]
            complaints += [
                f"gone with it: {words(key)}"
                for key in missing(now, before)
                if not _is_of(key, job_id) and key[0].startswith(("trainfleet_job_", "trainfleet_workspace_"))
            ]
            complaints += [f"{name} fails" for name in now.failing]
            complain(complaints, "publish each part again, from what this poll found; look up the missing by their ids")

        self.on_stage(check)

    def test_part_how_a_job_ends_is_shown_and_counted(self) -> None:
        """Each job that ended and left the lists of live jobs is counted once and shown with its final status."""
        told_as = {status: word for word, status in reversed(list(self.statuses.items())) if status in FINISHED}
        live = sorted(self.good.truth.items(), key=lambda item: (self.statuses[item[1]] is not Status.RUNNING, item))
        ends = {job_id: status for (job_id, _), status in zip(live, told_as, strict=False)}

        async def check(stage: Stage) -> None:
            await stage.polls(2)
            before = await stage.scrape()
            for job_id, status in ends.items():
                stage.cloud.end(job_id, told_as[status])
            await stage.polls(self.recovery_polls + 2)
            now = await stage.scrape()
            complaints = []
            for job_id, status in ends.items():
                found = now.states_of(job_id)
                if found != [str(status)]:
                    complaints.append(f"job {job_id} ended as {told_as[status]!r} and is shown as {found or 'nothing'}")
            for status in told_as:
                counted = now.total(_ENDED, status=str(status)) - before.total(_ENDED, status=str(status))
                ended = list(ends.values()).count(status)
                if counted != ended:
                    complaints.append(f"{counted:.0f} more jobs are counted as {status}, where {ended} ended so")
            for word, status in self.statuses.items():
                lives = status not in FINISHED
                known = [value for _, value in now.of("trainfleet_jobs", platform_status=word)]
                true = list(stage.cloud.live_jobs().values()).count(word)
                if lives and known and sum(known) != true:
                    complaints.append(f"{sum(known):.0f} jobs are counted as {word!r}, where the cloud has {true}")
            complaints += [f"{name} fails" for name in now.failing]
            complain(complaints, "ask by its id for what left the lists (WorkspaceJobs.missing), and settle it")

        self.on_stage(check)

    def test_part_live_jobs_do_not_need_the_ended_ones(self) -> None:
        """A job of each workspace ends, and the cloud rejects calls about these jobs.

        The page shows the live jobs now, and the ended jobs later.
        """
        word, status = next((word, status) for word, status in self.statuses.items() if status in FINISHED)
        by_state = sorted(
            self.good.truth.items(), key=lambda item: (self.statuses[item[1]] is not Status.RUNNING, item)
        )
        homes = {labels["job_id"]: labels["workspace_id"] for labels, _ in self.good.page.of("trainfleet_job_info")}
        ended = {homes.get(one, ""): one for one, _ in reversed(by_state)}.values()

        async def check(stage: Stage) -> None:
            await stage.polls(2)
            before = await stage.scrape()
            for job_id in ended:
                stage.cloud.end(job_id, word)
            live = dict(stage.cloud.live_jobs())
            stage.gateway.spoil = _refused(ended, live)
            await stage.polls(KEPT_POLLS + 2)
            now = await stage.scrape()
            if not stage.gateway.spoilt:
                pytest.skip("no answer is about jobs that ended, and not about live ones")
            complaints = []
            for one, state in live.items():
                shown = now.states_of(one)
                if shown != [str(self.statuses[state])]:
                    complaints.append(f"live job {one} is {state!r}, and is shown as {shown or 'nothing'}")
            for state in {*live.values(), *(self.good.truth[job_id] for job_id in ended)}:
                counted = now.total("trainfleet_jobs", platform_status=state)
                true = list(live.values()).count(state)
                if counted != true:
                    complaints.append(f"{counted:.0f} jobs are counted as {state!r}, where the cloud has {true}")
            if now.total(ERRORS) <= before.total(ERRORS):
                complaints.append("no error is counted")
            stage.gateway.spoil = lambda arrival, answer: None
            await stage.polls(max(self.recovery_polls, self.refusal_polls) + 1)
            after = await stage.scrape()
            for job_id in ended:
                found = after.states_of(job_id)
                if found != [str(status)]:
                    complaints.append(
                        f"job {job_id} ended as {word!r}, and is shown as {found or 'nothing'} afterwards"
                    )
            ends = after.total(_ENDED, status=str(status)) - before.total(_ENDED, status=str(status))
            if ends != len(ended):
                complaints.append(f"{ends:.0f} more jobs are counted as {status}, where {len(ended)} ended so")
            complaints += [f"{name} fails" for name in after.failing]
            complain(
                complaints,
                "catch CloudError around each look-up: note it by part.failed, and settle its job as `unresolved`",
            )

        self.on_stage(check)

    def test_part_a_job_of_two_lists_is_shown_once(self) -> None:
        """If two lists have the same job, such as a moved one, each series is on the page only once."""

        homes = {
            labels["job_id"]: labels["workspace_id"]
            for labels, _ in self.good.page.of("trainfleet_job_info")
            if labels["job_id"] in self.good.truth
        }
        job_id = min(homes)
        others = sorted(other for other, home in homes.items() if home != homes[job_id])
        if not others:
            pytest.skip("all jobs are in one workspace")

        async def check(stage: Stage) -> None:
            await stage.polls(1)
            stage.gateway.spoil = _Elsewhere(job_id, others[0])
            try:
                for _ in range(3):
                    await stage.polls(1)
                    page = await stage.scrape()
            except AssertionError as error:  # the page has a duplicate series
                complain([str(error)], _ONE_OWNER)
                raise
            states = [labels for labels, value in page.of("trainfleet_job_status", job_id=job_id) if value]
            rows = list(page.of("trainfleet_job_info", job_id=job_id))
            complaints = [f"job {job_id} has {len(rows)} rows of trainfleet_job_info"] * (len(rows) != 1)
            complaints += [f"job {job_id} is in {len(states)} states"] * (len(states) != 1)
            complain(complaints, _ONE_OWNER)

        self.on_stage(check)

    def _nothing_new(self, operations: Sequence[str], spoil: Callable[[str], Spoil], what: str) -> None:
        """If the responses of one operation are invalid, a collector fails and the page does not change."""

        async def main(folder: Path) -> None:
            async with self.stage(folder) as stage:
                await stage.polls(2)
                before = await stage.scrape()
                for operation in operations:
                    stage.gateway.spoil = spoil(operation)
                    await stage.polls(1)
                    now = await stage.scrape()
                    complaints = [f"gone: {words(key)}" for key in missing(now, before)]
                    complaints += [f"not as before: {words(key)} {now.shown[key]}" for key in wrong(now, before)]
                    failing = now.failing
                    if not failing and operation not in self.copes:
                        complaints.append("no collector says that it fails")
                    complain([f"{operation}, {what}: {text}" for text in complaints], _WHOLE)
                    stage.gateway.spoil = lambda arrival, answer: None
                    await stage.polls(self.recovery_polls + 1)

        if operations:
            self.play(main)


_ONE_OWNER = "ask JobRegistry.taken which jobs another workspace lists, right before settling them"


def _is_of(key: Key, job_id: str) -> bool:
    return any(name == "job_id" and value.partition("/")[0] == job_id for name, value in key[1])


def _is_state(key: Key) -> bool:
    return key[0].endswith(("_status", "_holds_resources", "_evicted"))


def _after_the_first(operation: str) -> Spoil:
    """Respond with 500 to all requests that differ from the first request of that operation."""
    first: list[str] = []

    def spoil(arrival: Arrival, answer: Answer) -> Response | None:
        if arrival.operation != operation:
            return None
        asked = _asked(arrival)
        if not first:
            first.append(asked)
        return None if asked == first[0] else JSONResponse({"message": "made to fail"}, 500)

    return spoil


def _asked(arrival: Arrival) -> str:
    """Return the query of a request without the values that differ between attempts; a signed query is complete."""
    return arrival.target + arrival.body.decode("utf-8", "replace")


def _refused(ended: Collection[str], live: Collection[str]) -> Spoil:
    """Respond with 400 to requests about one of these jobs and about no live job."""

    def spoil(arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        if not any(holds(payload, one) for one in ended) or any(holds(payload, one) for one in live):
            return None
        return JSONResponse({"message": "made to fail"}, 400)

    return spoil


class _Half:
    """Leave out every second row from all responses, and keep the stated length of the list."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._comes: dict[bytes, bool] = {}

    def __call__(self, arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        if arrival.operation != self._operation or not isinstance(payload, dict):
            return None
        change_rows(payload, lambda rows: [row for row in rows if self._takes(dumps(row))])
        return answer.response(dumps(payload))

    def _takes(self, row: bytes) -> bool:
        return self._comes.setdefault(row, len(self._comes) % 2 == 0)


def _with_row(job_id: str, odd: object) -> Spoil:
    """Replace a job's row in every list of several rows."""

    def spoil(arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        if not any(holds(rows, job_id) for rows in lists(payload)):
            return None
        change_rows(payload, lambda rows: [odd if holds(row, job_id) else row for row in rows])
        return answer.response(dumps(payload))

    return spoil


def _without_numbers(arrival: Arrival, answer: Answer) -> Response | None:
    def change(name: str, value: Any) -> Any:
        if is_identity(name) or isinstance(value, bool) or value is None:
            return value
        is_number = isinstance(value, int | float) or _NUMERIC.fullmatch(str(value)) is not None
        return REMOVED if is_number else value

    payload = answer.payload
    if not change_rows(payload, lambda rows: [change_leaves(row, change) for row in rows]):
        return None
    return answer.response(dumps(payload))


def _untimed(written: str, counted: int) -> Spoil:
    """Replace every time that is close to the present."""

    def change(name: str, value: Any) -> Any:
        if isinstance(value, str) and _TIME_TEXT.fullmatch(value):
            return written
        if is_identity(name) or isinstance(value, bool) or not str(value).replace(".", "", 1).isdigit():
            return value
        is_time = any(abs(float(value) / scale - time.time()) < _TEN_YEARS for scale in (1, 1000))
        return type(value)(counted) if is_time else value

    def spoil(arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        return None if payload is None else answer.response(dumps(change_leaves(payload, change)))

    return spoil


class _Elsewhere:
    """Replaces another job's row by this job's row in all lists; totals stay correct."""

    def __init__(self, job_id: str, place: str) -> None:
        self._job_id = job_id
        self._place = place
        self._rows: dict[str, Any] = {}
        """Return the job's row in the lists of each operation."""

    def __call__(self, arrival: Arrival, answer: Answer) -> Response | None:
        payload = answer.payload
        for rows in lists(payload):
            self._rows.update((arrival.operation, row) for row in rows if holds(row, self._job_id))
        mine = self._rows.get(arrival.operation)
        if mine is None or holds(payload, self._job_id) or not any(holds(rows, self._place) for rows in lists(payload)):
            return None
        change_rows(payload, lambda rows: [mine if holds(row, self._place) else row for row in rows])
        return answer.response(dumps(payload))
