"""The score of alerts on simulated weeks, by the author of the second generator, to whom the rules are a black box.

`python -m benchmarks detection` runs both generators in a real Prometheus. After its first score, the second one
changes only where its source was wrong. docs/evidence/detection-second.md has each change with its scores.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks import detection_second_samples as samples
from benchmarks import detection_second_world as worlds
from benchmarks.detection_rules import Firing
from benchmarks.detection_second_world import MINUTES, REALISTIC, Event, Job, World

_GRACE = 20  # minutes after an event in which an alert is still about it: readings are up to 15 minutes old
_LEAST = 60  # minutes of an event within the week; with fewer, it is too early to decide
MEANINGS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "TrainfleetJobHung": ((worlds.HANG,), ()),
    "TrainfleetJobMayHang": ((worlds.HANG,), ()),
    "TrainfleetPodStraggling": ((worlds.STRAGGLER,), (worlds.HANG,)),
    "TrainfleetJobSlowed": ((worlds.SLOW,), (worlds.STRAGGLER, worlds.HANG)),
    "TrainfleetJobIdle": ((worlds.IDLE,), (worlds.HANG,)),
    "TrainfleetJobQueuedTooLong": ((worlds.QUEUED, worlds.STUCK), ()),
    "TrainfleetJobFailed": ((worlds.FAILED,), ()),
    "TrainfleetJobRestartStorm": ((worlds.LOOP,), (worlds.PLATFORM,)),
    "TrainfleetJobPlatformFault": ((worlds.PLATFORM,), ()),
}
"""By alert: the kinds that it must find, and those of which it may speak. An alarm of any other alert is false: the
worlds have no problem that it is about."""
UNJUDGED = frozenset({"TrainfleetJobFailureRateHigh", "TrainfleetCollectorStale"})
"""Alerts about whole workspaces and about failing polls: they occur, and no event says so."""


class Alarm(NamedTuple):
    """One firing and its verdict: right, tolerated or false."""

    alert: str
    source: str
    job_id: str
    verdict: str
    kind: str  # of the event at that time; empty for none
    doing: str  # the kind of the job, and what it did in most of the half hour before


class Wanted(NamedTuple):
    """An event that an alert must find, its shape, and the minutes until it did; None if it did not."""

    alert: str
    source: str
    how: str
    delay: int | None
    heard: bool  # by any alert of the job


@dataclass(slots=True)
class Result:
    """What several weeks showed."""

    alarms: list[Alarm] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)
    held: float = 0.0
    """Weeks in which jobs held cards, added up."""
    events: Counter[str] = field(default_factory=Counter)
    """Wanted events by kind."""

    def add(self, week: Result) -> None:
        """Add the figures of another week."""
        self.alarms += week.alarms
        self.wanted += week.wanted
        self.held += week.held
        self.events += week.events

    def of(self, alert: str, sources: Collection[str]) -> tuple[list[Alarm], list[Wanted]]:
        """Return the alarms of an alert and the events that it must find, on some sources."""
        alarms = [one for one in self.alarms if one.alert == alert and one.source in sources]
        return alarms, [one for one in self.wanted if one.alert == alert and one.source in sources]

    def weekly(self, alert: str) -> tuple[float, float]:
        """Return the right and false alarms in a week for 100 jobs, with events at their real rates."""
        real = {kind: REALISTIC[kind] * self.held / 100 / count for kind, count in self.events.items()}
        counts = [(one.verdict, real.get(one.kind, 1)) for one in self.alarms if one.alert == alert]
        right, false = (sum(by for verdict, by in counts if verdict == each) for each in ("right", "false"))
        return right * 100 / self.held, false * 100 / self.held


def is_wanted(event: Event) -> bool:
    """Return whether an alert must find an event within the week."""
    if event.kind in (worlds.FAILED, worlds.PLATFORM):
        return event.wish == "yes" and 0 <= event.start < MINUTES - _LEAST
    return event.wish == "yes" and min(event.end, MINUTES) - max(event.start, 0) >= _LEAST


def _doing(job: Job, minute: int) -> str:
    spells = [spell.what for at in range(minute - 30, minute) if (spell := job.at(at)) is not None]
    return f"{job.kind}, {Counter(spells).most_common(1)[0][0] if spells else 'ended'}"


def score(world: World, found: Iterable[Firing]) -> Result:
    """Compare the fired alerts with the truth."""
    jobs = {job.job_id: job for job in world.jobs}
    result = Result(held=sum(job.held for job in world.jobs) / MINUTES)
    result.events.update(event.kind for event in world.events if is_wanted(event))
    first: dict[tuple[str, int], int] = {}
    heard: set[int] = set()
    for firing in found:
        start, end = ((at - samples.START) // 60 for at in (firing.start, firing.end))
        job = jobs.get(firing.labels.get("job_id", ""))
        kinds, others = MEANINGS.get(firing.name, ((), ()))
        events = [e for e in world.events if job and e.job_id == job.job_id]
        near = [event for event in events if event.start <= end and event.end + _GRACE >= start]
        heard.update(id(event) for event in near if event.end >= start)
        pod = firing.labels.get("pod_id")
        about = [e for e in near if job and e.kind in kinds and pod in (None, samples.pod_id(job, e.pod))]
        for event in about:
            key = firing.name, id(event)
            first[key] = min(first.get(key, start), start)
        during = next((event.kind for event in near if event.wish == "yes"), "")
        verdict = "false"
        if found_one := next((event for event in about if event.wish == "yes"), None):
            verdict, during = "right", found_one.kind
        elif about or firing.name in UNJUDGED or any(event.kind in others for event in near):
            verdict = "tolerated"
        doing = _doing(job, start) if job else f"no job: {firing.labels.get('collector', '')}"
        source, job_id = firing.labels.get("provider", "none"), job.job_id if job else ""
        result.alarms.append(Alarm(firing.name, source, job_id, verdict, during, doing))
    for alert, (kinds, _) in MEANINGS.items():
        for event in world.events:
            if event.kind in kinds and is_wanted(event):
                whose, at = jobs[event.job_id], first.get((alert, id(event)))
                delay = None if at is None else max(at - max(event.start, 0), 0)
                how = f"{whose.kind}, {event.how or event.kind}"
                result.wanted.append(Wanted(alert, whose.source.name, how, delay, id(event) in heard))
    return result


def _listed(names: Iterable[str]) -> str:
    return "; ".join(f"{name}: {count}" for name, count in Counter(names).most_common(15)) or "none"


def _cells(alarms: Sequence[Alarm], wanted: Sequence[Wanted]) -> str:
    verdicts = Counter(one.verdict for one in alarms)
    judged = verdicts["right"] + verdicts["false"]
    delays = [one.delay for one in wanted if one.delay is not None]
    precision = f"{verdicts['right'] / judged:.2f}" if judged else "–"
    recall = f"{len(delays) / len(wanted):.2f}" if wanted else "–"
    delay = f"{statistics.median(delays):.0f}" if delays else "–"
    found = f"{len(delays)} of {len(wanted)} | {sum(one.heard for one in wanted)}"
    counts = " | ".join(str(verdicts[verdict]) for verdict in ("right", "tolerated", "false"))
    return f"{precision} | {recall} | {found} | {delay} | {counts} | {len({one.job_id for one in alarms})}"


def report(result: Result) -> Iterator[str]:
    """Return the lines of the report, as Markdown. Delays are in minutes."""
    yield f"{result.held:.1f} weeks of jobs that hold cards. Wanted events: {_listed(result.events.elements())}.\n"
    head = "precision | recall | found | by any | delay | right | tolerated | false | jobs"
    yield f"| alert | {head} | right a week for 100 jobs | false a week for 100 jobs |\n|{'---|' * 12}"
    names, sums = [*MEANINGS, *sorted({one.alert for one in result.alarms} - set(MEANINGS))], [0.0, 0.0]
    everywhere = {one.source for one in result.alarms} | {source.name for source in worlds.SOURCES}
    for name in names:
        right, false = result.weekly(name)
        sums = [sums[0] + right, sums[1] + false]
        yield f"| {name} | {_cells(*result.of(name, everywhere))} | {right:.1f} | {false:.1f} |"
    yield f"| all |{' |' * 9} {sums[0]:.1f} | {sums[1]:.1f} |\n"
    yield f"| alert | source | {head} |\n|{'---|' * 11}"
    for name in MEANINGS:
        for source in worlds.SOURCES:
            yield f"| {name} | {source.name} | {_cells(*result.of(name, (source.name,)))} |"
    yield ""
    for name in names:
        alarms, wanted = result.of(name, everywhere)
        wrong = (f"{a.doing} ({a.kind})" if a.kind else a.doing for a in alarms if a.verdict == "false")
        missed = (f"{one.how} ({one.source})" for one in wanted if one.delay is None)
        yield f"- {name}: false: {_listed(wrong)}. Missed: {_listed(missed)}."
