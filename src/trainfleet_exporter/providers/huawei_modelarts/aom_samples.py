"""From the samples of AOM's instant vectors to batches of the usage engine: pure, tolerant.

A sample is one card's, or one pod's where there are no cards, or a whole job's where pods cannot be distinguished. What
names pods and cards in samples is unproven (metric_map); the names of a job's tasks are not. Samples carry the time of
the query and not their own: nothing here is dated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from trainfleet_exporter.model import Accelerator, Job
from trainfleet_exporter.providers.huawei_modelarts.metric_map import CARD_LABELS, POD_LABELS, Plan, Query
from trainfleet_exporter.providers.huawei_modelarts.payloads import Labels, Sample
from trainfleet_exporter.providers.huawei_modelarts.translate import role_of
from trainfleet_exporter.providers.usage.columns import Column
from trainfleet_exporter.providers.usage.entities import Entities, Key
from trainfleet_exporter.providers.usage.newest import Batch, Newest, Scope
from trainfleet_exporter.providers.usage.quantities import convert_each
from trainfleet_exporter.providers.usage.sized import Makeup, SizedColumns
from trainfleet_exporter.providers.usage.table import Level

_LONGEST = 40
"""Characters of a number that is believed to be one."""
_pod_texts = attrgetter(*POD_LABELS)
_card_texts = attrgetter(*CARD_LABELS)
_CARD_KINDS = tuple(CARD_LABELS.values())
_SPARE = 64
"""How many pods of a job are remembered beyond twice those that it has."""
_PODS = 1000
"""How many pods a job is taken to have at most that does not say."""


class JobNames:
    """Which pods and cards of a running job samples are of; kept while the job consists of the same."""

    def __init__(self, job: Job, tasks: Sequence[str]) -> None:
        kinds = {item.kind for item in job.accelerators}
        self.job_id = job.job_id
        self.makeup = Makeup(
            pods=len(tasks) or (int(job.nodes) if job.nodes else None),
            cards=math.fsum(item.count for item in job.accelerators) if job.accelerators else None,
            uniform=len({role_of(task) for task in tasks}) == 1,
        )
        self._tasks = frozenset(tasks)
        self._kind = kinds.pop() if len(kinds) == 1 else None
        self._made_of = (job.nodes, job.accelerators, tasks)
        self._pods: dict[tuple[str, ...], str] = {}
        """The pods by the texts of their labels."""

    @classmethod
    def of(cls, job: Job, tasks: Sequence[str], known: JobNames | None = None) -> JobNames:
        """By the job's latest row; `known` by an earlier one."""
        if known is None or known._made_of != (job.nodes, job.accelerators, tasks):
            return cls(job, tasks)
        if len(known._pods) > 2 * (_PODS if known.makeup.pods is None else known.makeup.pods) + _SPARE:
            known._pods = {}  # pods are replaced under other names, again and again
        return known

    def key(self, labels: Labels, query: Query, *, of_cards: bool) -> Key:
        """What a sample is of: a card, which may have no name (an empty text); or, unless it is `of_cards`, a pod.

        So may a pod, where the pods of a job cannot be distinguished.
        """
        texts = _pod_texts(labels)
        pod_id = self._pods.get(texts)
        if pod_id is None:
            pod_id = self._pods[texts] = self._pod_id(texts)
        for card, kind_of_label in zip(_card_texts(labels), _CARD_KINDS, strict=True):
            if card:
                return self.job_id, pod_id, card, query.accelerator or kind_of_label or self._kind or _kind_in(query)
        if not of_cards:
            return self.job_id, pod_id
        return self.job_id, pod_id, "", query.accelerator or self._kind or _kind_in(query)

    def _pod_id(self, texts: tuple[str, ...]) -> str:
        """The name of a task, where a label is one or ends with one; else the first label's text."""
        given = [text for text in texts if text]
        for text in given:
            words = text.split("-")
            for start in range(len(words)):
                task = "-".join(words[start:])
                if task in self._tasks:
                    return task
        if not given and len(self._tasks) == 1:
            return next(iter(self._tasks))
        return given[0] if given else ""


@dataclass(slots=True)
class _Group:
    """The answers to some queries. The table's own are of different kinds of cards; together they are a job's."""

    newest: Newest
    levels: Collection[Level]
    trusted: bool
    by_cards: bool = False


class Collected:
    """The answers to one plan's queries. `jobs` are those that run, `listed` all that the provider shows or showed."""

    def __init__(
        self, plan: Plan, jobs: Mapping[str, JobNames], listed: Collection[str], entities: Entities | None = None
    ) -> None:
        self.dropped: Counter[str] = Counter()
        """Samples that are not shown, by reason."""
        self.job_ids: frozenset[str] = frozenset()
        """The jobs that have a value. Empty until `settle` has ended."""
        self.columns: Sequence[Column] = ()
        """Likewise."""
        self._plan = plan
        self._jobs = jobs
        self._listed = listed
        self._entities = Entities() if entities is None else entities
        self._groups: dict[str, _Group] = {}

    def add(self, query: Query, samples: Iterable[Sample | None]) -> None:
        """Take over samples of a query's answer. None stands for a row that is no object."""
        of_cards, name = self._plan.reading.of_cards, query.metric if query.promql else ""
        group = self._groups.get(name)
        if group is None:
            parts = self._entities.of("pod")  # a part is a card, or a pod, or a job as one pod
            newest = Newest(parts, Scope(self._jobs), now=0.0, undated=True)
            group = self._groups[name] = _Group(newest, query.levels, trusted=bool(query.promql))
        group.by_cards = group.by_cards or query.accelerator is not None
        keys: list[Key] = []
        raws: list[float] = []
        for sample in samples:
            labels = sample.metric if sample is not None else None
            if sample is None or labels is None:
                self.dropped["malformed"] += 1
                continue
            job = self._jobs.get(labels.service_id)
            if job is None:
                self._pass_over(labels.service_id)
                continue
            raw = self._number(sample.value.value if sample.value is not None else None)
            if raw is not None:
                keys.append(job.key(labels, query, of_cards=of_cards))
                raws.append(raw)
        values = convert_each(raws, query.factor, self._plan.reading.measure.quantity)
        if None in values:
            self.dropped["out_of_range"] += values.count(None)
            keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        group.newest.take(Batch(keys, [values], 0.0))

    async def settle(self) -> None:
        """Make columns of what was added, once all of it was."""
        found = SizedColumns(self._plan.reading.measure, self._entities, by_kind=self._plan.reading.of_cards)
        makeups = {job_id: job.makeup for job_id, job in self._jobs.items()}
        for group in self._groups.values():
            self.job_ids |= await found.add(
                group.newest, makeups, group.levels, by_cards=group.by_cards, trusted=group.trusted
            )
            self.dropped.update(group.newest.dropped)
        self.columns = found.columns()
        self._groups.clear()

    def _pass_over(self, job_id: str) -> None:
        if not job_id:
            self.dropped["malformed"] += 1
        elif job_id not in self._listed:
            self.dropped["unlisted"] += 1
        # Else it does not run any more: its last sample is from its end.

    def _number(self, given: str | float | None) -> float | None:
        """A sample's value; None, and counted, where it is none."""
        try:
            number = float(given) if isinstance(given, float) or (given and len(given) <= _LONGEST) else None
        except ValueError:
            number = None
        if number is None:
            self.dropped["malformed"] += 1
        elif math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
            self.dropped["no_data"] += 1
            return None
        return number


def _kind_in(query: Query) -> Accelerator:
    return "npu" if "npu" in query.promql.lower() else "gpu"
