"""The things that CloudMonitor's readings are of, each with a place of its own in the column of every metric.

The points of all metrics are of the same pods, told anew in every answer. Here each of them is one object with a
number, so that what a metric says of it is one number more in an array. Who is no more goes between two polls: while
columns are being filled, places stay what they are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

from trainfleet_exporter.model import Subject
from trainfleet_exporter.providers.alibaba_pai.catalogue import Level
from trainfleet_exporter.slices import give_way

Key: TypeAlias = tuple[str, ...]
"""Whose a reading is (a job or pool), then the pod, then the card, as far as the level goes."""
KEY_LENGTHS: dict[Level, int] = {"job": 1, "pool": 1, "pod": 2, "device": 3}
_WHOLES: dict[Level, tuple[Level, ...]] = {"job": (), "pool": (), "pod": ("job",), "device": ("job", "pod")}
_SLICE = 1_000
"""Subjects that are gone through before others have a turn: about half a millisecond."""
_SPARE = 64
"""How many things are remembered beyond twice those that a metric tells of."""


@dataclass(frozen=True, slots=True, eq=False)
class Lineup:
    """The subjects of a column, in its order, and whose they are."""

    subjects: tuple[Subject, ...]
    owners: frozenset[str]


class Roster:
    """The things of one level."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.places: dict[Key, int] = {}
        self.keys: list[Key] = []
        """By place."""
        self.wholes: dict[Level, dict[Key, range | list[int]]] = {whole: {} for whole in _WHOLES[level]}
        """For each coarser level the places that are of one thing of it, lowest first: mostly neighbours."""
        self._subjects: list[Subject] = []
        self._lineup: Lineup | None = None
        self._told = 0
        """The most things that any metric told of since `trim`."""

    def __len__(self) -> int:
        return len(self._subjects)

    def place(self, key: Key) -> int:
        """The place of a thing; the next free one if it has none yet."""
        place = self.places.get(key)
        if place is None:
            siblings = self.wholes.get("job", {}).get(key[:1])
            if siblings:  # each answer brings texts of its own: those of one job shall share its id
                key = (self._subjects[siblings[0]].keys[0], *key[1:])
            # Cards of ModelArts may be NPUs, those of PAI are GPUs.
            place = self._add(key, Subject((*key, "gpu") if self.level == "device" else key))
        return place

    def lineup(self) -> Lineup:
        """All of it by place. It stays as it is when others come."""
        if self._lineup is None or len(self._lineup.subjects) != len(self._subjects):
            owners = self.wholes.get("job", self.places)
            self._lineup = Lineup(tuple(self._subjects), frozenset([key[0] for key in owners]))
        return self._lineup

    async def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Forget what is of jobs (or pools) that are no more; the others may get new places."""
        if all(map(alive, map(itemgetter(0), self.wholes.get("job", self.places)))):
            return
        kept = Roster(self.level)
        for number, subject in enumerate(self._subjects, start=1):
            if alive(subject.keys[0]):
                kept._add(subject.keys[: KEY_LENGTHS[self.level]], subject)
            if not number % _SLICE:
                await give_way()
        self._become(kept)

    def told(self, things: int) -> None:
        """A metric told of so many things."""
        self._told = max(things, self._told)

    def trim(self) -> None:
        """Forget all, once most of it is told of no more: jobs run on for months while their pods are replaced under
        other names, again and again."""
        if self._told and len(self) > 2 * self._told + _SPARE:
            self._become(Roster(self.level))
        self._told = 0

    def _become(self, other: Roster) -> None:
        self.places, self.keys, self.wholes = other.places, other.keys, other.wholes
        self._subjects, self._lineup = other._subjects, None

    def _add(self, key: Key, subject: Subject) -> int:
        place = self.places[key] = len(self._subjects)
        self.keys.append(key)
        self._subjects.append(subject)
        for level, found in self.wholes.items():
            whole = key[: KEY_LENGTHS[level]]
            before = found.get(whole)
            if isinstance(before, list):
                before.append(place)
            elif before is None or before.stop == place:
                found[whole] = range(place if before is None else before.start, place + 1)
            else:
                found[whole] = [*before, place]
        return place


class Rosters:
    """The rosters of one namespace, and columns of the last metric, which those of the next are mostly equal to."""

    def __init__(self) -> None:
        self._of: dict[Level, Roster] = {level: Roster(level) for level in KEY_LENGTHS}
        self._lineups: dict[Level, Lineup] = {}
        self._times: dict[Level, array[float]] = {}

    def of(self, level: Level) -> Roster:
        """The roster of one level."""
        return self._of[level]

    async def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Forget what is of jobs (or pools) that are no more, and `trim`. Not while a metric is being read."""
        for level, roster in self._of.items():
            before = len(roster)
            await roster.keep_if(alive)
            if len(roster) != before:
                self._forget(level)
            await give_way()
        self.trim()

    def trim(self) -> None:
        """Forget what is mostly told of no more (Roster.trim). Not while a metric is being read."""
        for level, roster in self._of.items():
            before = len(roster)
            roster.trim()
            if len(roster) != before:
                self._forget(level)

    def known_lineup(self, level: Level, subjects: tuple[Subject, ...]) -> Lineup | None:
        """The line-up of these subjects, if that of the last metric is the same."""
        known = self._lineups.get(level)
        return known if known is not None and known.subjects == subjects else None

    def shared_lineup(self, level: Level, lineup: Lineup) -> Lineup:
        """This line-up: that of the last metric, if it is the same."""
        known = self.known_lineup(level, lineup.subjects)
        if known is None:
            known = self._lineups[level] = lineup
        return known

    def shared_times(self, level: Level, times: array[float]) -> array[float]:
        """These times: those of the last metric, if they are the same."""
        known = self._times.get(level)
        if known is None or memoryview(known) != memoryview(times):
            known = self._times[level] = times
        return known

    def _forget(self, level: Level) -> None:
        self._lineups.pop(level, None)
        self._times.pop(level, None)
