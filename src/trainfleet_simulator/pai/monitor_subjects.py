"""The subjects of CloudMonitor's readings at a moment: jobs, pods, cards, each with the time of its last point.

Subjects and times are computed once a minute for all metrics and pages. Values are computed when a page is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trainfleet_simulator.world.fleet import World
from trainfleet_simulator.world.jobs import Job, Pod

_KEPT = 12


class Subject(NamedTuple):
    """The subject of one point: a job with all its pods at that time, a pod, or one card of a pod."""

    job: Job
    pods: tuple[Pod, ...]
    card: int | None
    at: int


Moment = tuple[int, int, int]
"""The largest age and the smallest age of points as Unix times, and the period (seconds)."""


def served(job: Job) -> bool:
    """Return whether CloudMonitor has the job. Pay-as-you-go jobs on general computing are only in DLC."""
    return job.draft.payment != "PostPaid" or job.draft.resource_type != "ECS"


def last_places(job: Job, level: str, moment: Moment, *, of_cards: bool) -> Iterator[Subject]:
    """Yield the last point of a job, of each of its pods, or of each of their cards."""
    newest, oldest, period = moment
    found = []
    for pod in job.pods:
        if of_cards and not pod.role.cards:
            continue
        last = _last(pod, newest, period)
        if last is not None and last[1] >= oldest:
            found.append(last)
    if level != "job":
        for pod, at in found:
            yield from _of_pod(job, pod, level, at)
    elif found:
        latest = max(at for _, at in found)
        yield Subject(job, tuple(pod for pod, at in found if at == latest), None, latest)


def places_at(job: Job, level: str, at: int, *, of_cards: bool) -> Iterator[Subject]:
    """Yield the points of one past moment."""
    pods = [
        one
        for pod in job.pods
        if pod.role.cards or not of_cards
        for one in [pod, *pod.history]
        if one.started is not None and one.started <= at and (one.finished is None or at <= one.finished)
    ]
    if level != "job":
        for pod in pods:
            yield from _of_pod(job, pod, level, at)
    elif pods:
        yield Subject(job, tuple(pods), None, at)


def _of_pod(job: Job, pod: Pod, level: str, at: int) -> Iterator[Subject]:
    if level == "card":
        for card in range(pod.role.cards):
            yield Subject(job, (pod,), card, at)
    else:
        yield Subject(job, (pod,), None, at)


def _last(pod: Pod, newest: int, period: int) -> tuple[Pod, int] | None:
    """Return the latest incarnation with the end of a whole period in its life, and the last such end."""
    for one in reversed(pod.incarnations):
        if one.started is None:
            continue
        at = newest if one.finished is None else min(newest, one.finished // period * period)
        if at >= one.started:
            return one, at
    return None


class Subjects:
    """The last points of all subjects, computed once for each moment. The last few moments are cached."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: OrderedDict[tuple[str, bool, Moment], list[Subject]] = OrderedDict()

    def everybody(self, level: str, moment: Moment, *, of_cards: bool) -> list[Subject]:
        """Return them in a stable order: the oldest job first."""
        key = (level, of_cards, moment)
        if key not in self._kept:
            self._kept[key] = self.of(self._reporting(moment), level, moment, of_cards=of_cards)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def of(self, jobs: Iterable[Job], level: str, moment: Moment, *, of_cards: bool) -> list[Subject]:
        """Return the last points of these jobs only, if CloudMonitor has them."""
        return [place for job in jobs if served(job) for place in last_places(job, level, moment, of_cards=of_cards)]

    def _reporting(self, moment: Moment) -> Iterator[Job]:
        _, oldest, _ = moment
        for job in self._world.jobs.values():
            if job.pods and (job.finished is None or job.finished >= oldest):
                yield job
