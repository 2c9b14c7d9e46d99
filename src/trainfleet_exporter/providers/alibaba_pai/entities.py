"""An index of what CloudMonitor's readings are of: jobs, pods, cards and pools, each one object for as long as it is
there.

The points of all metrics are of the same pods, in every answer again. The index gives each of them its Subject, so that
the labels that name it are written once, and columns of different metrics share all but their values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from trainfleet_exporter.model import Subject
from trainfleet_exporter.providers.alibaba_pai.catalogue import Level

Key: TypeAlias = tuple[str, ...]
"""Whose a reading is (a job or pool), then the pod, then the card, as far as the level goes."""
KEY_LENGTHS: dict[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 3}
Rest: TypeAlias = str | Key | None
"""A key without the owner: a pod's name, a card's pod and name, None of a job or pool."""
_SPARE = 64
"""How many entities are remembered beyond twice those that a metric reports."""


class Lineup:
    """The subjects of a column, in its order, and the jobs (or pools) that own them."""

    def __init__(self, subjects: tuple[Subject, ...]) -> None:
        self.subjects = subjects
        self.owners = frozenset([subject.keys[0] for subject in subjects])
        self._wholes: dict[Level, Mapping[Key, Sequence[int]]] = {}

    def wholes(self, level: Level) -> Mapping[Key, Sequence[int]]:
        """For each entity of a coarser level, the places of what it is made of."""
        if level not in self._wholes:
            length = KEY_LENGTHS[level]
            found: dict[Key, list[int]] = {}
            for place, subject in enumerate(self.subjects):
                found.setdefault(subject.keys[:length], []).append(place)
            self._wholes[level] = found
        return self._wholes[level]


def rest(key: Key) -> Rest:
    """The rest of a key."""
    return key[1:] if len(key) > 2 else key[1] if len(key) == 2 else None


class EntityIndex:
    """The entities of one level, in the order in which they were first reported."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.subjects: dict[Key, Subject] = {}
        self.owned: dict[str, dict[Rest, Subject]] = {}
        """For each job (or pool) its entities, by the rest of their keys."""
        self._lineup: Lineup | None = None
        self._reported = 0
        """The most entities that any metric reported since `trim`."""

    def __len__(self) -> int:
        return len(self.subjects)

    def subject(self, key: Key) -> Subject:
        """The subject of a key; a new one the first time."""
        return self.subjects.get(key) or self._add(key)

    def lineup(self) -> Lineup:
        """All subjects. It stays as it is when others are added."""
        if self._lineup is None:
            self._lineup = Lineup(tuple(self.subjects.values()))
        return self._lineup

    def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Forget what is of jobs (or pools) that are gone."""
        for owner in [owner for owner in self.owned if not alive(owner)]:
            self._lineup = None
            for subject in self.owned.pop(owner).values():
                del self.subjects[subject.keys[: KEY_LENGTHS[self.level]]]

    def reported(self, count: int) -> None:
        """Note how many entities a metric reported."""
        self._reported = max(count, self._reported)

    def trim(self) -> None:
        """Forget all once most of it is no longer reported: jobs run on for months while their pods are replaced."""
        if self._reported and len(self) > 2 * self._reported + _SPARE:
            self.subjects, self.owned, self._lineup = {}, {}, None
        self._reported = 0

    def _add(self, key: Key) -> Subject:
        siblings = self.owned.setdefault(key[0], {})
        for sibling in siblings.values():  # each answer brings texts of its own: the pods of one job share its id
            key = (sibling.keys[0], *key[1:])
            break
        # Cards of ModelArts may be NPUs, those of PAI are GPUs.
        subject = self.subjects[key] = Subject((*key, "gpu") if self.level == "device" else key)
        siblings[rest(key)] = subject
        self._lineup = None
        return subject


class Entities:
    """The entities of one namespace, and columns of the last metric, which those of the next are mostly equal to."""

    def __init__(self) -> None:
        self._of: dict[Level, EntityIndex] = {level: EntityIndex(level) for level in KEY_LENGTHS}
        self._lineups: dict[Level, Lineup] = {}
        self._times: dict[Level, array[float]] = {}

    def of(self, level: Level) -> EntityIndex:
        """The index of one level."""
        return self._of[level]

    def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Forget what is of jobs (or pools) that are gone, and `trim`. Not while a metric is being read."""
        self._forget(lambda index: index.keep_if(alive))
        self.trim()

    def trim(self) -> None:
        """Forget what is mostly no longer reported (EntityIndex.trim). Not while a metric is being read."""
        self._forget(EntityIndex.trim)

    def lineup(self, level: Level, subjects: tuple[Subject, ...]) -> Lineup:
        """The line-up of these subjects: the same object as that of the last metric, if that is equal."""
        known = self._lineups.get(level)
        if known is None or known.subjects != subjects:
            known = self._lineups[level] = Lineup(subjects)
        return known

    def times(self, level: Level, times: array[float]) -> array[float]:
        """These times: the same object as those of the last metric, if those are equal."""
        known = self._times.get(level)
        if known is None or known.tobytes() != times.tobytes():
            known = self._times[level] = times
        return known

    def _forget(self, forget: Callable[[EntityIndex], None]) -> None:
        for level, index in self._of.items():
            before = len(index)
            forget(index)
            if len(index) != before:
                self._lineups.pop(level, None)
                self._times.pop(level, None)
