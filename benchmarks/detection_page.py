"""docs/detection.md, from the scores of all alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deploy.generator.docs import BEGIN, END
from deploy.generator.docs_detection import elsewhere

if TYPE_CHECKING:
    from benchmarks.detection import Score

_HEAD = """\
# How well the alerts detect

`python -m benchmarks detection` writes this page. It simulates {weeks} weeks of {jobs} training jobs each and
evaluates the shipped rules over them. The seeds begin at {first}. We chose the thresholds on other seeds (`--tuning`)
and did not change them afterwards.

- An **episode** is a time in which an alert should fire. An **alarm** is one firing of an alert.
- **Precision** is the share of alarms that were right. **Recall** is the share of episodes that had an alarm.
- **Delay** is the median time from the start of an episode to the alarm, in minutes.
- **False** is the number of false alarms in a week for 100 running jobs.

| alert | must find | alarms | precision | recall | delay | false |
|---|---|---|---|---|---|---|
"""
_MISSED = """
## What the alerts miss, and what causes false alarms

| alert | episodes missed | false alarms during |
|---|---|---|
"""
_METHOD = """
- Hangs that a watchdog ends within ten minutes are too short for an alarm. The watchdog makes the job fail or
  restart, so other alerts fire.
- `TrainfleetJobHung` compares a job with its own past. It cannot fire in the first hour.
- Some hangs begin with a pod that does nothing. If it is the only pod, `TrainfleetJobStuck` fires and
  `TrainfleetJobHung` does not. This counts as an error of both alerts.
- `TrainfleetJobIdle` counts long starts and repeated restarts as idleness.
- `TrainfleetPodStraggling` compares a pod with its own past. It misses nodes that are slow from the start, and nodes
  with a slow network: all pods slow down together.
- The simulation does not count a node that slows its job by less than 10 %. The ByteDance study has the same limit.
- `TrainfleetJobSlowed` does not find out why a job draws less power. Long evaluations and smaller batches look like
  slow jobs, so its severity is `info`.

## What is simulated

These frequencies and lengths come from studies of production clusters:

| study | used for |
|---|---|
| [Meta](https://arxiv.org/abs/2410.21680) | many small jobs; 24 % fail, 10 % are preempted; failures of nodes |
| [GREYHOUND](https://arxiv.org/abs/2410.12588) | how many jobs become slow, by their size, and for how long |
| [ByteDance](https://arxiv.org/abs/2505.05713) | uneven work of pods in 42.5 % of jobs, without a fault |
| [Minder](https://arxiv.org/abs/2411.01791) | a faulty machine differs in several metrics; finding it by hand is slow |

The other frequencies and lengths are assumptions. Jobs also start, write checkpoints and evaluate. Some evaluations
have no traffic. Jobs wait for data, restart and change their batch size. Users keep idle sessions.

The studies do not publish how power, traffic and utilization look by the minute. These shapes are assumptions. The
length of hangs is an assumption too: a watchdog ends some hangs after 10 or 30 minutes, and a user ends the others.
We made hangs, idle sessions and slow nodes more frequent than published, so that there are enough to count. With
fewer of them, precision would be lower. The number of false alarms in a week would stay the same.

The samples have the exporter's families. The simulated exporter polls usage every two minutes. Its readings are two
minutes old. Prometheus scrapes every minute. Range queries of a real Prometheus evaluate recording rules and alerts
each minute. The simulation applies `for` as Prometheus does. A test compares its results with those of `promtool
test rules`. An alarm is right while the fault lasts, and for 12 minutes more. For `TrainfleetJobRestartStorm`, it
is 60 minutes more. For `TrainfleetJobFailureRateHigh`, it is 360 minutes more. An alert that stops and fires again
counts as two alarms.

## Where the other alerts are tested

These alerts are about the exporter itself and its credentials, unhealthy devices, maintenance of nodes and leases of
nodes. The simulated weeks contain no such events.
"""


def page(
    scores: Mapping[str, Score], claims: Mapping[str, str], *, weeks: int, jobs: int, held: float, first: int
) -> str:
    """Return the whole page. `held` is the sum of the weeks in which the jobs held accelerators."""
    rows, reasons = "", ""
    for name, one in scores.items():
        link = f"[{name}](runbooks/{name}.md)"
        found = f"{_ratio(one.recall)} of {one.wanted}"
        false = f"{100 * one.false.total() / held:.2f}"
        delay = "" if one.delay is None else f"{one.delay:.0f}"
        rows += f"| {link} | {claims[name]} | {one.alarms} | {_ratio(one.precision)} | {found} | {delay} | {false} |\n"
        if one.false or one.missed:
            reasons += f"| {name.removeprefix('Trainfleet')} | {_counted(one.missed)} | {_counted(one.false)} |\n"
    measured = _HEAD.format(weeks=weeks, jobs=jobs, first=first) + rows + _MISSED + reasons + _METHOD
    return f"{measured}\n{BEGIN}\n\n{elsewhere(measured).strip()}\n\n{END}\n"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _counted(counts: Counter[str]) -> str:
    """Return the most frequent causes with their numbers, and the sum of the others."""
    most = counts.most_common(2)
    rest = counts.total() - sum(number for _, number in most)
    return "; ".join([*(f"{what}: {number}" for what, number in most), *([f"other causes: {rest}"] if rest else [])])
