"""What each command does. `cli` has their flags.

Each function takes the values of the flags, and returns the exit code.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import click

from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.errors import ConfigError, Fault, OperatorError
from trainfleet_exporter.lease import open_lease
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.process.resources import affordable_connections, check_descriptors, tune_memory
from trainfleet_exporter.process.signals import Signals
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import Shard, apportioned
from trainfleet_exporter.web.access import Access

log = logging.getLogger(__name__)

Options: TypeAlias = Mapping[str, Any]
"""The values of flags, by their names with underscores."""
_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a disk behind the standard output."""


def run(command: str, options: Options) -> int:
    """Run one command; the exit code. Without a command, run the exporter."""
    _shard(options)
    set_up_logs(options["log_level"], options["log_format"])
    try:
        check_descriptors()
        with Signals() as signals:
            code = _COMMANDS[command](options, signals)
        if sys.stdout is not None:
            sys.stdout.flush()  # errors of the flush are reported below
        return code
    except ConfigError as error:
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _failed("interrupted")
    except OperatorError as error:
        return _failed(str(error))
    except OSError as error:
        if error.errno not in (*_OUTPUT_LOST, errno.EPIPE):
            raise
        # Python would fail once more when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        closed = error.errno == errno.EPIPE
        return _failed(f"cannot write the output: {'its reader has closed it' if closed else error.strerror}")


def _failed(words: str) -> int:
    print(f"trainfleet-exporter: {words}", file=sys.stderr)
    return 1


def _shard(options: Options) -> Shard:
    """The shard of two flags, each of which is right or wrong by the other."""
    given, total = options.get("shard"), options.get("total_shards", 1)
    allowed = f"0 to {total - 1}"
    if given is None and total > 1:
        message = f"--total-shards={total}: --shard=N is required, but missing; allowed: {allowed}"
        raise click.UsageError(message, click.get_current_context(silent=True))
    if given is not None and options.get("lease"):
        given %= total  # pods of one StatefulSet: two for each shard
    if given is not None and given >= total:
        message = f"--shard: found {given}; allowed with --total-shards={total}: {allowed}"
        raise click.UsageError(message, click.get_current_context(silent=True))
    return Shard(given or 0, total)


def _run_daemon(options: Options, signals: Signals) -> int:
    if options["config_check"]:
        config, access = _load_both(options)
        whose = "" if _shard(options).total == 1 else f" of shard {_shard(options)}"
        print(f"{options['config_file']}: the config is good: {len(config.providers)} provider(s){whose}")
        if access is not None:
            print(f"{options['web_config_file']}: the web config is good")
        return 0
    signals.accept_hangups()
    config, access = _load_both(options)
    web = WebSettings(
        addresses=options["web_listen_address"],
        telemetry_path=options["web_telemetry_path"],
        enable_lifecycle=options["web_enable_lifecycle"],
        max_connections=affordable_connections(options["web_max_connections"]),
        access=access,
        notice=_notice(_shard(options)),
    )

    shard = _shard(options)
    numbered = shard.ordinal if shard.total > 1 else None
    lease = None if options["lease"] is None else open_lease(shard=numbered)

    async def run(stopped: asyncio.Event) -> None:
        daemon = Daemon(config, installed_platforms(), web, load=partial(_load, options), shard=shard, lease=lease)
        tune_memory()
        try:
            await daemon.start()
            signals.on_hangup(daemon.request_reload)
            await stopped.wait()
        finally:
            await daemon.stop()

    return signals.serve(run)


def _notice(shard: Shard) -> str:
    """Return the notice for readers of a shard's status page."""
    if shard.total == 1:
        return ""
    return f"This is shard {shard} (counted from 0): it shows its providers only."


def _run_once(options: Options, signals: Signals) -> int:
    config = _load(options)

    async def run() -> bool:
        exporter = Exporter(config, installed_platforms(), shard=_shard(options))
        try:
            succeeded = await exporter.poll_once()
            text = await exporter.text()
            if sys.stdout is not None:  # closed where only the exit code is wanted
                sys.stdout.buffer.write(text)
                sys.stdout.buffer.flush()
        finally:
            await exporter.aclose()
        return succeeded

    return 0 if signals.finish(run()) else 1


