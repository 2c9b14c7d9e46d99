"""The commands: their flags, what they do, and their exit codes.

Exit codes: 0 stopped by a signal, or a check passed. 1 could not run. 2 bad flags or bad config.
"""

from __future__ import annotations

import asyncio
import difflib
import errno
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeAlias

import click

from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import Config, load_config
from trainfleet_exporter.errors import ConfigError, Fault, OperatorError
from trainfleet_exporter.lease import open_lease
from trainfleet_exporter.process.arguments import Checked, flag, refused, run
from trainfleet_exporter.process.healthcheck import command as health_command
from trainfleet_exporter.process.logs import set_up_logs
from trainfleet_exporter.process.resources import affordable_connections, check_descriptors, tune_memory
from trainfleet_exporter.process.signals import Signals
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.sharding import Shard, apportioned, ordinal_of
from trainfleet_exporter.web.access import Access
from trainfleet_exporter.web.listeners import split_address

log = logging.getLogger(__name__)

Options: TypeAlias = Mapping[str, Any]
"""The values of flags, by their names with underscores."""
_FLAG = re.compile(r"-(?![0-9])")  # a negative number is a value
_HELP = {"-h", "--help"}
_TIMES = "an ISO date (0:00 UTC) or a time with its time zone"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. A wrong command line is explained on stderr and ends with 2."""
    return run(cli, argv)


class _Commands(click.Group):
    """Commands, and flags for running without one. A flag may stand before or after its command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command first, and write each flag as `--flag=value`."""
        owners = {str(each.name or "the exporter"): each.params for each in (self, *self.commands.values())}
        options = [option for params in owners.values() for option in params]
        switches = {name for option in options if getattr(option, "is_flag", False) for name in option.opts} | _HELP
        words, flags, forgotten, left = list[str](), list[str](), "", list(args)
        while left:
            word = left.pop(0)
            if not _FLAG.match(word):
                words.append(word)
            elif "=" in word or word in switches:
                flags.append(word)
            elif left and not _FLAG.match(left[0]):
                flags.append(f"{word}={left.pop(0)}")
            else:
                flags.append(word)
                forgotten = forgotten or word
        if words and (name := words[0]) not in self.commands:
            names = [*self.commands, "--help"]
            near = difflib.get_close_matches(name.lower(), names, 1) or difflib.get_close_matches(f"--{name}", names, 1)
            near = [f"--config.file={_plain(name)}"] if name.endswith((".yaml", ".yml")) else near
            hint = f'; did you mean "{near[0]}"?' if near else f"; allowed: {', '.join(sorted(self.commands))}"
            ctx.fail(f'unknown command "{_plain(name)}"{hint}')
        if len(words) > 1:
            ctx.fail(f'unexpected argument "{_plain(words[1])}": one command at a time')
        command: click.Command = self.commands[words[0]] if words else self
        known = {name for option in command.params for name in option.opts} | _HELP
        for name in (name for name in (word.partition("=")[0] for word in flags) if name not in known):
            whose = [owner for owner, params in owners.items() if any(name in option.opts for option in params)]
            near = difflib.get_close_matches(name, known, 1) or [flag for flag in known if flag.startswith(f"-{name}")]
            hint = f'; did you mean "{near[0]}"?' if len(near) == 1 else ""
            hint = f", which is a flag of {', '.join(whose)}" if whose else hint
            inner = click.Context(command, parent=ctx, info_name=command.name) if words else ctx
            inner.fail(f'unknown flag "{_plain(name)}"{hint}')
        if forgotten:
            ctx.fail(f"Invalid value for '{forgotten}': a value is required, but missing")
        return super().parse_args(ctx, [*words, *flags])


def _plain(word: str) -> str:
    """Return a word in an error, without what may be a user or a password."""
    kept = re.split("[^A-Za-z0-9_./-]", word[:60], maxsplit=1)[0]
    return kept if kept == word else f"{kept}…"


def _logs(level: str = "info") -> list[click.Option]:
    levels = click.Choice(("debug", "info", "warn", "error"), case_sensitive=False)
    forms = click.Choice(("logfmt", "json"), case_sensitive=False)
    return [
        flag("--log.level", "level of log lines on stderr", levels, default=level),
        flag("--log.format", "format of log lines on stderr", forms, default="logfmt"),
    ]


def _web(default: str) -> list[click.Option]:
    address, words = Checked(split_address, keep=True), "address to listen on; may be repeated"
    return [
        flag("--web.listen-address", words, address, metavar="HOST:PORT", multiple=True, default=(default,)),
        flag("--web.telemetry-path", "path of the metrics", _TELEMETRY_PATH, metavar="PATH", default="/metrics"),
    ]


Command: TypeAlias = Callable[[Options, Signals], int]
"""What a command does; returns the exit code. Its docstring is the help text."""


def _command(*params: click.Option) -> Callable[[Command], click.Command]:
    def register(command: Command) -> click.Command:
        run = wraps(command)(lambda **options: _run(command, options))
        return cli.command(params=list(params))(run)

    return register


def _run(command: Command, options: Options) -> int:
    options = {**options, "shard": _shard(options)}
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that its encoding lacks
    set_up_logs(options["log_level"], options["log_format"])
    try:
        check_descriptors()
        with Signals() as signals:
            code = command(options, signals)
        if sys.stdout is not None:
            sys.stdout.flush()  # errors of the flush are reported below
        return code
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        words = "interrupted"
    except OperatorError as error:
        words = str(error)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        # Python would fail once more when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        reason = "its reader has closed it" if error.errno == errno.EPIPE else error.strerror
        words = f"cannot write the output: {reason}"
    print(f"trainfleet-exporter: {words}", file=sys.stderr)
    return 1


def _shard(options: Options) -> Shard:
    """Return the shard of two flags, each of which is right or wrong by the other."""
    given, total = options.get("shard"), options.get("total_shards", 1)
    allowed = f"0 to {total - 1}"
    if given is None and total > 1:
        raise refused(f"--total-shards={total}: --shard=N is required, but missing; allowed: {allowed}")
    if given is not None and options.get("lease"):
        given %= total  # pods of one StatefulSet: two for each shard
    if given is not None and given >= total:
        raise refused(f"--shard: found {given}; allowed with --total-shards={total}: {allowed}")
    return Shard(given or 0, total)


def _load(options: Options) -> Config:
    configs = {name: platform.config for name, platform in installed_platforms().items()}
    config = load_config(Path(options["config_file"]), environ=os.environ, platforms=configs)
    if ledger := options.get("ledger"):
        config = config.model_copy(update={"global_": config.global_.model_copy(update={"ledger_file": Path(ledger)})})
    return apportioned(config, options["shard"])


def _load_both(options: Options) -> tuple[Config, Access | None]:
    """Load the config, and the web config file if there is one. ConfigError has the faults of both."""
    web_file = options["web_config_file"]  # an empty one is none, as for the official exporters
    loaded, faults = list[Any](), list[Fault]()
    for load in (lambda: _load(options), lambda: Access(Path(web_file)) if web_file else None):
        try:
            loaded.append(load())
        except ConfigError as error:
            faults += error.faults
    if faults:
        raise ConfigError(faults)
    return loaded[0], loaded[1]


_ORDINAL = "number of this shard from 0, or the name of its StatefulSet pod, such as exporter-3"
_TOTAL = "number of exporters that share the work of this config"
_FILE = Checked(str)
# With two strokes in front it would be another host in the links of pages.
_TELEMETRY_PATH = Checked(
    re.compile("/(?!/|-/|config$)[^{}?# ]+").fullmatch, "a path such as /metrics, but not /config or /-/", keep=True
)
_MOMENT = Checked(
    "trainfleet_exporter.backfill.days:moment", "a date such as 2026-11-20, or a time such as 2026-11-20T06:00:00Z"
)
_SERIES_LABEL = Checked("trainfleet_exporter.backfill.command:label")
_LOOPBACK = Checked("trainfleet_exporter.app.demo:loopback", "a loopback address and a port, such as 127.0.0.1:10080")
_POD = Checked(ordinal_of, "0 or more, or a name that ends with -NUMBER")
_shards = [
    flag("--shard", _ORDINAL, _POD, metavar="N"),
    flag("--total-shards", _TOTAL, click.IntRange(1, 1000), metavar="M", default=1),
]
_config = flag("--config.file", "the config file (YAML)", _FILE, metavar="FILE", required=True)
_json = flag("--json", "print JSON for programs", is_flag=True)
_address = flag("--listen", "loopback address; port 0: any", _LOOPBACK, metavar="HOST:PORT", default="127.0.0.1:0")
_seed = flag("--seed", "seed of the simulated clouds", click.INT, metavar="N", default=1)


def _daemon(options: Options, signals: Signals) -> int:
    shard: Shard = options["shard"]
    config, access = _load_both(options)
    if options["config_check"]:
        whose = "" if shard.total == 1 else f" of shard {shard}"
        print(f"{options['config_file']}: the config is good: {len(config.providers)} provider(s){whose}")
        if access is not None:
            print(f"{options['web_config_file']}: the web config is good")
        return 0
    signals.accept_hangups()
    web = WebSettings(
        addresses=options["web_listen_address"],
        telemetry_path=options["web_telemetry_path"],
        enable_lifecycle=options["web_enable_lifecycle"],
        max_connections=affordable_connections(options["web_max_connections"]),
        access=access,
        notice="" if shard.total == 1 else f"This is shard {shard} (counted from 0): it shows its providers only.",
    )
    lease = open_lease(shard=shard.ordinal if shard.total > 1 else None) if options["lease"] else None

    async def run() -> None:
        load = partial(_load, options)
        daemon = Daemon(config, installed_platforms(), web, load=load, shard=shard, lease=lease, in_thread=True)
        tune_memory()
        try:
            await daemon.start()
            signals.on(signal.SIGHUP, daemon.request_reload)
            await asyncio.Event().wait()
        finally:
            await daemon.stop()

    return signals.serve(run())


def _without_command(**options: Any) -> int:
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None:
        return 0
    if options["config_file"] is None:
        raise click.MissingParameter(ctx=ctx, param=ctx.command.params[0])
    return _run(_daemon, options)


_WEB_FILE = "TLS, users and headers, as for the official exporters (YAML)"
_CONNECTIONS = click.IntRange(2, 65535)
cli = _Commands(
    help="Prometheus exporter for training jobs on rented clouds.\n\n"
    "Write flags before or after the command. Without a command, the exporter runs.",
    callback=_without_command,
    invoke_without_command=True,
    no_args_is_help=True,
    context_settings={"help_option_names": [*_HELP], "max_content_width": 120},
    params=[
        flag("--config.file", "the config file (YAML); required without a command", _FILE, metavar="FILE"),
        *_shards,
        flag("--config.check", "check the config file and the web config file, then exit", is_flag=True),
        *_web(":10075"),
        flag("--web.config.file", _WEB_FILE, metavar="FILE", default=""),
        flag("--web.enable-lifecycle", "reload the config also on POST or PUT to /-/reload", is_flag=True),
        flag("--web.max-connections", "limit of open connections", _CONNECTIONS, metavar="N", default=512),
        flag("--ledger", "append each finished job to this file, instead of global.ledger_file", _FILE, metavar="FILE"),
        flag("--lease", "poll only while this exporter holds the Lease of Kubernetes", click.Choice(["kubernetes"])),
        *_logs(),
        click.Option(["--version"], is_flag=True, expose_value=False, help="show the version and exit"),  # see __main__
    ],
)


@_command(_config, *_shards, *_logs())
def once(options: Options, signals: Signals) -> int:
    """Run every collector once and print the metrics. Exit code 1 if a collector failed."""
    config = _load(options)

    async def run() -> bool:
        exporter = Exporter(config, installed_platforms(), shard=options["shard"])
        try:
            exporter.announce()
            succeeded = await exporter.poll_once()
            text = await exporter.text()
            if sys.stdout is not None:  # closed where only the exit code is wanted
                sys.stdout.buffer.write(text)
                sys.stdout.buffer.flush()
        finally:
            await exporter.aclose()
        return succeeded

    return 0 if signals.finish(run()) else 1


@_command(_config, *_shards, _json, *_logs("error"))  # the report says it better
def diagnose(options: Options, signals: Signals) -> int:
    """Poll once; report permissions, calls, limits and what to change.

    The report has for each provider the source of its credentials, the response of each endpoint and missing
    permissions. It compares calls with known limits. Exit code 1 if a collector failed.
    """
    from trainfleet_exporter.diagnose import examine, show  # noqa: PLC0415 - the daemon does without it

    found = signals.finish(examine(_load(options), installed_platforms(), shard=options["shard"], say=_say("diagnose")))
    as_json = {"providers": [report.as_json() for report in found]}
    print(json.dumps(as_json, indent=2) + "\n" if options["json"] else "\n".join(map(show, found)), end="")
    return 0 if all(report.success for report in found) else 1


@_command(
    _config,
    flag("--provider", "name of the provider in the config", metavar="NAME", required=True),
    flag("--from", f"start, {_TIMES}", _MOMENT, metavar="TIME", required=True),
    flag("--to", "end, exclusive, in the same format", _MOMENT, metavar="TIME", required=True),
    flag("--job", "write only this job instead of all that the config selects", metavar="ID", default=""),
    flag("--out", "directory of the files, created if missing", metavar="DIR", required=True),
    flag("--label", "label for all series; may be repeated", _SERIES_LABEL, multiple=True),
    *_logs(),
)
def backfill(options: Options, signals: Signals) -> int:
    """Write metrics of past days for Prometheus, as OpenMetrics with timestamps.

    Writes a file for each UTC day, if the clouds still have it. `promtool tsdb create-blocks-from openmetrics` turns
    the files into blocks. To continue after an interruption, run the same command again. Exit code 1 if a day is
    missing.
    """
    from trainfleet_exporter.backfill import command  # noqa: PLC0415 - likewise
    from trainfleet_exporter.backfill.work import Flags  # noqa: PLC0415
    from trainfleet_exporter.providers.past import Range  # noqa: PLC0415

    config, platforms = _load(options), installed_platforms()
    flags = Flags(
        provider=options["provider"],
        wanted=Range(options["from"], options["to"]),
        out=Path(options["out"]),
        job_id=options["job"],
        labels=dict(options["label"]),
    )
    if fault := command.fault_in(flags, config, platforms, time.time()):
        raise refused(fault)
    outcome, words = signals.finish(command.backfill(flags, config, platforms, say=_say("backfill")))
    print(words, file=sys.stderr if outcome.failures else sys.stdout)
    return 1 if outcome.failures else 0


@_command(
    flag("--ledger", "ledger file of the exporter", _FILE, metavar="FILE", required=True),
    flag("--days", "jobs that finished in the last N days", click.IntRange(1, 9999), metavar="N", default=7),
    flag("--format", "format of the report", click.Choice(("text", "csv")), default="text"),
    flag("--prices", "add the cost, by the `prices` of a file such as thresholds.yaml", _FILE, metavar="FILE"),
    *_logs(),
)
def report(options: Options, signals: Signals) -> int:
    """Report on finished jobs: usage, waste and waits by user.

    The tables cover all jobs, then each user, pool and label. They show accelerator-hours, hours by phase, and lost or
    idle time. They also show faults by cause, and waits.
    """
    from trainfleet_exporter.job_ledger.report import report  # noqa: PLC0415 - likewise

    text, warning = report(
        Path(options["ledger"]),
        days=options["days"],
        is_csv=options["format"] == "csv",
        prices_file=Path(options["prices"]) if options["prices"] else None,
    )
    if warning:
        _say("report")(warning)
    print(text, end="")
    return 0


def _say(command: str) -> Callable[[str], None]:
    return partial(print, f"{command}:", file=sys.stderr, flush=True)


@_command(*_web("127.0.0.1:10075"), _seed, *_logs("warn"))
def demo(options: Options, signals: Signals) -> int:
    """Run the exporter on simulated clouds, with real HTTP and signatures. No account is needed."""
    from trainfleet_exporter.app.demo import run_demo  # noqa: PLC0415 - the daemon does without the simulated clouds

    web = WebSettings(addresses=options["web_listen_address"], telemetry_path=options["web_telemetry_path"])
    return _serve_without_file(signals, run_demo(web, options["seed"]))


@_command(_address, _seed, *_logs())
def simulate(options: Options, signals: Signals) -> int:
    """Run only the simulated clouds and print a config file for them, for developers."""
    from trainfleet_exporter.app.demo import run_simulator  # noqa: PLC0415 - likewise

    return _serve_without_file(signals, run_simulator(*options["listen"], seed=options["seed"]))


def _serve_without_file(signals: Signals, work: Coroutine[Any, Any, None]) -> int:
    signals.accept_hangups()
    signals.on(signal.SIGHUP, lambda: log.warning("SIGHUP ignored: this command has no config file"))
    return signals.serve(work)


cli.add_command(health_command)
