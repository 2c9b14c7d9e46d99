"""The command `backfill`: checks flags and config, reads past days, and writes files."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from trainfleet_exporter.backfill.days import EARLIEST, SETTLED, days, shown
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.series import Namer
from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.backfill.work import Order, Outcome, Unfinished, Work, in_words
from trainfleet_exporter.config import Config, ProviderConfig
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.families import FAMILIES, KEYS, described
from trainfleet_exporter.providers.history import Range
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.transport import Account, Attempt, CallLimits

log = logging.getLogger(__name__)

_FORM = 2
"""Version of the files. A backfill with another version starts again."""
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_OURS = frozenset(
    {"provider", "le", "quantile"}
    | {name for names, _ in KEYS.values() for name in names}
    | {name for family in FAMILIES for name in family.labels or ()}
)
_SHORTEST_STEP, _LONGEST_STEP = 60, 240
"""Seconds between two samples of values that records prove. A scrape interval is not shorter, and Prometheus looks back
five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The values of the flags."""

    provider: str
    wanted: Range
    out: Path
    job_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def label(text: str) -> tuple[str, str]:
    """Parse `name=value` of the flag --label. ValueError, with what is allowed, if it is invalid."""
    name, equals, value = text.partition("=")
    if not equals or not _LABEL.fullmatch(name):
        raise ValueError(f"{text!r}: allowed: name=value, such as instance=exporter:10075")
    if name in _OURS or name.startswith("label_"):
        raise ValueError(f"{name!r} is a label that the exporter sets itself")
    return name, value


def fault_in(wish: Wish, config: Config, platforms: Mapping[str, Platform], now: float) -> str:
    """Return the error in the flags; empty if there is none."""
    if wish.wanted.empty:
        return "--to: must be later than --from"
    if wish.wanted.start < EARLIEST:
        return f"--from: must not be before {shown(EARLIEST)}: no cloud has jobs from then"
    if wish.wanted.end > now - SETTLED:
        latest = f"{shown(now - SETTLED)} at the latest"
        return f"--to: readings of the last {SETTLED // 60} minutes may still change; allowed: {latest}"
    names = {provider.name: provider for provider in config.providers}
    if wish.provider not in names:
        return f"--provider: {wish.provider!r} is not in the config; it has: {', '.join(names)}"
    platform = names[wish.provider].platform
    if platforms[platform].history is None:
        return f"--provider: platform {platform} has no past data to backfill"
    return ""


async def backfill(
    wish: Wish,
    config: Config,
    platforms: Mapping[str, Platform],
    *,
    say: Callable[[str], None],
    stream: TextIO | None = None,
) -> tuple[Outcome, str]:
    """Run a backfill; return the outcome, and the next step for the user.

    `say` prints lines for the user. `stream` gets a progress bar if it is a terminal. Raises StartError, or Unfinished
    if the same command can continue later.
    """
    provider = next(each for each in config.providers if each.name == wish.provider)
    platform, settings = platforms[provider.platform], config.global_
    open_history = platform.history
    assert open_history is not None
    _make_folder(wish.out)
    progress = Progress(stream)

    def report(text: str) -> None:
        progress.leave()
        say(text)

    with Spool(wish.out / f".backfill-{provider.name}.sqlite") as spool:
        try:
            _agree(spool, wish, config, provider)

            def attempted(attempt: Attempt) -> None:
                progress.calls += 1
                progress.report()

            given = provider.limits
            limits = CallLimits(requests_per_second=given.requests_per_second, concurrency=given.concurrency)
            account = Account(provider.account_key.name, limits)
            context = BuildContext(settings=settings, account=account, observe=attempted)
            history = open_history(provider, context)
            try:
                for line in history.limits(wish.wanted, time.time()):
                    report(line)
                order = Order(
                    provider=provider.name,
                    wanted=wish.wanted,
                    begun=_begun(spool),
                    job_id=wish.job_id,
                    out=wish.out,
                    step=int(min(max(settings.poll_interval, _SHORTEST_STEP), _LONGEST_STEP)),
                    retention=settings.finished_job_retention,
                    workers=provider.limits.concurrency,
                    families=described(platforms.values()),
                )
                work = Work(history, spool, Namer(provider.name, settings, wish.labels), order, progress)
                outcome = await _run(work, wish, spool, given.monthly_calls, progress=progress, say=report)
            finally:
                progress.leave()
                await history.aclose()
        except sqlite3.Error as error:
            raise StartError(f"{spool.path}: {error}; run the same command again to continue") from None
    return outcome, _failed(outcome) if outcome.missing else _next_steps(wish, outcome)


async def _run(
    work: Work, wish: Wish, spool: Spool, allowed: Mapping[str, int], *, progress: Progress, say: Callable[[str], None]
) -> Outcome:
    """Find the jobs, print the expected calls, and read all days. `allowed` are the calls of 30 days, by API."""
    all_days = list(days(wish.wanted))
    try:
        searches = await work.learn()
        if searches:
            say(f"looking for jobs: {in_words(searches)} call(s) at least, and more for the records of jobs")
        await work.find()
        if wish.job_id and not spool.count_lives():
            raise StartError(
                f"--job: {wish.job_id!r} is unknown to provider {wish.provider}, or its config leaves it out,"
                " or it did not run in that time; nothing is written"
            )
        expected = work.expected()
        progress.expected = sum(expected.values())
        say(_forecast(spool.count_lives(), len(all_days), expected, allowed))
        outcome = await work.run()
    except Unfinished as error:
        written = sum(spool.is_written(day.start) for day in all_days)
        raise Unfinished(
            f"{error}; {written} of {len(all_days)} day(s) are written; the other data read so far is kept:"
            " run the same command again to continue"
        ) from None
    if gone := spool.count_gone():
        say(f"{gone} job(s) were deleted in the cloud; only the data of lists is written for them")
    if dropped := spool.all_dropped():
        say(f"readings left out, by reason: {in_words(dropped)}")
    return outcome


def _begun(spool: Spool) -> float:
    """Return the Unix time at which the work began, in this run or an earlier one."""
    begun = spool.recall("begun")
    if begun is None:
        begun = repr(time.time()).encode()
        spool.note("begun", begun)
    return float(begun)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"--out: {path}: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise StartError(f"--out: {path}: not writable")


def _agree(spool: Spool, wish: Wish, config: Config, provider: ProviderConfig) -> None:
    """Raise StartError unless the folder's earlier files have the same flags and config. Credentials and limits may
    differ."""
    settings = config.global_
    unlike = ("credentials", "http", "limits", "account", "endpoints")
    facts = {
        "--provider": wish.provider,
        "--from": wish.wanted.start,
        "--to": wish.wanted.end,
        "--job": wish.job_id,
        "--label": sorted(wish.labels.items()),
        "global.metrics": json.loads(settings.metrics.model_dump_json()),
        "global.poll_interval": settings.poll_interval,
        "global.finished_job_retention": settings.finished_job_retention,
        "the provider's section": json.loads(provider.model_dump_json(exclude=set(unlike))),
        "the form of the files": _FORM,
    }
    changed = spool.agree(facts)
    if changed:
        raise StartError(
            f"{wish.out}: was started with another value of {', '.join(changed)}: start again with another --out,"
            " or continue with the old value"
        )


def _forecast(jobs: int, number: int, expected: Counter[str], allowed: Mapping[str, int]) -> str:
    parts = [f"{jobs:,} job(s), {number} day(s); calls expected: {in_words(expected)}"]
    known = [api for api in expected if api in allowed]
    parts += [f"limits.monthly_calls allows {allowed[api]:,} calls of {api} in 30 days" for api in known]
    return "; ".join(parts)


def _failed(outcome: Outcome) -> str:
    lines = [f"  {failure}" for failure in outcome.failures]
    why = "because some of their data could not be read"
    head = f"{len(outcome.missing)} day(s) are not written, {why}: {', '.join(outcome.missing)}"
    return "\n".join([head, *lines, "Run the same command again to retry."])


def _next_steps(wish: Wish, outcome: Outcome) -> str:
    first = outcome.files[0]
    pattern = wish.out / f"{wish.provider}-*.om"
    return (
        f"{len(outcome.files)} file(s) in {wish.out}, the first one {first.name}. To import them into Prometheus:\n"
        f'  for file in {pattern}; do promtool tsdb create-blocks-from openmetrics "$file" blocks; done\n'
        "  then move the folders in blocks/ into the data folder of Prometheus (--storage.tsdb.path), which keeps"
        " them\n  as long as its retention says: blocks older than that are deleted at once."
    )
