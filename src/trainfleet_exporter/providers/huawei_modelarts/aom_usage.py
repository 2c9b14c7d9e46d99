"""From the samples of AOM's instant vectors to usage of jobs, pods (tasks) and devices: pure, tolerant.

A sample is one card's, or one pod's where there are no cards, or a whole job's where pods cannot be told apart. Each
level is made from the samples themselves: a ratio is their mean; amounts and rates are their sum, and only where every
part of the whole is there. Samples carry the time of the query and not their own: nothing here is dated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainfleet_exporter.model import Accelerator, DeviceUsage, Job, JobUsage, PodUsage, UsageValues
from trainfleet_exporter.providers.huawei_modelarts.metric_map import (
    CARD_LABELS,
    JOB_LABEL,
    POD_LABELS,
    Plan,
    Query,
    Reading,
)
from trainfleet_exporter.providers.huawei_modelarts.translate import role_of
from trainfleet_exporter.providers.readings import believable_ratio, mean
from trainfleet_exporter.quantities import mapping, text

Card = tuple[Accelerator, str]
"""The kind of a card and what tells it apart in its pod; an empty text where nothing does."""
UsageObject = JobUsage | PodUsage | DeviceUsage


@dataclass(frozen=True, slots=True)
class JobParts:
    """What a running job consists of, so that what is missing of it is noticed."""

    tasks: frozenset[str]
    pods: int | None
    """How many pods it has; None where that is not known."""
    cards: float | None
    """How many accelerators all of its pods have together; None where that is not known."""
    kind: Accelerator | None
    """Of its accelerators; None where they are of several kinds, or unknown."""
    uniform: bool
    """Whether every pod has as many cards as any other."""

    @classmethod
    def of(cls, job: Job, tasks: Sequence[str]) -> JobParts:
        """By the job's latest row."""
        kinds = {item.kind for item in job.accelerators}
        return cls(
            tasks=frozenset(tasks),
            pods=len(tasks) or (int(job.nodes) if job.nodes else None),
            cards=math.fsum(item.count for item in job.accelerators) if job.accelerators else None,
            kind=kinds.pop() if len(kinds) == 1 else None,
            uniform=len({role_of(task) for task in tasks}) == 1,
        )


@dataclass(slots=True)
class _Group:
    """The values of some queries: by job, pod and card. Pods and cards that nothing tells apart are empty texts."""

    levels: frozenset[str]
    by_cards: bool = False
    chosen: bool = False
    """Whether the config wrote the query: then what it names less finely is believed to be a whole."""
    jobs: dict[str, dict[str, dict[Card, float]]] = field(default_factory=dict)
    ambiguous: set[tuple[str, str, Card]] = field(default_factory=set)
    """What came more than once: a pod that was replaced is told of for a while beside the one in its place."""

    def job_ids(self) -> Iterator[str]:
        """The jobs that have a value which is not ambiguous."""
        if not self.ambiguous:
            yield from self.jobs
            return
        for job_id, pods in self.jobs.items():
            if any((job_id, pod, card) not in self.ambiguous for pod, cards in pods.items() for card in cards):
                yield job_id


class Collected:
    """The answers to one plan's queries. `jobs` are those that run, `listed` all that the provider shows or showed."""

    def __init__(self, plan: Plan, jobs: Mapping[str, JobParts], listed: Collection[str]) -> None:
        self.dropped: Counter[str] = Counter()
        """Samples that are not shown, by reason."""
        self._reading = plan.reading
        self._jobs = jobs
        self._listed = listed
        self._groups: dict[str, _Group] = {}

    @property
    def job_ids(self) -> set[str]:
        """The jobs that have a value."""
        return {job_id for group in self._groups.values() for job_id in group.job_ids()}

    def add(self, query: Query, rows: Iterable[Any]) -> None:
        """Take over rows of a query's answer."""
        # The table's own queries tell of different kinds of cards; together they are a job's.
        group = self._groups.setdefault(query.metric if query.promql else "", _Group(query.levels))
        group.chosen = bool(query.promql)
        group.by_cards = group.by_cards or query.accelerator is not None
        for row in rows:
            self._take(query, group, row)

    def objects(self, without: Collection[str] = ()) -> Iterator[UsageObject]:
        """What is shown, job by job, `without` some of them."""
        for group in self._groups.values():
            for job_id, pods in group.jobs.items():
                if job_id in without:
                    continue
                if group.ambiguous:
                    pods = _clear(group, job_id, pods)  # noqa: PLW2901 - the same pods, less what cannot be told
                yield from _usage(self._reading, group, job_id, pods, self._jobs[job_id])

    def _take(self, query: Query, group: _Group, row: Any) -> None:
        labels = mapping(row, "metric") if isinstance(row, dict) else {}
        job_id = text(labels, JOB_LABEL)
        if not job_id:
            self.dropped["malformed"] += 1
            return
        if job_id not in self._listed:
            self.dropped["unlisted"] += 1
            return
        parts = self._jobs.get(job_id)
        if parts is None:
            return  # it does not run any more: its last sample is from its end
        value = self._value(row.get("value"), query)
        if value is None:
            return
        pod, card = _pod(labels, parts), _card(labels, query, parts)
        cards = group.jobs.setdefault(job_id, {}).setdefault(pod, {})
        if card in cards and cards[card] == value:
            self.dropped["duplicate"] += 1
        elif card in cards:
            # Which of them is the present one is not told: the one that came first is not shown either.
            self.dropped["duplicate"] += 1 if (job_id, pod, card) in group.ambiguous else 2
            group.ambiguous.add((job_id, pod, card))
        else:
            cards[card] = value

    def _value(self, sample: object, query: Query) -> float | None:
        """A sample `[time, "value"]` in base units; None, and counted, where it is none."""
        raw = sample[1] if isinstance(sample, list) and len(sample) == 2 else None
        if isinstance(raw, bool) or not isinstance(raw, str | int | float) or len(str(raw)) > 40:
            self.dropped["malformed"] += 1
            return None
        try:
            number = float(raw)
        except ValueError:
            self.dropped["malformed"] += 1
            return None
        if math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
            self.dropped["no_data"] += 1
            return None
        value: float | None = number * query.factor
        if self._reading.is_ratio:
            value = believable_ratio(number * query.factor, bounded=self._reading.bounded)
        elif not 0 <= number * query.factor < math.inf:
            value = None
        if value is None:
            self.dropped["out_of_range"] += 1
        return value


