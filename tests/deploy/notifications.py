"""Count the notifications of the demo with a real Prometheus and Alertmanager and their shipped config.

    python -m tests.deploy.notifications --minutes 30

It ignores the nightly pause of the routes. It exits with 1 in these cases:

- A failed job is not notified exactly once.
- A message reports the end of an alert about a job.
- There are over 20 % more messages than failed jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from deploy.generator import rules

from tests.deploy.alerting import Notice, Receiver, running_alertmanager, running_prometheus, serving, troubles
from tests.e2e.processes import COMMAND, running_exporter

FAILED = ("TrainfleetJobFailed", "TrainfleetJobPlatformFault")
"""The alerts about failed jobs."""
_UNDER_WAY = 240
"""Longest time in seconds from the end of a job to its notification."""
_JUST_ABOUT = 120
"""Seconds around the start of the alert's window. A job that ended then may be notified or not."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The notifications. `failed` jobs must be notified, and `late` jobs may be."""

    failed: frozenset[str]
    late: frozenset[str]
    notices: Sequence[Notice]
    messages: int

    @property
    def faults(self) -> list[str]:
        """The faults in words."""
        times = Counter(notice.job_id for notice in self.notices if notice.name in FAILED and not notice.resolved)
        limit = 1.2 * len(self.failed | set(times))
        found = [f"job {job} failed and is not notified" for job in sorted(self.failed - set(times))]
        found += [f"job {job} is notified and did not fail" for job in sorted(set(times) - self.failed - self.late)]
        found += [f"job {job} is notified {number} times" for job, number in times.items() if number > 1]
        found += [f"{each.name} of {each.job_id} is resolved" for each in self.notices if each.resolved and each.job_id]
        if self.messages > limit:
            found.append(f"{self.messages} messages are more than {limit:.0f}")
        return found

    def lines(self) -> list[str]:
        """Return the counts as lines of text."""
        sent = Counter((notice.name, "resolved" if notice.resolved else "firing") for notice in self.notices)
        notified = {notice.job_id for notice in self.notices if notice.name in FAILED}
        return [
            f"failed jobs: {len(self.failed | notified)}, of which {len(notified)} are notified",
            f"messages: {self.messages}, at most {1.2 * len(self.failed | notified):.0f}",
            f"resolved alerts about jobs: {sum(each.resolved for each in self.notices if each.job_id)}",
            *(f"  {name} {status}: {number}" for (name, status), number in sorted(sent.items())),
        ]


def failed_jobs(prometheus: httpx.Client, *, since: float) -> tuple[frozenset[str], frozenset[str]]:
    """Return the failed jobs that must be notified by now, and those that may be."""
    window = rules.shipped().thresholds["job_failed_seconds"]
    length = f"{int(time.time() - since) + 60}s"
    failed = f'max by (job_id) (max_over_time(trainfleet_job_status{{status="failed"}}[{length}])) == 1'
    seen = 'min by (job_id) (min_over_time(timestamp(trainfleet_job_status{status="failed"})[%s:15s]))'
    ended = f"max by (job_id) (max_over_time(trainfleet_job_finished_timestamp_seconds[{length}]))"
    now = time.time()  # a job that failed a moment ago is not in `first` yet
    first, end = _by_job(prometheus, seen % length), _by_job(prometheus, ended)
    recent = {job for job in _by_job(prometheus, failed) if end.get(job, since) > since - float(window) - _JUST_ABOUT}
    due = {
        job
        for job in recent
        if first.get(job, now) < now - _UNDER_WAY and end.get(job, since) > since - float(window) + _JUST_ABOUT
    }
    return frozenset(due), frozenset(recent - due)


def _by_job(prometheus: httpx.Client, query: str) -> dict[str, float]:
    answer = prometheus.get("/api/v1/query", params={"query": query}).json()
    return {each["metric"]["job_id"]: float(each["value"][1]) for each in answer["data"]["result"]}


def watch(minutes: float, folder: Path) -> Counted:
    """Run all servers for a while and count the notifications."""
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(serving(Receiver()))
        address = f"127.0.0.1:{receiver.server_port}"
        _, alertmanager = stack.enter_context(running_alertmanager(folder, address, mute_time_intervals=[]))
        exporter = stack.enter_context(
            running_exporter(["--log.level=info"], folder / "exporter.log", command=[*COMMAND, "demo"])
        )
        exporter.wait_until_ready()
        target = exporter.url.removeprefix("http://")
        prometheus = stack.enter_context(running_prometheus(folder, target, alertmanager))
        since = time.time()
        time.sleep(60 * minutes)
        failed, late = failed_jobs(prometheus, since=since)
        return Counted(failed, late, tuple(receiver.notices), receiver.messages)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts and faults, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.deploy.notifications", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long to watch (default: 30)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        counted = watch(options.minutes, Path(name))
        wrong = [*counted.faults, *troubles(Path(name))]
    print("\n".join([*counted.lines(), *wrong]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
