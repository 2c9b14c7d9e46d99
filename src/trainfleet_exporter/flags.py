"""The flags of each command, and what each may be."""

from __future__ import annotations

import argparse

from trainfleet_exporter.errors import StartError
from trainfleet_exporter.process.arguments import Parser, file_name, found, number, one_of, version, whole_number
from trainfleet_exporter.process.logs import LOG_FORMATS, LOG_LEVELS
from trainfleet_exporter.sharding import MOST_SHARDS, WHOLE, Shard, ordinal_of
from trainfleet_exporter.web.connection_limiter import MAX_CONNECTIONS
from trainfleet_exporter.web.listeners import split_address

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
        type=number(1, MOST_SHARDS),
        default=1,
        help="number of exporters that share the work of this config; default: 1",
    )


def _ordinal(value: str) -> int:
    ordinal = ordinal_of(value)
    if ordinal is None:
        raise argparse.ArgumentTypeError(f"{found(value)}; allowed: 0 or more, or a name that ends with -NUMBER")
    return ordinal


def find_shard(parser: Parser, options: argparse.Namespace) -> None:
    """Join the two flags, of commands that have them: each is right or wrong by the other."""
    if "given_shard" not in options:
        return
    given, total = options.given_shard, options.total_shards
    if given is not None and getattr(options, "lease", None):
        given %= total  # pods of one StatefulSet: two for each shard
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


def _telemetry_path(value: str) -> str:
    # With two strokes in front it would be another host in the links of pages.
    if not value.startswith("/") or value == "/" or value.startswith("//") or any(char in value for char in "{}?# "):
        raise argparse.ArgumentTypeError(f"{found(value)}; allowed: a path such as /metrics")
    if value == "/config" or value.startswith("/-/"):
        raise argparse.ArgumentTypeError(f"{found(value)}, which is another page; allowed: a path such as /metrics")
    return value


def daemon_parser() -> Parser:
    """Flags of `trainfleet-exporter` without a command."""
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
        type=number(2, 65535),
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
    parser.add_argument(
        "--lease",
        metavar="{kubernetes}",
        type=_lease,
        default=None,
        help="poll only while this exporter holds the lease, an object of Kubernetes; default: poll always",
    )
    parser.add_argument("--version", action="version", version=version())
    return parser


def _lease(value: str) -> str:
    if value.startswith("file:"):
        raise argparse.ArgumentTypeError(
            f"{found(value)}: leases in files were removed; on Kubernetes use --lease=kubernetes, elsewhere leave out "
            "--lease and run one exporter, under systemd with Restart=always"
        )
    return one_of(("kubernetes",))(value)


def once_parser() -> Parser:
    """Flags of `once`."""
    parser = _parser("once", "Runs every collector once and prints the metrics.\nExit code 1 if a collector failed.")
    _add_config(parser)
    _add_shard(parser)
    return parser


def diagnose_parser() -> Parser:
    """Flags of `diagnose`."""
    parser = _parser(
        "diagnose",
        "Runs every collector once. Reports for each provider the source of its credentials, the response of each\n"
        "endpoint and missing permissions. Compares calls with known limits, and lists what to change.\n"
        "Exit code 1 if a collector failed.",
        level="error",  # the report says it better
    )
    _add_config(parser)
    _add_shard(parser)
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    return parser


def backfill_parser() -> Parser:
    """Flags of `backfill`."""
    parser = _parser(
        "backfill",
        "Writes metrics of past days as OpenMetrics with timestamps, if the clouds still have them.\n"
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


def report_parser() -> Parser:
    """Flags of `report`."""
    parser = _parser(
        "report",
        "Reports on the finished jobs of a ledger: accelerator-hours, hours by phase, and lost or idle time.\n"
        "Also reports faults by cause, and waits. The tables cover all jobs, then each user, pool and label.",
    )
    parser.add_argument(
        "--ledger", metavar="FILE", type=file_name, required=True, help="ledger file of the exporter; required"
    )
    parser.add_argument(
        "--days",
        metavar="N",
        type=number(1, 9999),
        default=7,
        help="report on jobs that finished in the last N days; default: 7",
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


def demo_parser() -> Parser:
    """Flags of `demo`."""
    words = "Runs the exporter on simulated clouds, with real HTTP and signatures. No account is needed."
    parser = _parser("demo", words, level="warn")
    _add_web(parser, "127.0.0.1:10075")
    _add_seed(parser)
    return parser


def simulate_parser() -> Parser:
    """Flags of `simulate`."""
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