def _pod(labels: Mapping[str, Any], parts: JobParts) -> str:
    """The pod of a sample: the name of a task, where a label is one or ends with one; else the first label's text."""
    given = [value for label in POD_LABELS if (value := text(labels, label))]
    for value in given:
        words = value.split("-")
        for start in range(len(words)):
            task = "-".join(words[start:])
            if task in parts.tasks:
                return task
    if not given and len(parts.tasks) == 1:
        return next(iter(parts.tasks))
    return given[0] if given else ""


def _card(labels: Mapping[str, Any], query: Query, parts: JobParts) -> Card:
    for label, kind in CARD_LABELS.items():
        if name := text(labels, label):
            return query.accelerator or kind or parts.kind or _kind_in(query), name
    return query.accelerator or parts.kind or _kind_in(query), ""


def _kind_in(query: Query) -> Accelerator:
    return "npu" if "npu" in query.promql.lower() else "gpu"


def _clear(group: _Group, job_id: str, pods: Mapping[str, Mapping[Card, float]]) -> dict[str, dict[Card, float]]:
    """The pods of a job without the values that are ambiguous."""
    found = {
        pod: {card: value for card, value in cards.items() if (job_id, pod, card) not in group.ambiguous}
        for pod, cards in pods.items()
    }
    return {pod: cards for pod, cards in found.items() if cards}


def _usage(
    reading: Reading, group: _Group, job_id: str, pods: Mapping[str, Mapping[Card, float]], parts: JobParts
) -> Iterator[UsageObject]:
    """One job's readings at the levels of its group."""
    if "job" in group.levels and not _has_replaced(pods, parts):
        cards = [cell for values in pods.values() for cell in values.items()]
        whole = _is_whole(group, pods, parts)
        yield from (JobUsage(job_id, values) for values in _values(reading, cards, whole=whole))
    for pod_id, values in pods.items():
        if not pod_id:
            continue
        if "pod" in group.levels:
            whole = _is_whole_pod(group, pods, pod_id, parts)
            yield from (PodUsage(job_id, pod_id, found) for found in _values(reading, values.items(), whole=whole))
        if "device" in group.levels and reading.device is not None:
            for (kind, card), value in values.items():
                if card:
                    yield DeviceUsage(job_id, pod_id, card, kind, **{reading.device[1]: value})


def _values(reading: Reading, cells: Iterable[tuple[Card, float]], *, whole: bool) -> Iterator[UsageValues]:
    """The mean of a ratio, for each kind of accelerator; the sum of anything else, if it is of a whole."""
    if not reading.is_ratio:
        if whole:
            yield _of(reading, "gpu", math.fsum(value for _, value in cells))
        return
    by_kind: dict[Accelerator, list[float]] = {}
    for (kind, _), value in cells:
        by_kind.setdefault(kind if reading.sources[0].accelerator else "gpu", []).append(value)
    for kind, values in by_kind.items():
        yield _of(reading, kind, mean(values))


def _of(reading: Reading, kind: Accelerator, value: float | None) -> UsageValues:
    given: dict[str, Any] = {reading.field: value}
    return UsageValues(accelerator=kind, **given)


def _has_replaced(pods: Mapping[str, Mapping[Card, float]], parts: JobParts) -> bool:
    """Whether there are more pods than tasks: some were replaced, and nothing tells which of them are there no more."""
    return parts.pods is not None and len(pods) > parts.pods


def _is_whole(group: _Group, pods: Mapping[str, Mapping[Card, float]], parts: JobParts) -> bool:
    """Whether the values of a job are those of all of its parts."""
    if "" in pods:
        return group.chosen and len(pods) == 1
    if parts.pods is None or len(pods) != parts.pods:
        return False
    return all(_is_whole_pod(group, pods, pod_id, parts) for pod_id in pods)


def _is_whole_pod(group: _Group, pods: Mapping[str, Mapping[Card, float]], pod_id: str, parts: JobParts) -> bool:
    """Whether the values of a pod are those of all of its cards."""
    cards = pods[pod_id]
    unnamed = any(not name for _, name in cards)
    if not group.by_cards and unnamed:
        return True  # it is of the pod as one
    if parts.cards is None:
        return not unnamed
    if sum(len(values) for values in pods.values()) >= parts.cards and not _has_replaced(pods, parts):
        return True
    return parts.uniform and parts.pods is not None and len(cards) * parts.pods >= parts.cards
