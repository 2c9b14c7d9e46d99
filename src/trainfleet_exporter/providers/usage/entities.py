"""An index of what bulk readings are of: jobs, pods, cards and pools, each one object for as long as it is there.

The readings of all metrics are of the same pods, in every answer again. The index gives each of them its Subject, so
that the labels that name it are written once, and columns of different metrics share all but their values.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias, TypeVar

from trainfleet_exporter.families.usage import Level
from trainfleet_exporter.model import Subject

T = TypeVar("T")
Key: TypeAlias = tuple[str, ...]
"""The owner of a reading (a job or pool), then the pod, then the card and its kind, down to its level."""
KEY_LENGTHS: Mapping[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 4}
_SPARE = 64
"""How many entities are remembered beyond twice those that a metric reports."""


class Groups:
    """The wholes of some parts, each with its parts."""

    def __init__(self, subjects: Sequence[Subject], entities: Entities, level: Level) -> None:
        length = KEY_LENGTHS[level]
        places: dict[Key, list[int]] = {}
        for place, subject in enumerate(subjects):
            places.setdefault(subject.keys[:length], []).append(place)
        self.wholes = entities.entity_list(level, tuple(map(entities.of(level).subject, places)))
        order = [place for members in places.values() for place in members]
        self._order = None if order == list(range(len(order))) else order
        """The places of the parts, whole by whole; None if they are in that order as they are."""
        ends = array("q")
        for members in places.values():
            ends.append((ends[-1] if ends else 0) + len(members))
        self._ends = ends

    def split(self, values: Sequence[T]) -> list[Sequence[T]]:
        """The values of parts, whole by whole."""
        if self._order is not None:
            values = [values[place] for place in self._order]
        start = 0
        found: list[Sequence[T]] = []
        for end in self._ends:
            found.append(values[start:end])
            start = end
        return found


class EntityList:
    """The subjects of a column, in its order, and the jobs (or pools) that own them."""

    __slots__ = ("_groups", "keys", "owners", "subjects")

    def __init__(self, subjects: tuple[Subject, ...]) -> None:
        self.subjects = subjects
        self.keys = [subject.keys for subject in subjects]
        self.owners = frozenset([key[0] for key in self.keys])
        self._groups: dict[Level, Groups] = {}

    def groups(self, entities: Entities, level: Level) -> Groups:
        """The wholes of a coarser level that these are parts of. They are worked out once."""
        found = self._groups.get(level)
        if found is None:
            found = self._groups[level] = Groups(self.subjects, entities, level)
        return found


class EntityIndex:
    """The entities of one level, in the order in which they were first reported."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.subjects: dict[Key, Subject] = {}
        self._owned: dict[str, list[Key]] = {}
        """For each job (or pool) the keys of its entities."""
        self._served: Collection[str] | None = None
        self._live: dict[Key, Subject] = {}
        """The entities of those that are served; all of them, as the same object, if that is so."""
        self._entity_list: EntityList | None = None
        self._reported = 0
        """The most entities that any metric reported since `trim`."""

    def __len__(self) -> int:
        return len(self.subjects)

    def subject(self, key: Key) -> Subject:
        """The subject of a key; a new one the first time."""
        return self.subjects.get(key) or self._add(key)

    def live(self, served: Collection[str]) -> Mapping[Key, Subject]:
        """The entities of these jobs (or pools), those included that are added later."""
        if self._served is not served:
            self._served = served
            owned = self._owned
            if all(map(served.__contains__, owned)):
                self._live = self.subjects
            else:
                self._live = {
                    key: self.subjects[key] for owner, keys in owned.items() if owner in served for key in keys
                }
        return self._live

    def entity_list(self) -> EntityList:
        """All subjects. It stays as it is when others are added."""
        if self._entity_list is None:
            self._entity_list = EntityList(tuple(self.subjects.values()))
        return self._entity_list

    def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Forget what is of jobs (or pools) that are gone."""
        self._served = None
        for owner in [owner for owner in self._owned if not alive(owner)]:
            self._entity_list = None
            for key in self._owned.pop(owner):
                del self.subjects[key]

    def reported(self, count: int) -> None:
        """Note how many entities a metric reported."""
        self._reported = max(count, self._reported)

    def trim(self) -> None:
        """Forget all once most of it is no longer reported: jobs run on for months while their pods are replaced."""
        if self._reported and len(self) > 2 * self._reported + _SPARE:
            self.subjects, self._owned, self._entity_list, self._served = {}, {}, None, None
        self._reported = 0

    def _add(self, key: Key) -> Subject:
        siblings = self._owned.setdefault(key[0], [])
        if siblings:  # each response has new texts: the pods of one job share its id
            key = (siblings[0][0], *key[1:])
        siblings.append(key)
        subject = self.subjects[key] = Subject(key)
        if self._served is not None and key[0] in self._served:
            self._live[key] = subject
        self._entity_list = None
        return subject


class Entities:
    """The entities of one source, and columns of the last metric, which those of the next are mostly equal to."""

    def __init__(self) -> None:
        self._of: dict[Level, EntityIndex] = {level: EntityIndex(level) for level in KEY_LENGTHS}
        self._entity_lists: dict[Level, EntityList] = {}
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

    def entity_list(self, level: Level, subjects: tuple[Subject, ...]) -> EntityList:
        """The entity list of these subjects: the same object as that of the last metric, if that is equal."""
        known = self._entity_lists.get(level)
        if known is None or known.subjects != subjects:
            known = self._entity_lists[level] = EntityList(subjects)
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
                self._entity_lists.pop(level, None)
                self._times.pop(level, None)
