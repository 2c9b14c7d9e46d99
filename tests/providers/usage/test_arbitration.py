"""Which source serves which job: one at a time, and the same for a while."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.clock import START, run_stepped
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.providers.jobs.registry import JobRegistry
from trainfleet_exporter.providers.usage.arbitration import Decided, SourceArbitration


def test_a_job_that_starts_again_keeps_its_source_for_six_hours() -> None:
    async def main() -> None:
        book = JobRegistry(lambda job: True)
        sources = Decided(lambda job: "one by one" if job.payment_type else "bulk", book.live, book.watch)
        metrics, monitor = sources.serving("one by one"), sources.serving("bulk")
        pay_as_you_go = Job(job_id="a", status=Status.RUNNING, payment_type="PostPaid", resource_type="ECS")
        on_quota = Job(job_id="a", status=Status.RUNNING)

        def settle(*jobs: Job) -> None:
            page = book.workspace("1")
            page.settle({job.job_id: job for job in jobs}, now=time.time(), began=START, retention=60)
            book.changed()

        settle(pay_as_you_go)
        assert (metrics(pay_as_you_go), monitor(pay_as_you_go)) == (True, False)
        for gone in (3600, 6 * 3600 - 1):
            settle()
            await asyncio.sleep(gone)
            settle(on_quota)  # under its old id, with another story: its old readings may still be on the page
            assert (metrics(on_quota), monitor(on_quota)) == (True, False)
        settle()
        await asyncio.sleep(6 * 3600 + 1)
        settle()
        settle(on_quota)
        assert (metrics(on_quota), monitor(on_quota)) == (False, True)

    run_stepped(main)


@pytest.mark.parametrize("status", Status)
def test_only_jobs_that_use_something_now_are_served(status: Status) -> None:
    sources = Decided(lambda job: "bulk", dict, lambda callback: None)
    measured = {Status.RUNNING, Status.RESTARTING, Status.STOPPING}
    assert sources.serving("bulk")(Job(job_id="a", status=status)) == (status in measured)


def test_a_job_is_handed_over_when_no_part_shows_it_any_more() -> None:
    async def main() -> None:
        arbitration, job = SourceArbitration(interval=60), Job(job_id="a", status=Status.RUNNING, started=START)
        running, called = {"a": job}, list[None]()
        arbitration.watch(lambda: called.append(None))
        arbitration.claim({"a"})
        assert called == [None]
        assert arbitration.owns("a")
        for part in ("cpu", "memory"):
            arbitration.show(part, {"a"})
        arbitration.release(running, {"a"}, closed=False)
        assert not arbitration.left(job)
        arbitration.claim(())
        arbitration.show("cpu", ())  # the other part failed, and shows its last good answer
        for _ in range(2):
            arbitration.release(running, (), closed=False)
        assert arbitration.owns("a")
        assert not arbitration.left(job)
        arbitration.expired("memory")
        assert arbitration.left(job)
        assert not arbitration.taken_over(running, with_usage=False)
        arbitration.answered("a", with_usage=False)
        assert arbitration.taken_over(running, with_usage=False)
        assert not arbitration.taken_over(running, with_usage=True)

    run_stepped(main)
