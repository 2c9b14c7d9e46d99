"""The command line: commands and exit codes.

0: stopped by a signal, or a check passed. 1: could not run. 2: bad flags or bad config.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.errors import ConfigError, Fault, OperatorError
from trainfleet_exporter.flags import (
    backfill_parser,
    daemon_parser,
    demo_parser,
    diagnose_parser,
    find_shard,
    once_parser,
    report_parser,
    simulate_parser,
)
from trainfleet_exporter.lease import open_lease
from trainfleet_exporter.process.arguments import Parser, split
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.process.resources import affordable_connections, check_descriptors, tune_memory
from trainfleet_exporter.process.signals import Signals
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import Shard, apportioned
from trainfleet_exporter.web.access import Access

log = logging.getLogger(__name__)

_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a disk behind the standard output."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Without arguments, print the help, as promtool and amtool do."""
    words = sys.argv[1:] if argv is None else argv
    if not words:
        daemon_parser().print_help()
        return 0
    arguments = split(words)
    if arguments.command not in _COMMANDS:
        daemon_parser().refuse_command(arguments.command)
    parse, run = _COMMANDS[arguments.command]
    parser = parse()
    options = parser.read(arguments, {command: other for command, (other, _) in _COMMANDS.items()})
    find_shard(parser, options)
    set_up_logs(options.log_level, options.log_format)
    try:
        check_descriptors()
        with Signals() as signals:
            code = run(options, signals)
        if sys.stdout is not None:
            sys.stdout.flush()  # errors of the flush are reported below
        return code
    except ConfigError as error:
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("trainfleet-exporter: interrupted", file=sys.stderr)
        return 1
    except OperatorError as error:
        print(f"trainfleet-exporter: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of our output has gone. Python would fail once more when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print("trainfleet-exporter: cannot write the output: its reader has closed it", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in _OUTPUT_LOST:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"trainfleet-exporter: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1


def _run_daemon(options: argparse.Namespace, signals: Signals) -> int:
    if options.config_check:
        config, access = _load_both(options)
        whose = "" if options.shard.total == 1 else f" of shard {options.shard}"
        print(f"{options.config_file}: the config is good: {len(config.providers)} provider(s){whose}")
        if access is not None:
            print(f"{options.web_config_file}: the web config is good")
        return 0
    signals.accept_hangups()
    config, access = _load_both(options)
    web = WebSettings(
        addresses=_addresses(options),
        telemetry_path=options.web_telemetry_path,
        enable_lifecycle=options.web_enable_lifecycle,
        max_connections=affordable_connections(options.web_max_connections),
        access=access,
        notice=_notice(options.shard),
    )

    shard = options.shard
    numbered = shard.ordinal if shard.total > 1 else None
    lease = None if options.lease is None else open_lease(shard=numbered)

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


def _run_once(options: argparse.Namespace, signals: Signals) -> int:
    config = _load(options)

    async def run() -> bool:
        exporter = Exporter(config, installed_platforms(), shard=options.shard)
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


def _run_diagnose(options: argparse.Namespace, signals: Signals) -> int:
    from trainfleet_exporter.diagnose import examine, show  # noqa: PLC0415 - the daemon does without it

    def progress(text: str) -> None:
        print(f"diagnose: {text}", file=sys.stderr, flush=True)

    reports = signals.finish(examine(_load(options), installed_platforms(), progress=progress, shard=options.shard))
    if options.json:
        print(json.dumps({"providers": [report.as_json() for report in reports]}, indent=2))
    else:
        print("\n".join(map(show, reports)), end="")
    return 0 if all(report.success for report in reports) else 1


def _run_backfill(options: argparse.Namespace, signals: Signals) -> int:
    from trainfleet_exporter.backfill.command import Wish, backfill, fault_in  # noqa: PLC0415 - likewise
    from trainfleet_exporter.providers.history import Range  # noqa: PLC0415

    config, platforms = _load(options), installed_platforms()
    wish = Wish(
        provider=options.provider,
        wanted=Range(options.from_, options.to),
        out=Path(options.out),
        job_id=options.job,
        labels=dict(options.label),
    )
    if fault := fault_in(wish, config, platforms, time.time()):
        backfill_parser().error(fault)

    def say(text: str) -> None:
        print(f"backfill: {text}", file=sys.stderr, flush=True)

    outcome, words = signals.finish(backfill(wish, config, platforms, say=say, stream=sys.stderr))
    print(words, file=sys.stderr if outcome.missing else sys.stdout)
    return 1 if outcome.missing else 0


def _run_report(options: argparse.Namespace, signals: Signals) -> int:
    from trainfleet_exporter.job_ledger import report  # noqa: PLC0415 - likewise

    until = datetime.now(UTC)
    since = until - timedelta(days=options.days)
    jobs, invalid = report.read_ledger(Path(options.ledger), since)
    if invalid:
        shown = ", ".join(map(str, invalid[:20])) + (", …" if len(invalid) > 20 else "")
        print(f"report: {options.ledger}: skipped {len(invalid)} invalid line(s): {shown}", file=sys.stderr)
    rows = report.report_rows(jobs)
    print(report.as_csv(rows) if options.format == "csv" else report.as_text(rows, since, until), end="")
    return 0


def _run_demo(options: argparse.Namespace, signals: Signals) -> int:
    from trainfleet_exporter.app.demo import run_demo  # noqa: PLC0415 - the daemon does without the simulated clouds

    web = WebSettings(addresses=_addresses(options), telemetry_path=options.web_telemetry_path)
    return _run_without_file(signals, lambda stopped: run_demo(stopped, web=web, seed=options.seed))


def _run_simulate(options: argparse.Namespace, signals: Signals) -> int:
    from trainfleet_exporter.app.demo import run_simulator  # noqa: PLC0415 - likewise

    return _run_without_file(signals, lambda stopped: run_simulator(stopped, address=options.listen, seed=options.seed))


def _run_without_file(signals: Signals, run: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Run a command without a config file until a signal ends it."""
    signals.accept_hangups()

    async def listening(stopped: asyncio.Event) -> None:
        signals.on_hangup(lambda: log.warning("SIGHUP ignored: this command has no config file"))
        await run(stopped)

    return signals.serve(listening)


def _load(options: argparse.Namespace) -> Config:
    platforms = installed_platforms()
    configs = {name: platform.config for name, platform in platforms.items()}
    config = load_config(Path(options.config_file), environ=os.environ, platforms=configs)
    if ledger := getattr(options, "ledger", None):
        config = config.model_copy(update={"global_": config.global_.model_copy(update={"ledger_file": Path(ledger)})})
    return apportioned(config, options.shard)


def _load_both(options: argparse.Namespace) -> tuple[Config, Access | None]:
    """The config, and what the web config file says if there is one. ConfigError has the faults of both."""
    faults: list[Fault] = []
    access = None
    if options.web_config_file:  # an empty one is none, as for the official exporters
        try:
            access = Access(Path(options.web_config_file))
        except ConfigError as error:
            faults += error.faults
    try:
        config = _load(options)
    except ConfigError as error:
        raise ConfigError([*error.faults, *faults]) from None
    if faults:
        raise ConfigError(faults)
    return config, access


def _addresses(options: argparse.Namespace) -> Sequence[str]:
    addresses: Sequence[str] = options.web_listen_address or options.default_addresses
    return addresses


_COMMANDS: dict[str, tuple[Callable[[], Parser], Callable[[argparse.Namespace, Signals], int]]] = {
    "": (daemon_parser, _run_daemon),
    "backfill": (backfill_parser, _run_backfill),
    "demo": (demo_parser, _run_demo),
    "diagnose": (diagnose_parser, _run_diagnose),
    "once": (once_parser, _run_once),
    "report": (report_parser, _run_report),
    "simulate": (simulate_parser, _run_simulate),
}
