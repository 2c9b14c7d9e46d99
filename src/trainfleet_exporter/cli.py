"""The command line: flags, commands and exit codes.

0: stopped by a signal, or a check passed. 1: could not run. 2: bad flags or bad config.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import logging
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.errors import ConfigError, Fault, OperatorError, StartError
from trainfleet_exporter.process.arguments import Parser, file_name, found, one_of, split, version, whole_number
from trainfleet_exporter.process.logs import LOG_FORMATS, LOG_LEVELS, set_up_logs
from trainfleet_exporter.process.resources import affordable_connections, check_descriptors, tune_memory
from trainfleet_exporter.process.signals import Signals
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import MOST_SHARDS, WHOLE, Shard, apportioned, ordinal_of
from trainfleet_exporter.web.access import Access
from trainfleet_exporter.web.connection_limiter import MAX_CONNECTIONS
from trainfleet_exporter.web.listeners import split_address

log = logging.getLogger(__name__)

_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What a disk behind the standard output may have to say."""
_EPILOG = """\
commands:
  trainfleet-exporter --config.file=FILE          run the exporter
  trainfleet-exporter demo                        run the exporter on simulated clouds; no account needed
  trainfleet-exporter once --config.file=FILE     poll every collector once, print the metrics and exit
  trainfleet-exporter backfill --config.file=FILE write metrics of past days for Prometheus
  trainfleet-exporter diagnose --config.file=FILE poll once; report permissions, calls, limits and what to change
  trainfleet-exporter report --ledger=FILE        report on finished jobs: usage, waste and waits by user
  trainfleet-exporter healthcheck                 check that a running exporter responds, for containers
  trainfleet-exporter simulate                    run only the simulated clouds, for developers

Write flags before or after the command. `trainfleet-exporter COMMAND --help` lists the flags of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. Without arguments, print the help, as promtool and amtool do."""
    words = sys.argv[1:] if argv is None else argv
    if not words:
        _daemon_parser().print_help()
        return 0
    arguments = split(words)
    if arguments.command not in _COMMANDS:
        _daemon_parser().refuse_command(arguments.command)
    parse, run = _COMMANDS[arguments.command]
    parser = parse()
    options = parser.read(arguments, {command: other for command, (other, _) in _COMMANDS.items()})
    _find_shard(parser, options)
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
        print(f"{options.config_file}: the config is good: {len(config.providers)} provider(s)")
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

    async def run(stopped: asyncio.Event) -> None:
        daemon = Daemon(config, installed_platforms(), web, load=partial(_load, options), shard=options.shard)
        tune_memory()
        try:
            await daemon.start()
            signals.on_hangup(daemon.request_reload)
            await stopped.wait()
        finally:
            await daemon.stop()

    return signals.serve(run)


def _notice(shard: Shard) -> str:
    """What readers of a shard's status page must know."""
    if shard.total == 1:
        return ""
    return f"This is shard {shard.ordinal} of {shard.total} (counted from 0): it shows its part of the fleet."


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
        _backfill_parser().error(fault)

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
    """Run what has no config file of its own until a signal ends it."""
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
    return apportioned(config, options.shard, {name: platform.splits for name, platform in platforms.items()})


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


def _parser(command: str, description: str, *, epilog: str | None = None, level: str = "info") -> Parser:
    parser = Parser(command, description, epilog)
    parser.set_defaults(shard=WHOLE)
    for name, words, default in (("level", LOG_LEVELS, level), ("format", LOG_FORMATS, "logfmt")):
        parser.add_argument(
            f"--log.{name}",
            dest=f"log_{name}",
            metavar=f"{{{','.join(words)}}}",
            type=one_of(tuple(words)),
            default=default,
            help=f"{name} of log lines on stderr; default: {default}",
        )
    return parser


def _add_config(parser: Parser) -> None:
    parser.add_argument(
        "--config.file",
        dest="config_file",
        metavar="FILE",
        type=file_name,
        required=True,
        help="the config file (YAML); required",
    )


def _add_shard(parser: Parser) -> None:
    parser.add_argument(
        "--shard",
        dest="given_shard",
        metavar="N",
        type=_ordinal,
        help="number of this shard, from 0 to --total-shards minus 1; a StatefulSet pod may give its name, such as "
        "exporter-3; default: 0",
    )
    parser.add_argument(
        "--total-shards",
        dest="total_shards",
        metavar="M",
        type=_total_shards,
        default=1,
        help="number of exporters that share the work of this config; default: 1",
    )


