"""`python -m benchmarks detection`: how well the shipped alerts detect problems in simulated weeks.

It writes docs/detection.md. Thresholds were chosen on the seeds of `--tuning`. The report uses other seeds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.generator import rules

from benchmarks import detection_samples, detection_world
from benchmarks.detection_page import page
from benchmarks.detection_rules import Firing, firings
from benchmarks.detection_world import JOBS, MINUTES, Episode, Job, Week

_DOCUMENT = Path(__file__).parent.parent / "docs" / "detection.md"
_TUNING, _REPORT = 1, 1001
"""The first seed of each set."""
_BRIDGED = 12
"""Minutes after an episode in which an alert about it may still fire: gaps that alerts bridge, and a reading's age."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The episodes that an alert must find."""

    right: frozenset[str]
    """Kinds of episodes in which the alert is right."""
    wanted: Callable[[Episode], bool]
    """Returns whether the alert must find an episode."""
    claim: str
    """The same as text."""
    lasts: int = _BRIDGED
    """Minutes after the end of an episode in which it may fire."""


def _expected(
    kinds: str, claim: str, *, also: str = "", least: int = 0, speed: float = 1.0, lasts: int = _BRIDGED
) -> Expected:
    wanted = frozenset(kinds.split(", "))

    def is_wanted(episode: Episode) -> bool:
        return episode.kind in wanted and episode.minutes >= least and (least == 0 or episode.strength <= speed)

    return Expected(wanted | frozenset(filter(None, also.split(", "))), is_wanted, claim, lasts)


EXPECTED: Mapping[str, Expected] = {
    "TrainfleetJobHung": _expected("hang", "hangs of 25 minutes or more", least=25),
    "TrainfleetJobIdle": _expected("idle, dead", "45 minutes or more without work", least=45),
    "TrainfleetJobStuck": _expected(
        "dead", "45 minutes or more without work, in a job that worked before", also="idle", least=45
    ),
    "TrainfleetPodStraggling": _expected(
        "straggler",
        "one slow node that slows its job by 10 % or more, for 25 minutes or more",
        also="hang",
        least=25,
        speed=0.8,
    ),
    "TrainfleetJobSlowed": _expected(
        "fail-slow",
        "80 % of the speed or less for 45 minutes or more",
        also="straggler, data stall",
        least=45,
        speed=0.8,
    ),
    "TrainfleetJobFailed": _expected("failed", "jobs that failed by themselves"),
    "TrainfleetJobPlatformFault": _expected("platform fault", "jobs that failed with their node"),
    "TrainfleetJobRestartStorm": _expected("crash loop", "three or more restarts one after the other", lasts=60),
    "TrainfleetPodsEvicted": _expected("eviction", "evictions"),
    "TrainfleetJobQueuedTooLong": _expected("queued", "waits of 66 minutes or more", least=66),
    "TrainfleetJobFailureRateHigh": _expected("broken image", "a broken image of a workspace", lasts=360),
    "TrainfleetPoolNodesAbnormal": _expected("node failure", "failures of nodes"),
    "TrainfleetPoolSaturated": _expected("full pool", "a full pool with a queue for 35 minutes or more", least=35),
    "TrainfleetJobQuotaNearlyUsed": _expected("quota", "a quota that is 90 % used"),
}
"""By alert. Other alerts are about the exporter, or about things that no week simulates."""


@dataclass(slots=True)
class Score:
    """The results of one alert over all weeks."""

    alarms: int = 0
    false: Counter[str] = field(default_factory=Counter)
    """By the real episode at that time."""
    wanted: int = 0
    delays: list[float] = field(default_factory=list)
    """Minutes from the start of each found episode to the alarm."""
    missed: Counter[str] = field(default_factory=Counter)
    """By cause."""

    @property
    def precision(self) -> float | None:
        """Return the share of right alarms; None without alarms."""
        return 1 - self.false.total() / self.alarms if self.alarms else None

    @property
    def recall(self) -> float | None:
        """Return the share of wanted episodes that were found; None without any."""
        return len(self.delays) / self.wanted if self.wanted else None

    @property
    def delay(self) -> float | None:
        """Return the median minutes until an episode was found; None if none was."""
        return statistics.median(self.delays) if self.delays else None

    def add(self, other: Score) -> None:
        """Add the figures of another week."""
        self.alarms += other.alarms
        self.wanted += other.wanted
        self.false.update(other.false)
        self.delays += other.delays
        self.missed.update(other.missed)


