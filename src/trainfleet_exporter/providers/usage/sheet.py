"""The readings of one job or pool: few things, many measures, from a few answers."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from trainfleet_exporter.families.usage import MEASURES, SHOWN_AS, Family
from trainfleet_exporter.model import Accelerator, Readings, Subject, UsageSource
from trainfleet_exporter.providers.usage.columns import SILENCE
from trainfleet_exporter.providers.usage.entities import KEY_LENGTHS, Key
from trainfleet_exporter.providers.usage.newest import FUTURE
from trainfleet_exporter.providers.usage.quantities import convert, total

_TOTALS: Mapping[str, Family] = {
    pod.path: job
    for measure in MEASURES.values()
    if (pod := measure.at("pod")) is not None and (job := measure.at("job")) is not None
}
"""The family of jobs that is made of a field of pods."""
_KINDS: tuple[Accelerator, ...] = ("gpu", "npu")
_Cells = dict[Key, tuple[float, float]]


class Sheet:
    """The newest readings of one job or pool. `dropped` counts by reason what is not shown."""

    def __init__(self, owner: str, *, now: float = math.inf, max_age: float = math.inf) -> None:
        """`now` is a Unix time, `max_age` is in seconds."""
        self.dropped: Counter[str] = Counter()
        self._owner = owner
        self._since = now - max_age
        self._until = now + FUTURE
        self._cells: dict[tuple[Family, Accelerator], _Cells] = {}
        self._spoiled: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._cells)

    def put(
        self,
        family: Family,
        rest: Key,
        raw: float,
        factor: float,
        *,
        time: float = math.nan,
        kind: Accelerator = "gpu",
    ) -> bool:
        """Take over a reading of a family: of the job or pool itself, or of the `rest` of a key; whether it is usable.

        `time` is in Unix seconds, not a number where the source does not date its readings. The first one of a thing
        counts.
        """
        value = convert(raw, factor, family.quantity)
        key = (self._owner, *rest)
        # A job has one value for each field, for cards of all kinds.
        kinds = _KINDS if len(key) == KEY_LENGTHS["pod"] else (kind,)
        if any(key in self._cells.get((family, each), ()) for each in kinds):
            self.dropped["duplicate"] += 1
        elif time < self._since:
            self.dropped["stale"] += 1
        elif value is None:
            self.dropped["out_of_range"] += 1
        else:
            self._cells.setdefault((family, kind), {})[key] = value, time
            return True
        return False

    def spoil(self, family: Family | None = None) -> None:
        """Some reading of a family (None: of all of them) could not be used: what it belongs to has no sum."""
        self._spoiled |= set(_TOTALS) if family is None else {family.path}

    def oldest(self, since: float = -math.inf) -> float:
        """The Unix time of the oldest reading from `since` on; infinite if there is none that is dated."""
        return min((time for _, time in self._values() if time >= since), default=math.inf)

    def readings(self, since: float = -math.inf) -> list[Readings]:
        """A column for each family, of what is from `since` on (Unix time) or undated."""
        subjects: dict[Key, Subject] = {}
        found = []
        for (family, kind), cells in self._cells.items():
            kept = {key: value for key, (value, time) in cells.items() if not time < since}
            if kept:
                named = [subjects.get(key) or subjects.setdefault(key, Subject(key)) for key in kept]
                values = array("d", kept.values())
                found.append(Readings(SHOWN_AS[family.level], family.path, named, values, kind))
        return found

    def of_job(self, source: str, since: float = -math.inf) -> list[Readings | UsageSource]:
        """Return the same with the values of the job as a whole and its source; nothing if there is no reading.

        If a pod has no new readings while others have, it is probably gone. It shows its last readings, and no longer
        counts. Except for ratios, the job has the sum, and only if every counted pod has a value.
        """
        pods: dict[Key, float] = {}
        for (family, _), cells in self._cells.items():
            for key, (_, time) in cells.items() if family.level == "pod" else ():
                if not time < since:
                    pods[key] = time if math.isnan(time) else max(time, pods.get(key, time))
        if not pods:
            return []
        newest = max(pods.values())
        present = [key for key, time in pods.items() if not newest - time > SILENCE]
        shown = UsageSource(self._owner, source, newest if math.isfinite(newest) else None)
        return [*self._totals(present, since), shown, *self.readings(since)]

    def _totals(self, pods: Sequence[Key], since: float) -> Iterator[Readings]:
        of = [Subject((self._owner,))]
        by_path: dict[str, tuple[Accelerator, _Cells]] = {}
        for (family, kind), cells in self._cells.items():
            if family.path in _TOTALS and family.level == "pod":
                known, before = by_path.get(family.path, (kind, {}))
                by_path[family.path] = known, before | cells
        for path, (kind, cells) in by_path.items():
            family = _TOTALS[path]
            fresh = {key: value for key, (value, time) in cells.items() if not time < since}
            if not family.is_ratio and path in self._spoiled:
                continue
            value = total([fresh.get(key) for key in pods], is_ratio=family.is_ratio)
            if value is not None:
                yield Readings(SHOWN_AS["job"], path, of, array("d", [value]), kind)

    def _values(self) -> Iterator[tuple[float, float]]:
        return chain.from_iterable(cells.values() for cells in self._cells.values())
