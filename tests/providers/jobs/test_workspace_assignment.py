"""What of one provider is polled by which of several exporters: all of it, and nothing twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.clock import run_stepped
from trainfleet_exporter.errors import CloudError, DeadlineExceeded, ServerTrouble
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.jobs.workspace_assignment import WorkspaceAssignment
from trainfleet_exporter.sharding import Shard, ShardAssignment

_DAY = 86400.0


class _Poll:
    """Notes what goes wrong. Made in a running loop."""

    def __init__(self) -> None:
        self._made = asyncio.get_running_loop().time()
        self.parts_failed: list[str] = []
        self.lacked: list[str] = []

    @property
    def deadline(self) -> float:
        """There is a poll each minute from the first on, and each has 50 seconds."""
        passed = asyncio.get_running_loop().time() - self._made
        return self._made + passed // 60 * 60 + 50.0

    def failed(self, key: str, error: Exception) -> None:
        assert isinstance(error, CloudError | DeadlineExceeded)
        self.parts_failed.append(key)

    def lacks(self, what: str, error: CloudError) -> None:
        assert isinstance(error, CloudError)
        self.lacked.append(what)


class _Cloud:
    """Counts jobs that were created, and how often it was asked."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.broken: set[str] = set()
        self.asked: list[tuple[str, float, float]] = []
        self.takes = 0.0
        """Seconds."""

    async def count(self, workspace_id: str, start: float, end: float, deadline: float) -> int:
        assert deadline > asyncio.get_running_loop().time()
        await asyncio.sleep(self.takes)
        self.asked.append((workspace_id, start, end))
        if workspace_id in self.broken:
            raise ServerTrouble("broken")
        return self.sizes[workspace_id]


def _job(workspace_id: str, job_id: str) -> Job:
    return Job(job_id=job_id, workspace_id=workspace_id, status=Status.RUNNING, platform_status="Running")


_ids = st.text("abcdef0123456789", min_size=1, max_size=6)


@settings(deadline=None)
@given(
    sizes=st.dictionaries(_ids, st.integers(0, 100), max_size=8),
    jobs=st.sets(_ids, max_size=30),
    pools=st.sets(_ids, max_size=10),
    total=st.integers(1, 9),
    spread=st.integers(1, 12),
    above=st.none() | st.integers(1, 60),
)
def test_every_workspace_job_and_pool_is_shown_by_one_shard(
    *, sizes: dict[str, int], jobs: set[str], pools: set[str], total: int, spread: int, above: int | None
) -> None:
    async def main() -> None:
        cloud = _Cloud(sizes)
        shown: list[str] = []
        counted: list[str] = []
        asked: list[str] = []
        primaries = 0
        for ordinal in range(total):
            share = ShardAssignment("p", Shard(ordinal, total), spread)
            assignment = WorkspaceAssignment(share, above=above, count=cloud.count)
            if not share.is_member:
                continue
            poll = _Poll()
            await assignment.measure(cast("Poll", poll), list(sizes))
            assert assignment.unsized(sizes) == poll.parts_failed == []
            listed, elsewhere = assignment.listed(sizes), assignment.elsewhere(sizes)
            assert sorted([*listed, *elsewhere]) == sorted(sizes)
            counted += share.owned("workspace", sizes)
            asked += share.owned("pool", pools)
            registry = JobRegistry(lambda job: True, mine=assignment.shows if assignment.is_possible else None)
            for key in sizes:
                found = {f"{key}-{job}": _job(key, f"{key}-{job}") for job in jobs}
                if key in listed:
                    registry.workspace(key).settle(found, now=0.0, began=0.0, retention=0.0)
                else:
                    registry.workspace(key).enter(found)
            registry.changed()
            shown += registry.live()
            if share.is_primary:
                primaries += 1
                assert len(registry.listed()) == len(sizes) * len(jobs)
        assert primaries == 1
        assert sorted(shown) == sorted(f"{key}-{job}" for key in sizes for job in jobs)
        assert sorted(counted) == sorted(sizes)
        assert sorted(asked) == sorted(pools)

    asyncio.run(main())


def _shard(ordinal: int) -> ShardAssignment:
    return ShardAssignment("p", Shard(ordinal, 4), 16)


def _split(cloud: _Cloud) -> WorkspaceAssignment:
    return WorkspaceAssignment(_shard(0), above=10, count=cloud.count)


def test_a_size_is_asked_for_once_a_day_and_a_day_ahead() -> None:
    async def main() -> None:
        cloud = _Cloud({"large": 11, "small": 10})
        assignment, poll = _split(cloud), _Poll()
        for _ in range(3):
            await assignment.measure(cast("Poll", poll), ["large", "small"])
            await asyncio.sleep(60)
        today = time.time() // _DAY * _DAY
        assert [end for _, _, end in cloud.asked] == [today - _DAY, today - _DAY, today, today]
        assert {end - start for _, start, end in cloud.asked} == {30 * _DAY}
        assert "large" in assignment.listed(["large", "small"])
        cloud.sizes["large"] = 10
        await asyncio.sleep(_DAY)
        await assignment.measure(cast("Poll", poll), ["large", "small"])
        assert assignment.listed(["large"]) == ["large"]  # as it was found yesterday
        assert [end for _, _, end in cloud.asked[4:]] == [today + _DAY, today + _DAY]
        await asyncio.sleep(_DAY)
        await assignment.measure(cast("Poll", poll), ["large", "small"])
        assert ("large" in assignment.listed(["large"])) == _shard(0).owns("workspace", "large")

    run_stepped(main)


