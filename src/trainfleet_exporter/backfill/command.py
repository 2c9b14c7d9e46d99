"""The command `backfill`: checks flags and config, reads past days, and writes files."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainfleet_exporter.backfill.days import EARLIEST, SETTLED, days, shown
from trainfleet_exporter.backfill.parts import State
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.series import Namer
from trainfleet_exporter.backfill.work import Order, Outcome, Unfinished, Work, in_words
from trainfleet_exporter.config import Config, ProviderConfig
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.families import FAMILIES, KEYS
from trainfleet_exporter.providers.history import Range
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.registry import BuildContext, Platform
from trainfleet_exporter.transport import Account, CallLimits

log = logging.getLogger(__name__)

_FORM = 3
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
    if platforms[platform].past is None:
        return f"--provider: platform {platform} has no past data to backfill"
    return ""


async def backfill(
    wish: Wish, config: Config, platforms: Mapping[str, Platform], *, say: Callable[[str], None]
) -> tuple[Outcome, str]:
    """Run a backfill; return the outcome, and the next step for the user.

    `say` prints lines for the user. Raises StartError, or Unfinished if the same command can continue later.
    """
    provider = next(each for each in config.providers if each.name == wish.provider)
    settings, limits = config.global_, provider.limits
    open_past = platforms[provider.platform].past
    assert open_past is not None
    _make_folder(wish.out)
    progress = Progress()
    with State(wish.out / f".backfill-{provider.name}.state", _facts(wish, config, provider)) as state:
        allowed = CallLimits(requests_per_second=limits.requests_per_second, concurrency=limits.concurrency)
        account = Account(provider.account_key.name, allowed)
        past = open_past(provider, BuildContext(settings=settings, account=account, observe=progress.count))
        past.job_id = wish.job_id
        order = Order(
            provider=provider.name,
            wanted=wish.wanted,
            out=wish.out,
            is_wanted=job_filter(provider.jobs),
            step=int(min(max(settings.poll_interval, _SHORTEST_STEP), _LONGEST_STEP)),
            retention=settings.finished_job_retention,
            workers=limits.concurrency,
        )
        work = Work(past, Namer(provider.name, settings, wish.labels), order, progress)
        try:
            outcome = await _run(work, state, wish, limits.monthly_calls, say)
        finally:
            await past.aclose()
    return outcome, _failed(outcome) if outcome.missing else _next_steps(wish, outcome)


async def _run(work: Work, state: State, wish: Wish, allowed: Mapping[str, int], say: Callable[[str], None]) -> Outcome:
    """Find the jobs, print the expected calls, and read all days. `allowed` are the calls of 30 days, by API."""
    now, all_days = time.time(), len(list(days(wish.wanted)))
    past, order = work.past, work.order
    for line in past.limits(wish.wanted, now):
        say(line)
    if state.lives is None and len(order.left()) < all_days:
        raise StartError(f"--out: {order.out} has days of another backfill; choose another folder")
    try:
        if order.left() or state.lives is None:
            await work.learn()
        if state.lives is None:
            state.save((await work.find(now, say)).values())
        lives = state.lives or ()
        if wish.job_id and not lives:
            raise StartError(f"--job: {wish.provider} had no {wish.job_id!r} in that time, or its config leaves it out")
        expected = work.expected(lives)
        say(_forecast(len(lives), len(order.left()), expected, allowed))
        outcome = await work.run(lives, sum(expected.values()))
    except Unfinished as error:
        written = all_days - len(order.left())
        raise Unfinished(
            f"{error}; {written} of {all_days} day(s) are written: run the same command again to continue"
        ) from None
    if past.gone:
        say(f"{len(past.gone)} job(s) were deleted in the cloud; only the data of lists is written for them")
    if dropped := +past.dropped:
        say(f"readings left out, by reason: {in_words(dropped)}")
    return outcome


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(f"--out: {path}: {error.strerror}") from None


def _facts(wish: Wish, config: Config, provider: ProviderConfig) -> dict[str, Any]:
    """Return the flags and config that the files depend on. Credentials and limits may change."""
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
    return dict(json.loads(json.dumps(facts)))


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
