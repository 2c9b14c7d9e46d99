"""The week: days with faults, each with a quiet moment at its end, at which everything must work again."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

import httpx

from tests.soak.events import Troublemaker
from tests.soak.logbook import Logbook, logbook
from tests.soak.measure import Look, look
from tests.soak.site import PAI, RETENTION, SAGEMAKER, WORKSPACES, Site, site
from tests.support.clock import run_stepped
from trainfleet_exporter.polling import Runner, schedule
from trainfleet_simulator.sagemaker.training import job_id_of
from trainfleet_simulator.world.jobs import Job

_START = 1_769_572_800.0
"""28 January 2026. Midnight in UTC+8 is eight hours away."""
_JOB_ID = re.compile(r'trainfleet_job_info\{provider="([^"]+)",job_id="([^"]+)"')
_QUIET_TRIES = 600
_TICK = 15.0
"""Seconds between the checks that the daemon normally makes every second. A week has 600,000 of them, and they would
take more time than all calls."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The length of a run, and its intervals in seconds."""

    days: int = 7
    hours: float = 24.0
    """Hours of each day."""
    seed: int = 1
    often: int = 1800
    """Interval of polls of jobs and usage. Workspaces are polled six times as often, the rest a third as often. Users
    poll every minute: with a trace of every allocation, a week of such polls would take hours."""
    scrape: float = 300.0


@dataclass(slots=True)
class Week:
    """The result of a run."""

    looks: list[Look] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    """Number of events by kind."""
    complaints: Counter[str] = field(default_factory=Counter)
    """Failed checks."""
    warnings: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Log records by level, logger and message."""
    wall: float = 0.0
    """Real seconds of the run."""


def run(setting: Setting, folder: Path, say: Callable[[str], None] = lambda line: None) -> Week:
    """Let the days pass. `say` prints the progress."""
    began = perf_counter()
    polls: Counter[str] = Counter()
    with logbook() as book, _counting_polls(polls), patch.object(schedule, "_EXPIRY_INTERVAL", _TICK):
        week = run_stepped(lambda: _run(setting, folder, book, say), start=_START)
    week.done.update(polls)
    week.complaints.update(book.unexpected)
    week.warnings = book.counts
    week.wall = perf_counter() - began
    return week


async def _run(setting: Setting, folder: Path, book: Logbook, say: Callable[[str], None]) -> Week:
    week = Week()
    async with site(folder, setting.seed, setting.often) as there:
        before = {name: len(world.jobs) for name, world in there.simulator.worlds.items()}
        trouble = Troublemaker(there, setting.seed, setting.scrape)
        for number in range(1, setting.days + 1):
            began = perf_counter()
            await trouble.day(number, setting.hours)
            if setting.hours >= 24:
                await _quiet_moment(there)
            complaints = _check(there, whole=setting.hours >= 24)
            week.complaints.update(f"day {number}: {text}" for text in complaints)
            found = await look(there)
            found.figures["live"] = len(_shown(there))
            week.looks.append(found)
            heard = sum(book.counts.values())
            say(f"day {number}: {perf_counter() - began:.0f} s, {heard} warnings so far, {len(complaints)} complaints")
        week.done, week.complaints = trouble.done, week.complaints + trouble.complaints
        _report_clouds(there, before, week.done)
        await _report_calls(there, week.done)
    return week


async def _quiet_moment(there: Site) -> None:
    """Wait until no call has been made for some seconds, and the clouds have closed every connection."""
    for _ in range(_QUIET_TRIES):
        await asyncio.sleep(1)
        if there.door.connections == 0:
            return
    raise RuntimeError("the calls to the clouds never pause")


def _check(there: Site, *, whole: bool) -> list[str]:
    """Return the failed checks. After a whole day, everything works again, and the page has just the existing jobs."""
    complaints = []
    runners = there.daemon.exporter.runners
    if whole:
        complaints += [
            f"{runner.state.provider}/{runner.state.collector} does not succeed: {runner.state.error}"
            for runner in runners
            if not runner.state.success
        ]
    shown, now = _shown(there), time.time()
    lag = 3 * there.often
    live: dict[tuple[str, str], Job] = {}
    recent: set[tuple[str, str]] = set()
    for name, world in there.simulator.worlds.items():
        world.advance(now)
        provider = name.removesuffix("-v1")  # v1 jobs of ModelArts are a world of their own
        for job in world.jobs.values():
            if name == PAI and job.draft.workspace_id not in WORKSPACES:
                continue
            if job.live:
                live[provider, job.job_id] = job
            elif job.finished is not None and job.finished >= now - lag - RETENTION:
                recent.add((provider, job.job_id))
    missing = {key for key, job in live.items() if job.created < now - lag} - shown
    untrue = shown - live.keys() - recent
    if whole and (missing or untrue):
        complaints.append(f"jobs missing from the page: {sorted(missing)}, jobs on it that are not: {sorted(untrue)}")
    return complaints


def _shown(there: Site) -> set[tuple[str, str]]:
    """Return the jobs on the page, by provider and id."""
    block = there.daemon.exporter.page_store.page().families.get("trainfleet_job_info")
    page = b"".join(block.texts) if block else b""
    return {(provider, _in_world(provider, job_id)) for provider, job_id in _JOB_ID.findall(page.decode())}


def _in_world(provider: str, job_id: str) -> str:
    # Ids of ModelArts' v1 jobs have the job and the version. The world has only the version.
    return job_id_of(job_id) if provider == SAGEMAKER else job_id.rpartition("/")[2]


def _report_clouds(there: Site, before: dict[str, int], done: Counter[str]) -> None:
    for name, world in there.simulator.worlds.items():
        done[f"jobs that came on {name}"] = len(world.jobs) - before[name]
        done[f"jobs that ended on {name}"] = sum(
            1 for job in world.jobs.values() if job.finished is not None and job.finished > _START
        )


async def _report_calls(there: Site, done: Counter[str]) -> None:
    """Return the calls as the clouds counted them, because the exporter forgets the counts of removed providers."""
    async with httpx.AsyncClient(trust_env=False) as client:
        reported = (await client.get(f"{there.door.url}/truth", params={"since": 10**9})).json()
    for operations in reported["calls"].values():
        for outcomes in operations.values():
            for outcome, count in outcomes.items():
                done[f"calls that ended {outcome}"] += count


@contextmanager
def _counting_polls(counts: Counter[str]) -> Iterator[None]:
    """Count every poll that begins, or every cycle over jobs."""
    tick = Runner.tick

    async def counted(runner: Runner) -> None:
        counts[f"polls of {runner.state.collector} of {runner.state.provider}"] += 1
        await tick(runner)

    with patch.object(Runner, "tick", counted):
        yield
