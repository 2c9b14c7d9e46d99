"""The jobs of one workspace, as their latest rows made them: a row in which only time went by makes nothing anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.huawei_modelarts import translate
from trainfleet_exporter.providers.translated import DurationField, Translated

_DURATION = DurationField(paths=(("status", "duration"),), read=translate.duration)


@dataclass(slots=True)
class _Facts:
    """What a row tells beside the job itself."""

    tasks: tuple[str, ...]
    restarts_allowed: int | None
    details: Sequence[object] | None = None
    """Made when they are first shown: not every job is."""


class KnownRows:
    """Kept from poll to poll."""

    def __init__(self, workspace_id: str) -> None:
        self._workspace_id = workspace_id
        self._jobs = Translated()
        self._facts: dict[str, _Facts] = {}

    def job(self, job_id: str, row: dict[str, Any]) -> Job | None:
        """The job of a row, which is of this workspace unless it names another. Where nothing has changed it is the
        object that it was."""
        return self._jobs.job(job_id, row, _DURATION, depends=self._workspace_id, translate=self._translate)

    def tasks(self, job_ids: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """The names of these jobs' tasks, as far as the jobs are known."""
        return {job_id: self._facts[job_id].tasks for job_id in job_ids if job_id in self._facts}

    def details(self, job_id: str) -> Sequence[object]:
        """What is shown of a job's tasks, and of how it may be restarted."""
        facts = self._facts.get(job_id)
        if facts is None:
            return ()
        if facts.details is None:
            facts.details = tuple(translate.details(job_id, facts.tasks, facts.restarts_allowed))
        return facts.details

    def keep_only(self, job_ids: Collection[str]) -> None:
        """Forget all other jobs."""
        self._jobs.keep_only(job_ids)
        for job_id in self._facts.keys() - job_ids:
            del self._facts[job_id]

    def _translate(self, row: dict[str, Any]) -> Job | None:
        job = translate.job(row)
        if job is None:
            return None
        self._facts[job.job_id] = _Facts(tuple(translate.tasks(row)), translate.restarts_allowed(row))
        return job if job.workspace_id else msgspec.structs.replace(job, workspace_id=self._workspace_id)
