"""The jobs that have series, by the config's `jobs: {include, exclude}`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from trainfleet_exporter.config import JobFilter, JobsScope
from trainfleet_exporter.config.kinds import compile_pattern
from trainfleet_exporter.model import Job


def job_filter(scope: JobsScope) -> Callable[[Job], bool]:
    """A test for jobs: in `include` every key that is given must match, in `exclude` one that matches is enough.

    A key matches when one entry of its list does; names are regular expressions that match as a whole.
    """
    include, exclude = list(_criteria(scope.include)), list(_criteria(scope.exclude))
    return lambda job: all(matches(job) for matches in include) and not any(matches(job) for matches in exclude)


def _criteria(given: JobFilter) -> Iterator[Callable[[Job], bool]]:
    if given.name:
        patterns = [compile_pattern(name) for name in given.name]
        yield lambda job: any(matches(job.name) for matches in patterns)
    for key in ("user_id", "job_type", "pool_id"):
        if allowed := frozenset(getattr(given, key)):
            yield partial(_is_one_of, key, allowed)


def _is_one_of(key: str, allowed: frozenset[str], job: Job) -> bool:
    return getattr(job, key) in allowed