def test_shard_without_counts_for_hours_divides_as_others_do() -> None:
    async def main() -> None:
        cloud, broken = _Cloud({"large": 10}), _Cloud({"large": 10})
        jobs = {f"j{n}": _job("large", f"j{n}") for n in range(60)}
        assignments = [
            WorkspaceAssignment(_shard(n), above=10, count=(broken if n == 2 else cloud).count) for n in range(4)
        ]
        for hour in range(100):
            cloud.sizes["large"] = broken.sizes["large"] = 11 if hour // 30 % 2 else 10  # it grows, and shrinks
            broken.broken = {"large"} if hour % 24 in range(1, 20) or hour % 24 == 23 else set()
            shown = []
            for assignment in assignments:
                await assignment.measure(cast("Poll", _Poll()), ["large"])
                shown += [
                    job_id for job_id, job in jobs.items() if assignment.listed(["large"]) and assignment.shows(job)
                ]
            assert sorted(shown) == sorted(jobs), hour
            await asyncio.sleep(3600)

    run_stepped(main)


def test_workspace_of_unknown_size_keeps_its_last_size() -> None:
    async def main() -> None:
        cloud = _Cloud({"large": 11})
        cloud.broken = {"large"}
        assignment, poll = _split(cloud), _Poll()
        await assignment.measure(cast("Poll", poll), ["large"])
        assert set(poll.parts_failed) == {"large"}
        assert poll.lacked == []
        assert assignment.unsized(["large"]) == ["large"]
        assert assignment.listed(["large"]) == assignment.elsewhere(["large"]) == []
        cloud.broken = set()
        await assignment.measure(cast("Poll", poll), ["large"])  # the next poll
        assert assignment.listed(["large"]) == ["large"]
        cloud.broken = {"large"}
        await asyncio.sleep(2 * _DAY)
        later = _Poll()
        await assignment.measure(cast("Poll", later), ["large"])
        assert (later.parts_failed, set(later.lacked)) == ([], {"size of workspace large"})
        assert assignment.listed(["large"]) == ["large"]

    run_stepped(main)


def test_sizes_leave_time_for_lists() -> None:
    async def main() -> None:
        cloud = _Cloud({f"w{n}": 11 for n in range(20)})
        cloud.takes = 5.0
        assignment, poll = _split(cloud), _Poll()
        began = asyncio.get_running_loop().time()
        await assignment.measure(cast("Poll", poll), list(cloud.sizes))
        assert asyncio.get_running_loop().time() - began < 35
        assert 4 < len(cloud.asked) < 8
        assert set(poll.parts_failed) == set(assignment.unsized(cloud.sizes)) == set(cloud.sizes) - _known(cloud)
        for _ in range(20):
            await asyncio.sleep(60 - asyncio.get_running_loop().time() % 60)
            await assignment.measure(cast("Poll", _Poll()), list(cloud.sizes))
        assert assignment.unsized(cloud.sizes) == []
        assert len(cloud.asked) == 40  # of today, and of tomorrow

    run_stepped(main)


def _known(cloud: _Cloud) -> set[str]:
    return {key for key, _, _ in cloud.asked}


def test_jobs_that_left_a_list_are_polled_by_both_shards() -> None:
    async def main() -> None:
        cloud = _Cloud({"large": 100})
        jobs = {f"j{n}": _job("large", f"j{n}") for n in range(40)}
        asked: dict[int, list[str]] = {}
        for ordinal in range(4):
            assignment = WorkspaceAssignment(_shard(ordinal), above=10, count=cloud.count)
            await assignment.measure(cast("Poll", _Poll()), ["large"])
            page = JobRegistry(lambda job: True).workspace("large")
            page.settle(jobs, now=0.0, began=0.0, retention=0.0)
            asked[ordinal] = assignment.to_look_up(page, {"j0": jobs["j0"]})
        owner = _shard(0).owner("workspace", "large")
        missing = sorted(jobs.keys() - {"j0"})
        assert sorted(asked.pop(owner)) == missing
        others = sorted(job_id for ids in asked.values() for job_id in ids)
        shown = [job_id for job_id in missing if _shard(0).owner("job", job_id) != owner]
        assert others == shown

    asyncio.run(main())


def test_nothing_is_counted_where_nothing_may_be_divided() -> None:
    async def main() -> None:
        cloud = _Cloud({"large": 11})
        for assignment in (
            WorkspaceAssignment(_shard(0), count=cloud.count),
            WorkspaceAssignment(ShardAssignment("p", Shard(0, 1), 16), above=1, count=cloud.count),
            WorkspaceAssignment(ShardAssignment("p", Shard(0, 4), 1), above=1, count=cloud.count),
        ):
            await assignment.measure(cast("Poll", _Poll()), ["large"])
            assert not assignment.is_possible
        assert cloud.asked == []

    asyncio.run(main())
