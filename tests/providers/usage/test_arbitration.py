"""Which source serves which job: one at a time, and the same for a while."""

from __future__ import annotations

from tests.support.clock import START, run_stepped
from trainfleet_exporter.model import Job, Status
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.providers.usage.arbitration import SourceArbitration


def test_a_job_is_handed_over_when_no_part_shows_it_any_more() -> None:
    async def main() -> None:
        arbitration, job = (
            SourceArbitration(interval=60, clock=ServerClock()),
            Job(job_id="a", status=Status.RUNNING, started=START),
        )
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
