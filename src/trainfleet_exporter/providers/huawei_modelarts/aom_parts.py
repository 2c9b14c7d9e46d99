"""What a running job consists of, and which of its pods and cards a sample of AOM's is of.

What names pods and cards in samples is unproven (metric_map); the names of a job's tasks are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from trainfleet_exporter.model import Accelerator, Accelerators, Job, Subject
from trainfleet_exporter.providers.huawei_modelarts.metric_map import CARD_LABELS, POD_LABELS, Query
from trainfleet_exporter.providers.huawei_modelarts.payloads import Labels
from trainfleet_exporter.providers.huawei_modelarts.translate import role_of
from trainfleet_exporter.providers.subjects import Subjects

_pod_texts = attrgetter(*POD_LABELS)
_card_texts = attrgetter(*CARD_LABELS)
_CARD_KINDS = tuple(CARD_LABELS.values())
_SPARE = 64
"""How many things of a job are remembered beyond twice those that it has: of pods that were replaced some time ago."""
_PODS = 1000
"""How many pods a job is taken to have at most that does not tell."""
_CARDS = 16
"""How many cards each of its pods."""

_MadeOf = tuple[str, float | None, tuple[Accelerators, ...], Sequence[str]]


@dataclass(slots=True, eq=False)
class JobParts:
    """What a running job consists of, so that what is missing of it is noticed; kept while that is the same."""

    job_id: str
    tasks: frozenset[str]
    pods: int | None
    """How many pods it has; None where that is not known."""
    cards: float | None
    """How many accelerators all of its pods have together; None where that is not known."""
    kind: Accelerator | None
    """Of its accelerators; None where they are of several kinds, or unknown."""
    uniform: bool
    """Whether every pod has as many cards as any other."""
    subjects: Subjects = field(default_factory=Subjects)
    """The job, its pods and its cards: each class has names of another length."""
    _pod_names: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The pods by the texts of their labels."""
    _made_of: _MadeOf | None = None

    @classmethod
    def of(cls, job: Job, tasks: Sequence[str], known: JobParts | None = None) -> JobParts:
        """By the job's latest row; `known` by an earlier one."""
        made_of = (job.job_id, job.nodes, job.accelerators, tasks)
        if known is not None and known._made_of == made_of:
            known._trim()
            return known
        kinds = {item.kind for item in job.accelerators}
        found = cls(
            job_id=job.job_id,
            tasks=frozenset(tasks),
            pods=len(tasks) or (int(job.nodes) if job.nodes else None),
            cards=math.fsum(item.count for item in job.accelerators) if job.accelerators else None,
            kind=kinds.pop() if len(kinds) == 1 else None,
            uniform=len({role_of(task) for task in tasks}) == 1,
            subjects=known.subjects if known is not None else Subjects(),
            _made_of=made_of,
        )
        found._trim()
        return found

    @property
    def job(self) -> Subject:
        """The job."""
        return self.subjects.get((self.job_id,))

    def pod(self, pod_id: str) -> Subject:
        """One of its pods."""
        return self.subjects.get((self.job_id, pod_id))

    def place(self, labels: Labels, query: Query, *, of_cards: bool) -> Subject:
        """What a sample is of: a card, which may have no name (an empty text); or, unless it is `of_cards`, a pod.

        So may a pod, where nothing tells the pods of a job apart.
        """
        texts = _pod_texts(labels)
        pod_id = self._pod_names.get(texts)
        if pod_id is None:
            pod_id = self._pod_names[texts] = self._pod_id(texts)
        for card, kind_of_label in zip(_card_texts(labels), _CARD_KINDS, strict=True):
            if card:
                kind = query.accelerator or kind_of_label or self.kind or _kind_in(query)
                return self.subjects.get((self.job_id, pod_id, card, kind))
        if not of_cards:
            return self.subjects.get((self.job_id, pod_id))
        return self.subjects.get((self.job_id, pod_id, "", query.accelerator or self.kind or _kind_in(query)))

    def _pod_id(self, texts: tuple[str, ...]) -> str:
        """The name of a task, where a label is one or ends with one; else the first label's text."""
        given = [text for text in texts if text]
        for text in given:
            words = text.split("-")
            for start in range(len(words)):
                task = "-".join(words[start:])
                if task in self.tasks:
                    return task
        if not given and len(self.tasks) == 1:
            return next(iter(self.tasks))
        return given[0] if given else ""

    def _trim(self) -> None:
        """Forget pods that were replaced under other names, again and again."""
        pods = _PODS if self.pods is None else self.pods
        cards = _CARDS * pods if self.cards is None else self.cards
        if len(self._pod_names) > 2 * pods + _SPARE or len(self.subjects) > 4 * (pods + cards) + _SPARE:
            self._pod_names = {}
            self.subjects = Subjects()


def _kind_in(query: Query) -> Accelerator:
    return "npu" if "npu" in query.promql.lower() else "gpu"
