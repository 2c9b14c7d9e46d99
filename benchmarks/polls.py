"""CPU time of a poll, from the first call until the page is ready: ours and an older checkout's."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import rig
from benchmarks.report import Section, Table, median_and_range, number
from benchmarks.rig import DrivenExporter

_SIZES, _SHORT_SIZES = (1_000, 10_000), (50, 100)
_PODS = 8
_ROUNDS = 3
_REPEATED = 3
"""Polls of a small fleet in a turn. A long poll averages fast and slow moments of the machine, a short one does not."""
_METHOD = (
    f"Jobs have {_PODS} pods each and 12 readings for each pod. Medians of {_ROUNDS} rounds (least to most).",
    (
        "The time covers all threads of the exporter and all collectors but `pods`, which calls once for each job. The "
        "page is ready at its end. The exporter has one core, the cloud the other."
    ),
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of poll, by the changes before it (benchmarks.cloud)."""

    title: str
    jobs: float = 0.0
    usage: bool = False


_KINDS = (
    _Kind("all jobs and readings", jobs=1.0, usage=True),
    _Kind("all readings", usage=True),
    _Kind("only durations"),
)
_Costs = dict[tuple[_Kind, int], list[list[float]]]
"""By kind and size, the CPU seconds of each round: of this checkout, and of the older one if there is one."""


def run(short: bool, old: Path | None) -> Section:
    """Measure all kinds of polls."""
    sizes = _SHORT_SIZES if short else _SIZES
    costs: _Costs = {each: [] for each in itertools.product(_KINDS, sizes)}
    with ExitStack() as stack:
        # All sizes at the same time, so that a slower machine affects all of them.
        groups = {
            size: stack.enter_context(rig.exporters(size, _PODS, [rig.ROOT, *([old] if old else [])])) for size in sizes
        }
        for group in groups.values():
            _poll(group, _KINDS[0], first=0)
        for turn in range(_ROUNDS):
            rig.progress(f"round {turn + 1} of {_ROUNDS}")
            for (kind, size), found in costs.items():
                repeated = min(_REPEATED, max(sizes) // size)
                polls = [_poll(groups[size], kind, first=turn + number) for number in range(repeated)]
                found.append([statistics.fmean(each) for each in zip(*polls, strict=True)])
    return _section(costs)


def _poll(group: Sequence[DrivenExporter], kind: _Kind, *, first: int) -> list[float]:
    """Change the fleet once, then let each exporter poll it; return the CPU seconds of each."""
    group[0].change(jobs=kind.jobs, usage=kind.usage, still=True)
    found = [0.0] * len(group)
    for turn in range(len(group)):
        place = (first + turn) % len(group)
        group[place].await_second()
        found[place] = group[place].command("sweep")
    return found


def _section(costs: _Costs) -> Section:
    is_paired = any(len(each) > 1 for turns in costs.values() for each in turns)
    columns = ("what changed", "jobs", "now", *(("before", "now / before") if is_paired else ()))
    section = Section("CPU time of polls", _METHOD, {"CPU seconds of a poll": (table := Table(columns))})
    for (kind, size), turns in costs.items():
        now, *before = (number(statistics.median(seconds)) for seconds in zip(*turns, strict=True))
        ratio = [median_and_range([now / before for now, before in turns])] if before else []
        table.rows.append((kind.title, f"{size:,}", now, *before, *ratio))
    return section