def score(week: Week, found: Iterable[Firing]) -> dict[str, Score]:
    """Compare the fired alerts with the episodes."""
    jobs = {job.job_id: job for job in week.jobs}
    by_subject: dict[str, list[Episode]] = {}
    for episode in week.episodes:
        by_subject.setdefault(episode.subject, []).append(episode)
    scores = {name: Score() for name in EXPECTED}
    first: dict[tuple[str, int], int] = {}
    for firing in found:
        expected, one = EXPECTED[firing.name], scores[firing.name]
        subject = (
            firing.labels.get("job_id") or firing.labels.get("workspace_id") or firing.labels.get("pool_id") or "p"
        )
        start, end = (round((at - detection_samples.START) / 60) for at in (firing.start, firing.end))
        same = [one for one in by_subject.get(subject, ()) if one.start <= end and one.end + expected.lasts >= start]
        pod = firing.labels.get("pod_id", "").rpartition("-")[2]
        matching = [one for one in same if one.kind in expected.right and (not pod or str(one.pod) == pod)]
        one.alarms += 1
        if not matching:
            kinds = sorted({other.kind for other in same if other.end >= start - 15} - {"queued", "new phase"})
            one.false[" and ".join(kinds) or "no fault"] += 1
        for episode in matching:
            key = firing.name, id(episode)
            first[key] = min(first.get(key, start), start)
    for name, expected in EXPECTED.items():
        for episode in filter(expected.wanted, week.episodes):
            if episode.start >= MINUTES or (episode.end >= MINUTES and episode.minutes < 60):
                continue  # the week ends too early to decide
            scores[name].wanted += 1
            at = first.get((name, id(episode)))
            if at is None:
                scores[name].missed[_why(episode, jobs.get(episode.subject))] += 1
            else:
                scores[name].delays.append(max(at - episode.start, 0))
    return scores


def _why(episode: Episode, job: Job | None) -> str:
    """Return the special property of a missed episode."""
    if job is not None and episode.kind in {"hang", "fail-slow"} and episode.start - job.start < 75:
        return "in the first 75 minutes of the job"
    if job is not None and episode.kind == "hang" and job.pods == 1:
        return "on one node"
    if job is not None and episode.kind == "hang" and job.pods == 2:
        return "on two nodes"
    if episode.minutes < 30:
        return "shorter than 30 minutes"
    if episode.strength > 0.7 and episode.kind in {"straggler", "fail-slow"}:
        return "at more than 70 % of the speed"
    return "no special cause"


def run_week(seed: int) -> tuple[dict[str, Score], float]:
    """Simulate and score the week of a seed; also return the sum of the weeks in which its jobs held accelerators."""
    week = detection_world.simulate(seed)
    alerts = [alert for alert in rules.alerts() if alert.name in EXPECTED]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = folder / "week.om"
        detection_samples.write(week, samples, seed)
        found = firings(samples, alerts, folder, detection_samples.when(0), detection_samples.when(MINUTES - 1))
    held = sum(max(min(job.end, MINUTES) - job.start, 0) for job in week.jobs) / MINUTES
    return score(week, found), held


def run(seeds: Sequence[int], processes: int = 2) -> tuple[dict[str, Score], float]:
    """Return the scores of many weeks, and the weeks of their jobs. Print the progress."""
    total = {name: Score() for name in EXPECTED}
    held, began = 0.0, time.monotonic()
    with multiprocessing.Pool(processes) as workers:
        for number, (scores, weeks) in enumerate(workers.imap_unordered(run_week, seeds), 1):
            held += weeks
            for name, one in scores.items():
                total[name].add(one)
            hung = total["TrainfleetJobHung"]
            said = f"{number} of {len(seeds)} weeks after {time.monotonic() - began:.0f} s"
            print(f"{said}; hangs: {hung.alarms} alarms, {len(hung.delays)} of {hung.wanted} found", flush=True)
    return total, held


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks detection", description=__doc__)
    parser.add_argument("--weeks", type=int, default=20, help="how many weeks to simulate (default: 20)")
    parser.add_argument("--tuning", action="store_true", help="use the seeds on which thresholds are chosen")
    parser.add_argument("--processes", type=int, default=2, help="how many weeks at a time (default: 2)")
    asked = parser.parse_args(arguments)
    first = _TUNING if asked.tuning else _REPORT
    scores, held = run(range(first, first + asked.weeks), asked.processes)
    text = page(
        scores,
        {name: one.claim for name, one in EXPECTED.items()},
        weeks=asked.weeks,
        jobs=JOBS,
        held=held,
        first=first,
    )
    print(text)
    if not asked.tuning:
        _DOCUMENT.write_text(text, encoding="utf-8")
        print(f"written: {_DOCUMENT}")
    return 0
