"""The jobs that have series, by the config's `jobs: {include, exclude}`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainfleet_exporter.config import JobFilter, JobsScope
from trainfleet_exporter.config.kinds import compile_pattern
from trainfleet_exporter.model import Job


def job_filter(scope: JobsScope) -> Callable[[Job], bool]:
    """A test for jobs: in `include` every key that is given must match, in `exclude` one that matches is enough.

    A key matches when one entry of its list does; names are regular expressions that match as a whole.
    """
    include, exclude = _criteria(scope.include), _criteria(scope.exclude)
    if not include and not exclude:
        return lambda job: True

    def wanted(job: Job) -> bool:
        return all(matches(job) for matches in include) and not any(matches(job) for matches in exclude)

    return wanted


def _criteria(given: JobFilter) -> list[Callable[[Job], bool]]:
    criteria: list[Callable[[Job], bool]] = []
    if given.name:
        criteria.append(_name_test(given.name))
    if given.user_id:
        criteria.append(_text_test(lambda job: job.user_id, given.user_id))
    if given.job_type:
        criteria.append(_text_test(lambda job: job.job_type, given.job_type))
    if given.pool_id:
        criteria.append(_text_test(lambda job: job.pool_id, given.pool_id))
    return criteria


def _name_test(names: Sequence[str]) -> Callable[[Job], bool]:
    patterns = [compile_pattern(name) for name in names]
    return lambda job: any(matches(job.name) for matches in patterns)


def _text_test(field: Callable[[Job], str], allowed: Sequence[str]) -> Callable[[Job], bool]:
    words = frozenset(allowed)
    return lambda job: field(job) in words