def _run_diagnose(options: Options, signals: Signals) -> int:
    from trainfleet_exporter.diagnose import examine, show  # noqa: PLC0415 - the daemon does without it

    def progress(text: str) -> None:
        print(f"diagnose: {text}", file=sys.stderr, flush=True)

    reports = signals.finish(examine(_load(options), installed_platforms(), progress=progress, shard=_shard(options)))
    if options["json"]:
        print(json.dumps({"providers": [report.as_json() for report in reports]}, indent=2))
    else:
        print("\n".join(map(show, reports)), end="")
    return 0 if all(report.success for report in reports) else 1


def _run_backfill(options: Options, signals: Signals) -> int:
    from trainfleet_exporter.backfill.command import Wish, backfill, fault_in  # noqa: PLC0415 - likewise
    from trainfleet_exporter.providers.history import Range  # noqa: PLC0415

    config, platforms = _load(options), installed_platforms()
    wish = Wish(
        provider=options["provider"],
        wanted=Range(options["from"], options["to"]),
        out=Path(options["out"]),
        job_id=options["job"],
        labels=dict(options["label"]),
    )
    if fault := fault_in(wish, config, platforms, time.time()):
        raise click.UsageError(fault, click.get_current_context(silent=True))

    def say(text: str) -> None:
        print(f"backfill: {text}", file=sys.stderr, flush=True)

    outcome, words = signals.finish(backfill(wish, config, platforms, say=say, stream=sys.stderr))
    print(words, file=sys.stderr if outcome.missing else sys.stdout)
    return 1 if outcome.missing else 0


def _run_report(options: Options, signals: Signals) -> int:
    from trainfleet_exporter.job_ledger import report  # noqa: PLC0415 - likewise

    until = datetime.now(UTC)
    since = until - timedelta(days=options["days"])
    jobs, invalid = report.read_ledger(Path(options["ledger"]), since)
    if invalid:
        shown = ", ".join(map(str, invalid[:20])) + (", …" if len(invalid) > 20 else "")
        print(f"report: {options['ledger']}: skipped {len(invalid)} invalid line(s): {shown}", file=sys.stderr)
    rows = report.report_rows(jobs)
    print(report.as_csv(rows) if options["format"] == "csv" else report.as_text(rows, since, until), end="")
    return 0


def _run_demo(options: Options, signals: Signals) -> int:
    from trainfleet_exporter.app.demo import run_demo  # noqa: PLC0415 - the daemon does without the simulated clouds

    web = WebSettings(addresses=options["web_listen_address"], telemetry_path=options["web_telemetry_path"])
    return _run_without_file(signals, lambda stopped: run_demo(stopped, web=web, seed=options["seed"]))


def _run_simulate(options: Options, signals: Signals) -> int:
    from trainfleet_exporter.app.demo import run_simulator  # noqa: PLC0415 - likewise

    return _run_without_file(
        signals, lambda stopped: run_simulator(stopped, address=options["listen"], seed=options["seed"])
    )


def _run_without_file(signals: Signals, run: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Run a command without a config file until a signal ends it."""
    signals.accept_hangups()

    async def listening(stopped: asyncio.Event) -> None:
        signals.on_hangup(lambda: log.warning("SIGHUP ignored: this command has no config file"))
        await run(stopped)

    return signals.serve(listening)


def _load(options: Options) -> Config:
    platforms = installed_platforms()
    configs = {name: platform.config for name, platform in platforms.items()}
    config = load_config(Path(options["config_file"]), environ=os.environ, platforms=configs)
    if ledger := options.get("ledger"):
        config = config.model_copy(update={"global_": config.global_.model_copy(update={"ledger_file": Path(ledger)})})
    return apportioned(config, _shard(options))


def _load_both(options: Options) -> tuple[Config, Access | None]:
    """The config, and what the web config file says if there is one. ConfigError has the faults of both."""
    faults: list[Fault] = []
    access = None
    if options["web_config_file"]:  # an empty one is none, as for the official exporters
        try:
            access = Access(Path(options["web_config_file"]))
        except ConfigError as error:
            faults += error.faults
    try:
        config = _load(options)
    except ConfigError as error:
        raise ConfigError([*error.faults, *faults]) from None
    if faults:
        raise ConfigError(faults)
    return config, access


_COMMANDS: Mapping[str, Callable[[Options, Signals], int]] = {
    "": _run_daemon,
    "backfill": _run_backfill,
    "demo": _run_demo,
    "diagnose": _run_diagnose,
    "once": _run_once,
    "report": _run_report,
    "simulate": _run_simulate,
}
