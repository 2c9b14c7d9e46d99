"""A simulated cloud as the conformance kit wants one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp

from trainfleet_simulator import Simulator
from trainfleet_simulator.world.jobs import Job
from trainfleet_simulator.world.nouns import FINISHED


class SimulatedCloud:
    """One cloud of a simulator, in whose world nothing moves (testing.PretendCloud).

    `word` is a job's state as the cloud says it; jobs of the workspaces `unseen` are nobody's business.
    """

    def __init__(
        self, simulator: Simulator, world: str, word: Callable[[Job], str], *, unseen: tuple[str, ...] = ()
    ) -> None:
        self._simulator = simulator
        self._world = simulator.worlds[world]
        self._word = word
        self._unseen = unseen
        for job in self._world.live():
            job.sub_status = ""  # which refines a word, and has tests of its own

    @property
    def app(self) -> ASGIApp:
        """The ASGI application."""
        return self._simulator.app

    def live_jobs(self) -> Mapping[str, str]:
        """The live jobs, each with its status in the cloud's word."""
        return {job.job_id: self._word(job) for job in self._world.live() if job.draft.workspace_id not in self._unseen}

    def forget(self, job_id: str) -> None:
        """Delete a job."""
        job = self._world.jobs.pop(job_id)
        self._free(job)

    def end(self, job_id: str, word: str) -> None:
        """End a job, in one of the world's states that the cloud has this word for."""
        job, now = self._world.jobs[job_id], int(time.time())
        self._free(job)
        for status in sorted(FINISHED):
            job.status = status
            if self._word(job) == word:
                break
        else:
            raise ValueError(f"no job of the world ends as {word!r}")
        job.work_ended = job.finished = job.modified = now
        job.statuses.append((job.status, now))
        for pod in job.pods:
            pod.status, pod.finished = job.status, now

    def _free(self, job: Job) -> None:
        """Give back what it holds; who waits goes on waiting."""
        if job.draft.pool_id:
            pool = self._world.pools[job.draft.pool_id]
            if job.pods:
                pool.release(job)
            else:
                pool.leave(job)