def _ordinal(value: str) -> int:
    ordinal = ordinal_of(value)
    if ordinal is None:
        raise argparse.ArgumentTypeError(f"{found(value)}; allowed: 0 or more, or a name that ends with -NUMBER")
    return ordinal


def _total_shards(value: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", value) or not 1 <= int(value) <= MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"{found(value[:20])}; allowed: a number from 1 to {MOST_SHARDS}")
    return int(value)


def _find_shard(parser: Parser, options: argparse.Namespace) -> None:
    """Join the two flags, of commands that have them: each is right or wrong by the other."""
    if "given_shard" not in options:
        return
    given, total = options.given_shard, options.total_shards
    if given is None and total > 1:
        parser.error(f"--total-shards={total}: --shard=N is required, but missing; allowed: 0 to {total - 1}")
    if given is not None and given >= total:
        parser.error(f"--shard: found {given}; allowed with --total-shards={total}: 0 to {total - 1}")
    options.shard = Shard(given or 0, total)


def _add_web(parser: Parser, default: str) -> None:
    parser.add_argument(
        "--web.listen-address",
        dest="web_listen_address",
        metavar="HOST:PORT",
        action="append",
        type=_listen_address,
        help=f"address to listen on; may be repeated; default: {default}",
    )
    parser.add_argument(
        "--web.telemetry-path",
        dest="web_telemetry_path",
        metavar="PATH",
        type=_telemetry_path,
        default="/metrics",
        help="path of the metrics; default: /metrics",
    )
    parser.set_defaults(default_addresses=(default,))


def _listen_address(value: str) -> str:
    try:
        split_address(value)
    except StartError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value


def _max_connections(value: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", value) or not 2 <= int(value) <= 65535:
        raise argparse.ArgumentTypeError(f"{found(value[:20])}; allowed: a number from 2 to 65535")
    return int(value)


def _telemetry_path(value: str) -> str:
    # With two strokes in front it would be another host in the links of pages.
    if not value.startswith("/") or value == "/" or value.startswith("//") or any(char in value for char in "{}?# "):
        raise argparse.ArgumentTypeError(f"{found(value)}; allowed: a path such as /metrics")
    if value == "/config" or value.startswith("/-/"):
        raise argparse.ArgumentTypeError(f"{found(value)}, which is another page; allowed: a path such as /metrics")
    return value


def _daemon_parser() -> Parser:
    parser = _parser("", "Prometheus exporter for training jobs on rented clouds.", epilog=_EPILOG)
    _add_config(parser)
    _add_shard(parser)
    parser.add_argument(
        "--config.check",
        dest="config_check",
        action="store_true",
        help="check the config file and the web config file, then exit",
    )
    _add_web(parser, ":10075")
    parser.add_argument(
        "--web.config.file",
        dest="web_config_file",
        metavar="FILE",
        default="",
        help="file with TLS, users and headers, in the format of the official exporters (YAML); default: none",
    )
    parser.add_argument(
        "--web.enable-lifecycle",
        dest="web_enable_lifecycle",
        action="store_true",
        help="reload the config also on POST or PUT to /-/reload; default: only on SIGHUP",
    )
    parser.add_argument(
        "--web.max-connections",
        dest="web_max_connections",
        metavar="N",
        type=_max_connections,
        default=MAX_CONNECTIONS,
        help=f"limit of open connections; one client address may hold half of them; default: {MAX_CONNECTIONS}",
    )
    parser.add_argument(
        "--ledger",
        metavar="FILE",
        type=file_name,
        default=None,
        help="append each finished job to this file, as a line of JSON; default: global.ledger_file of the config",
    )
    parser.add_argument("--version", action="version", version=version())
    return parser


def _once_parser() -> Parser:
    parser = _parser("once", "Polls every collector once and prints the metrics.\nExit code 1 if a collector failed.")
    _add_config(parser)
    _add_shard(parser)
    return parser


def _diagnose_parser() -> Parser:
    parser = _parser(
        "diagnose",
        "Polls every collector once. Reports for each provider the source of its credentials, the response of each\n"
        "endpoint and missing permissions. Compares calls with known limits, and lists what to change.\n"
        "Exit code 1 if a collector failed.",
        level="error",  # the report says it better
    )
    _add_config(parser)
    _add_shard(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    return parser


def _backfill_parser() -> Parser:
    parser = _parser(
        "backfill",
        "Writes metrics of past days as OpenMetrics with timestamps, as far as the clouds still have them.\n"
        "Writes a file for each UTC day. `promtool tsdb create-blocks-from openmetrics` turns the files into blocks.\n"
        "To continue after an interruption, run the same command again. Exit code 1 if a day is missing.",
    )
    _add_config(parser)
    parser.add_argument(
        "--provider", metavar="NAME", required=True, help="name of the provider in the config; required"
    )
    times = "an ISO date (0:00 UTC) or a time with its time zone; required"
    parser.add_argument("--from", dest="from_", metavar="TIME", required=True, type=_moment, help=f"start, {times}")
    parser.add_argument(
        "--to", metavar="TIME", required=True, type=_moment, help="end, exclusive, in the same format; required"
    )
    parser.add_argument(
        "--job", metavar="ID", default="", help="write only this job; default: all jobs that the config selects"
    )
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="directory of the files, created if missing; required"
    )
    parser.add_argument(
        "--label",
        metavar="NAME=VALUE",
        action="append",
        type=_label,
        default=[],
        help="label to add to all series, such as instance and job of the scrape; may be repeated",
    )
    return parser


def _report_parser() -> Parser:
    parser = _parser(
        "report",
        "Reports on the finished jobs of a ledger: accelerator-hours, hours by phase, and lost or idle time.\n"
        "Also reports faults by cause, and waits. The tables cover all jobs, then each user, pool and label.",
    )
    parser.add_argument(
        "--ledger", metavar="FILE", type=file_name, required=True, help="ledger file of the exporter; required"
    )
    parser.add_argument(
        "--days", metavar="N", type=_days, default=7, help="report on jobs that finished in the last N days; default: 7"
    )
    formats = ("text", "csv")
    parser.add_argument(
        "--format",
        metavar="{text,csv}",
        type=one_of(formats),
        default="text",
        help="format of the report; default: text",
    )
    return parser


def _days(value: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", value) or int(value) == 0:
        raise argparse.ArgumentTypeError(f"{found(value[:20])}; allowed: a number from 1 to 9999")
    return int(value)


def _moment(value: str) -> int:
    from trainfleet_exporter.backfill.days import moment  # noqa: PLC0415 - the daemon does without it

    try:
        return moment(value)
    except (ValueError, OverflowError):
        allowed = "a date such as 2026-11-20, or a time such as 2026-11-20T06:00:00Z"
        raise argparse.ArgumentTypeError(f"{found(value[:40])}; allowed: {allowed}") from None


def _label(value: str) -> tuple[str, str]:
    from trainfleet_exporter.backfill.command import label  # noqa: PLC0415 - likewise

    try:
        return label(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _demo_parser() -> Parser:
    words = "Runs the exporter on simulated clouds, with real HTTP and signatures. No account is needed."
    parser = _parser("demo", words, level="warn")
    _add_web(parser, "127.0.0.1:10075")
    _add_seed(parser)
    return parser


def _simulate_parser() -> Parser:
    parser = _parser("simulate", "Runs only the simulated clouds and prints a config file for them.")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=_loopback_address,
        default="127.0.0.1:0",
        help="loopback address to listen on, port 0 for any free port; default: 127.0.0.1:0",
    )
    _add_seed(parser)
    return parser


def _loopback_address(value: str) -> str:
    from trainfleet_exporter.app.demo import loopback  # noqa: PLC0415 - the daemon does without the simulated clouds

    try:
        loopback(value)
    except StartError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return value


def _add_seed(parser: Parser) -> None:
    parser.add_argument(
        "--seed", metavar="N", type=whole_number, default=1, help="seed of the simulated clouds; default: 1"
    )


_COMMANDS: dict[str, tuple[Callable[[], Parser], Callable[[argparse.Namespace, Signals], int]]] = {
    "": (_daemon_parser, _run_daemon),
    "backfill": (_backfill_parser, _run_backfill),
    "demo": (_demo_parser, _run_demo),
    "diagnose": (_diagnose_parser, _run_diagnose),
    "once": (_once_parser, _run_once),
    "report": (_report_parser, _run_report),
    "simulate": (_simulate_parser, _run_simulate),
}
