"""The command `backfill`: checks flags and config, reads past days, and writes files."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from trainfleet_exporter.backfill.days import EARLIEST, SETTLED, days, shown
from trainfleet_exporter.backfill.parts import OTHER, State
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.work import Flags, Outcome, Unfinished, Work, in_words
from trainfleet_exporter.config import Config, Global, ProviderConfig
from trainfleet_exporter.errors import CloudError, StartError
from trainfleet_exporter.families import FAMILIES, KEYS
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


def label(text: str) -> tuple[str, str]:
    """Parse `name=value` of the flag --label. ValueError, with what is allowed, if it is invalid."""
    name, equals, value = text.partition("=")
    if not equals or not _LABEL.fullmatch(name):
        raise ValueError(f"{text!r}: allowed: name=value, such as instance=exporter:10075")
    if name in _OURS or name.startswith("label_"):
        raise ValueError(f"{name!r} is a label that the exporter sets itself")
    return name, value


def fault_in(flags: Flags, config: Config, platforms: Mapping[str, Platform], now: float) -> str:
    """Return the error in the flags; empty if there is none."""
    if flags.wanted.empty:
        return "--to: must be later than --from"
    if flags.wanted.start < EARLIEST:
        return f"--from: must not be before {shown(EARLIEST)}: no cloud has jobs from then"
    if flags.wanted.end > now - SETTLED:
        latest = f"{shown(now - SETTLED)} at the latest"
        return f"--to: readings of the last {SETTLED // 60} minutes may still change; allowed: {latest}"
    names = {provider.name: provider for provider in config.providers}
    if flags.provider not in names:
        return f"--provider: {flags.provider!r} is not in the config; it has: {', '.join(names)}"
    platform = names[flags.provider].platform
    if platforms[platform].past is None:
        return f"--provider: platform {platform} has no past data to backfill"
    return ""


async def backfill(
    flags: Flags, config: Config, platforms: Mapping[str, Platform], *, say: Callable[[str], None]
) -> tuple[Outcome, str]:
    """Run a backfill; return the outcome, and the next step for the user.

    `say` prints lines for the user. Raises StartError, or Unfinished if the same command can continue later.
    """
    provider = next(each for each in config.providers if each.name == flags.provider)
    settings, limits = config.global_, provider.limits
    open_past = platforms[provider.platform].past
    assert open_past is not None
    progress = Progress()
    with State(flags.out, provider.name.replace("/", "%2F"), _digest(flags, settings, provider)) as state:
        allowed = CallLimits(requests_per_second=limits.requests_per_second, concurrency=limits.concurrency)
        account = Account(provider.account_key.name, allowed)
        past = open_past(provider, BuildContext(settings=settings, account=account, observe=progress.count))
        past.job_id = flags.job_id
        work = Work(past, flags, settings, provider, progress)
        async with aclosing(past):
            outcome = await _run(work, state, flags, say)
    return outcome, _failed(outcome.failures) if outcome.failures else _next_steps(flags, outcome.files)


async def _run(work: Work, state: State, flags: Flags, say: Callable[[str], None]) -> Outcome:
    """Find the jobs, print the expected calls, and read all days."""
    now, all_days, past = time.time(), len(list(days(flags.wanted))), work.past
    for line in past.limits(flags.wanted, now):
        say(line)
    if state.lives is None and len(flags.left()) < all_days:
        raise StartError(f"--out: {flags.out} {OTHER}")
    try:
        if flags.left() or state.lives is None:
            await work.learn()
        if state.lives is None:
            state.save((await work.find(now, say)).values())
        lives = state.lives or ()
        if flags.job_id and not lives:
            raise StartError(f"--job: {flags.provider} had no {flags.job_id!r} in that time, or the config omits it")
        expected = work.expected(lives)
        say(f"{len(lives):,} job(s), {len(flags.left())} day(s); calls expected: {in_words(expected)}")
        outcome = await work.run(lives, sum(expected.values()))
    except Unfinished as error:
        written = all_days - len(flags.left())
        raise Unfinished(
            f"{error}; {written} of {all_days} day(s) are written: run the same command again to continue"
        ) from None
    if past.gone:
        say(f"{len(past.gone)} job(s) were deleted in the cloud; only the data of lists is written for them")
    if dropped := +past.dropped:
        say(f"readings left out, by reason: {in_words(dropped)}")
    return outcome


def _digest(flags: Flags, settings: Global, provider: ProviderConfig) -> str:
    """Return a text that changes with the flags and config that the files depend on."""
    unlike = {"credentials", "http", "limits", "account", "endpoints"}
    facts = [
        *(_FORM, flags.wanted.start, flags.wanted.end, flags.job_id, sorted(flags.labels.items())),
        *(settings.metrics.model_dump_json(), settings.poll_interval, settings.finished_job_retention),
        provider.model_dump_json(exclude=unlike),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _failed(failures: Mapping[str, CloudError]) -> str:
    why = "because some of their data could not be read"
    head = f"{len(failures)} day(s) are not written, {why}: {', '.join(failures)}"
    lines = [f"  {name}: {error}" for name, error in failures.items()]
    return "\n".join([head, *lines, "Run the same command again to retry."])


def _next_steps(flags: Flags, files: Sequence[Path]) -> str:
    pattern = shlex.quote(str(files[0])[: -len("YYYY-MM-DD.om")]) + "????-??-??.om"
    return (
        f"{len(files)} file(s) in {flags.out}, the first one {files[0].name}. To import them into Prometheus:\n"
        f'  for file in {pattern}; do promtool tsdb create-blocks-from openmetrics "$file" blocks; done\n'
        "  then move the folders in blocks/ into the data folder of Prometheus (--storage.tsdb.path), which keeps"
        " them\n  as long as its retention says: blocks older than that are deleted at once."
    )
