"""One poll of a workspace's jobs: live jobs are published first, whatever becomes of the calls for ended ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar

import msgspec
import pytest

from tests.polling.rig import Rig
from tests.support.clock import run_stepped
from trainfleet_exporter.config import Global, ProviderConfig
from trainfleet_exporter.errors import CloudError, RequestRefused, ServerTrouble
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.providers.jobs.collectors import JobsCollector
from trainfleet_exporter.providers.jobs.listing import Listing
from trainfleet_exporter.providers.jobs.reader import JobReader
from trainfleet_exporter.providers.jobs.shared import Shared
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, CallLimits
from trainfleet_exporter.transport.json_fields import unusable

_Row = tuple[str, str, Status]
"""Id, workspace and status of a job."""


class _Cloud(Shared):
    """Jobs by id, the ids that were looked up, and the calls that fail."""

    def __init__(self) -> None:
        config = ProviderConfig(name="p", platform="x", region="any-1", workspaces=("w1", "w2"))
        account = Account("p", CallLimits())
        super().__init__(config, BuildContext(settings=Global(), account=account, observe=lambda attempt: None))
        self.workspaces.publish(("w1", "w2"))
        self.rows: dict[str, _Row] = {}
        self.looked_up: list[list[str]] = []
        self.lists: list[tuple[float, float]] = []
        self.broken: dict[str, CloudError] = {}

    def add(self, job_id: str, workspace_id: str = "w1", status: Status = Status.RUNNING) -> None:
        self.rows[job_id] = (job_id, workspace_id, status)


class _Reader(JobReader[_Cloud, _Row]):
    live_states = ((Status.RUNNING, "Running"),)

    async def read_live(self) -> None:
        self.check("live")
        await self.take(Listing({key: row for key, row in self.shared.rows.items() if row[2] is Status.RUNNING}))

    def look_up_size(self, count: int) -> int:
        return 2

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[_Row]:
        assert deadline < self.part.deadline
        self.shared.looked_up.append(list(job_ids))
        self.check("look-up")
        return Listing({key: self.shared.rows[key] for key in job_ids if key in self.shared.rows})

    def translate(self, row: _Row) -> Job | None:
        job_id, workspace_id, status = row
        if workspace_id not in ("any", self.workspace_id):
            return None
        return Job(job_id=job_id, workspace_id=self.workspace_id, status=status, platform_status=str(status))

    def check(self, call: str) -> None:
        if call in self.shared.broken:
            raise self.shared.broken[call]


class _Listing(_Reader):
    """Of a cloud that lists jobs by their end."""

    lists_ended = True

    async def read_ended(self, start: float, end: float, deadline: float) -> None:
        self.shared.lists.append((start, end))
        self.check("ended")
        await self.take(Listing({key: row for key, row in self.shared.rows.items() if row[2] is not Status.RUNNING}))


class _Timed(msgspec.Struct):
    """A row with a duration."""

    job_id: str
    name: str
    duration: float


class _TimedReader(JobReader[_Cloud, _Timed]):
    """Of a cloud whose rows have durations. `translated` has the ids of the rows that were translated."""

    rows: ClassVar[list[_Timed]] = []
    translated: ClassVar[list[str]] = []
    models: ClassVar[dict[str, str]] = {}

    async def read_live(self) -> None:
        await self.take(Listing({row.job_id: row for row in msgspec.json.decode(self.json(), type=list[_Timed])}))

    def json(self) -> bytes:
        return msgspec.json.encode(self.rows if self.workspace_id == "w1" else [])

    async def look_up(self, job_ids: Sequence[str], deadline: float) -> Listing[_Timed]:
        return Listing({})

    def translate(self, row: _Timed) -> Job | None:
        self.translated.append(row.job_id)
        if row.name == "spoilt":
            unusable(row.name, "malformed")
        return Job(
            job_id=row.job_id,
            workspace_id=self.workspace_id,
            name=self.models.get(row.name, row.name),
            duration=row.duration,
            status=Status.RUNNING,
        )

    def context(self) -> object:
        return dict(self.models)

    def timed(self, row: _Timed) -> _Timed:
        return row

    def duration(self, row: _Timed) -> float | None:
        return row.duration


class _Polls:
    def __init__(self, reader: type[JobReader[_Cloud, Any]]) -> None:
        self.cloud = _Cloud()
        self.rig = Rig(JobsCollector(self.cloud, 60.0, partial(reader, self.cloud)))

    async def poll(self) -> dict[str, str]:
        """The shown jobs with their status, after a poll."""
        await self.rig.runner.tick()
        await asyncio.sleep(60)
        shown = [series for series, value in (await self.rig.shown()).items() if value and "job_status{" in series]
        return {_label(series, "job_id"): _label(series, "status") for series in shown}


def _label(series: str, name: str) -> str:
    return series.partition(f'{name}="')[2].partition('"')[0]


def _run(check: Callable[[_Polls], Coroutine[Any, Any, None]], reader: type[JobReader[_Cloud, Any]] = _Reader) -> None:
    async def main() -> None:
        await check(_Polls(reader))

    run_stepped(main)


def test_a_job_that_left_the_list_is_looked_up_and_counted() -> None:
    async def check(polls: _Polls) -> None:
        for number in range(5):
            polls.cloud.add(f"j{number}")
        assert set((await polls.poll()).values()) == {"running"}
        assert polls.cloud.looked_up == []
        for job_id in ("j0", "j1", "j2"):
            polls.cloud.add(job_id, status=Status.FAILED)
        assert (await polls.poll())["j0"] == "failed"
        assert polls.cloud.looked_up == [["j0", "j1"], ["j2"]]
        shown = await polls.rig.shown()
        assert shown['trainfleet_jobs_finished_total{provider="p",workspace_id="w1",status="failed"}'] == 3

    _run(check)


def test_a_deleted_job_is_no_longer_shown() -> None:
    async def check(polls: _Polls) -> None:
        polls.cloud.add("j")
        await polls.poll()
        del polls.cloud.rows["j"]
        assert await polls.poll() == {}
        assert polls.rig.runner.errors == []

    _run(check)


def test_a_failed_look_up_leaves_live_jobs_and_is_repeated() -> None:
    async def check(polls: _Polls) -> None:
        polls.cloud.add("stays")
        polls.cloud.add("ends")
        await polls.poll()
        polls.cloud.add("ends", status=Status.SUCCEEDED)
        polls.cloud.broken["look-up"] = ServerTrouble("broken")
        assert await polls.poll() == {"stays": "running"}
        assert polls.rig.own("collector_success") == 0
        polls.cloud.broken.clear()
        assert await polls.poll() == {"stays": "running", "ends": "succeeded"}

    _run(check)


def test_failed_list_fails_workspaces_and_leaves_jobs_unknown() -> None:
    async def check(polls: _Polls) -> None:
        polls.cloud.add("j")
        await polls.poll()
        polls.cloud.broken["live"] = ServerTrouble("broken")
        assert await polls.poll() == {"j": "running"}  # the last good answer
        assert not polls.cloud.jobs.here.is_known
        polls.cloud.broken.clear()
        await polls.poll()
        assert polls.cloud.jobs.here.value == {"w1", "w2"}

    _run(check)


def test_a_job_that_two_workspaces_list_is_shown_once() -> None:
    async def check(polls: _Polls) -> None:
        polls.cloud.add("j", "any")
        assert await polls.poll() == {"j": "running"}
        assert polls.rig.own("dropped_readings_total", reason="duplicate") == 1

    _run(check)


@pytest.mark.parametrize(
    ("error", "succeeds"), [(RequestRefused("no such query", status=400), 1), (ServerTrouble("broken"), 0)]
)
def test_a_list_of_ended_jobs_that_fails_is_replaced_by_look_ups(error: CloudError, succeeds: int) -> None:
    async def check(polls: _Polls) -> None:
        polls.cloud.add("j")
        polls.cloud.broken["ended"] = error
        await polls.poll()
        polls.cloud.add("j", status=Status.STOPPED)
        assert await polls.poll() == {"j": "stopped"}
        assert polls.cloud.looked_up == [["j"]]
        assert polls.rig.own("collector_success") == succeeds

    _run(check, _Listing)


def test_lists_of_ended_jobs_overlap_from_the_retention_on() -> None:
    async def check(polls: _Polls) -> None:
        await polls.poll()
        await polls.poll()
        first, second = polls.cloud.lists[0], polls.cloud.lists[2]
        assert first[1] - first[0] == 3600
        assert second[0] == first[1] - 600
        polls.cloud.add("j", status=Status.FAILED)
        assert await polls.poll() == {"j": "failed"}
        assert polls.cloud.looked_up == []

    _run(check, _Listing)


def test_ends_since_the_start_are_read_after_a_long_failure() -> None:
    async def check(polls: _Polls) -> None:
        began = polls.cloud.began
        polls.cloud.broken["ended"] = RequestRefused("unknown parameter")
        for _ in range(180):
            await polls.poll()
        del polls.cloud.broken["ended"]
        await polls.poll()
        start, end = polls.cloud.lists[-1]
        assert start <= began
        assert end - start >= 3 * 3600

    _run(check, _Listing)


def test_only_changed_rows_are_translated_again() -> None:
    rows, translated, models = _TimedReader.rows, _TimedReader.translated, _TimedReader.models

    async def check(polls: _Polls) -> None:
        async def poll(*given: _Timed) -> dict[str, float]:
            rows[:], translated[:] = given, []
            await polls.poll()
            shown = await polls.rig.shown()
            return {_label(key, "job_id"): value for key, value in shown.items() if "duration_seconds{" in key}

        a, b = _Timed("a", "one", 1.0), _Timed("b", "two", 1.0)
        assert await poll(a, b) == {"a": 1, "b": 1}
        assert sorted(translated) == ["a", "b"]
        assert await poll(_Timed("a", "one", 61.0), _Timed("b", "three", 1.0)) == {"a": 61, "b": 1}
        assert translated == ["b"]
        assert any('job_name="three"' in series for series in await polls.rig.shown())
        models["one"] = "uno"
        assert await poll(a, b) == {"a": 1, "b": 1}
        assert sorted(translated) == ["a", "b"]
        assert any('job_name="uno"' in series for series in await polls.rig.shown())
        assert await poll(b) == {"b": 1}
        assert await poll(a, b) == {"a": 1, "b": 1}
        assert translated == ["a"]
        models.clear()

    _run(check, _TimedReader)


def test_what_a_row_loses_is_counted_by_each_poll() -> None:
    async def check(polls: _Polls) -> None:
        _TimedReader.rows[:] = [_Timed("a", "spoilt", 1.0)]
        for number in (1, 2, 3):
            await polls.poll()
            assert polls.rig.own("dropped_readings_total", reason="malformed") == number

    _run(check, _TimedReader)
