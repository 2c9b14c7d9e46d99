"""The commands and their flags. What they do is in `commands`, which is slow to import.

Exit codes: 0 stopped by a signal, or a check passed. 1 could not run. 2 bad flags or bad config.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

from trainfleet_exporter.process.arguments import Commands, checked, found, version
from trainfleet_exporter.process.signals import ignore_hangups

F = TypeVar("F", bound=Callable[..., Any])
_SHORT_COMMANDS = ("once", "diagnose")
"""Commands that end when their terminal closes, like any other command-line tool."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    code = cli.main(sys.argv[1:] if argv is None else argv)
    return code if isinstance(code, int) else 0


def _run(command: str, options: dict[str, Any]) -> int:
    # Nothing slow is imported before SIGHUP can do no harm.
    restore_hangups = ignore_hangups()
    from trainfleet_exporter import commands  # noqa: PLC0415 - slow

    if command in _SHORT_COMMANDS:
        restore_hangups()
    return commands.run(command, options)


def _later(module: str, function: str, *, keep: bool = False) -> Callable[[str], Any]:
    """A check of a flag's value by a module that is slow to import. `keep` keeps the text instead of the result."""

    def check(value: str) -> Any:
        result = getattr(import_module(f"trainfleet_exporter.{module}"), function)(value)
        return value if keep else result

    return check


def _file(value: str) -> str:
    if not value:
        raise ValueError("a value is required, but missing")
    return value


def _telemetry_path(value: str) -> str:
    # With two strokes in front it would be another host in the links of pages.
    if not value.startswith("/") or value == "/" or value.startswith("//") or any(char in value for char in "{}?# "):
        raise ValueError(f"{found(value)}; allowed: a path such as /metrics")
    if value == "/config" or value.startswith("/-/"):
        raise ValueError(f"{found(value)}, which is another page; allowed: a path such as /metrics")
    return value


def _lease(value: str) -> str:
    if value != "kubernetes":
        instead = "use --lease=kubernetes, or run one exporter without --lease, under systemd with Restart=always"
        raise ValueError(f"{found(value)}; allowed: kubernetes. In place of a file, {instead}")
    return value


def _ordinal(value: str) -> int:
    ordinal: int | None = _later("sharding", "ordinal_of")(value)
    if ordinal is None:
        raise ValueError(f"{found(value)}; allowed: 0 or more, or a name that ends with -NUMBER")
    return ordinal


def _moment(value: str) -> int:
    try:
        return int(_later("backfill.days", "moment")(value))
    except (ValueError, OverflowError):
        allowed = "a date such as 2026-11-20, or a time such as 2026-11-20T06:00:00Z"
        raise ValueError(f"{found(value[:40])}; allowed: {allowed}") from None


def _flag(name: str, text: str, check: Callable[[str], Any] | None = None, **settings: Any) -> Callable[[F], F]:
    """A flag with its help text. `check` returns its value, or refuses it."""
    variable = name.removeprefix("--").replace(".", "_").replace("-", "_")
    settings |= {"callback": checked(check)} if check else {}
    settings = {"show_default": settings.get("default") not in (None, "")} | settings
    return click.option(name, variable, help=text, **settings)


def _show_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        click.echo(version())
        ctx.exit()


def _flags(*flags: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return decorate


def _logs(level: str = "info") -> Callable[[F], F]:
    levels, forms = click.Choice(("debug", "info", "warn", "error")), click.Choice(("logfmt", "json"))
    return _flags(
        _flag("--log.level", "level of log lines on stderr", type=levels, default=level),
        _flag("--log.format", "format of log lines on stderr", type=forms, default="logfmt"),
    )


def _web(default: str) -> Callable[[F], F]:
    listens, several = _later("web.listeners", "split_address", keep=True), {"multiple": True, "default": (default,)}
    words = "address to listen on; may be repeated"
    return _flags(
        _flag("--web.listen-address", words, listens, metavar="HOST:PORT", **several),
        _flag("--web.telemetry-path", "path of the metrics", _telemetry_path, metavar="PATH", default="/metrics"),
    )


_ORDINAL = "number of this shard from 0, or the name of its StatefulSet pod, such as exporter-3"
_TOTAL = "number of exporters that share the work of this config"
_TIMES = "an ISO date (0:00 UTC) or a time with its time zone"
_config = _flag("--config.file", "the config file (YAML)", _file, metavar="FILE", required=True)
_shards = _flags(
    _flag("--shard", _ORDINAL, _ordinal, metavar="N"),
    _flag("--total-shards", _TOTAL, type=click.IntRange(1, 1000), metavar="M", default=1),
)
_seed = _flag("--seed", "seed of the simulated clouds", type=int, metavar="N", default=1)
_switch: dict[str, Any] = {"is_flag": True, "show_default": False}
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


@click.group(cls=Commands, invoke_without_command=True, context_settings=_SETTINGS)
@_flag("--config.file", "the config file (YAML); required without a command", _file, metavar="FILE")
@_shards
@_flag("--config.check", "check the config file and the web config file, then exit", **_switch)
@_web(":10075")
@_flag("--web.config.file", "TLS, users and headers, as for the official exporters (YAML)", metavar="FILE", default="")
@_flag("--web.enable-lifecycle", "reload the config on SIGHUP, and on POST or PUT to /-/reload", **_switch)
@_flag("--web.max-connections", "limit of open connections", type=click.IntRange(2, 65535), metavar="N", default=512)
@_flag("--ledger", "append each finished job to this file, instead of global.ledger_file", _file, metavar="FILE")
@_flag("--lease", "poll only while this exporter holds the Lease of Kubernetes", _lease, metavar="{kubernetes}")
@_logs()
@_flag("--version", "show the version and exit", is_eager=True, callback=_show_version, **_switch)
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> int:
    """Prometheus exporter for training jobs on rented clouds.

    Write flags before or after the command. Without a command, the exporter runs.
    """
    del options["version"]
    if ctx.invoked_subcommand is not None:
        return 0
    if options["config_file"] is None:
        raise click.UsageError("Missing option '--config.file'.", ctx)
    return _run("", options)


@cli.command()
@_config
@_shards
@_logs()
def once(**options: Any) -> int:
    """Run every collector once and print the metrics. Exit code 1 if a collector failed."""
    return _run("once", options)


@cli.command()
@_config
@_shards
@_flag("--json", "print JSON for programs", **_switch)
@_logs("error")  # the report says it better
def diagnose(**options: Any) -> int:
    """Poll once; report permissions, calls, limits and what to change.

    The report has for each provider the source of its credentials, the response of each endpoint and missing
    permissions. It compares calls with known limits. Exit code 1 if a collector failed.
    """
    return _run("diagnose", options)


@cli.command()
@_config
@_flag("--provider", "name of the provider in the config", metavar="NAME", required=True)
@_flag("--from", f"start, {_TIMES}", _moment, metavar="TIME", required=True)
@_flag("--to", "end, exclusive, in the same format", _moment, metavar="TIME", required=True)
@_flag("--job", "write only this job instead of all that the config selects", metavar="ID", default="")
@_flag("--out", "directory of the files, created if missing", metavar="DIR", required=True)
@_flag("--label", "label for all series; may be repeated", _later("backfill.command", "label"), multiple=True)
@_logs()
def backfill(**options: Any) -> int:
    """Write metrics of past days for Prometheus, as OpenMetrics with timestamps.

    Writes a file for each UTC day, if the clouds still have it. `promtool tsdb create-blocks-from openmetrics` turns
    the files into blocks. To continue after an interruption, run the same command again. Exit code 1 if a day is
    missing.
    """
    return _run("backfill", options)


@cli.command()
@_flag("--ledger", "ledger file of the exporter", _file, metavar="FILE", required=True)
@_flag("--days", "jobs that finished in the last N days", type=click.IntRange(1, 9999), metavar="N", default=7)
@_flag("--format", "format of the report", type=click.Choice(("text", "csv")), default="text")
@_logs()
def report(**options: Any) -> int:
    """Report on finished jobs: usage, waste and waits by user.

    The tables cover all jobs, then each user, pool and label. They show accelerator-hours, hours by phase, and lost or
    idle time. They also show faults by cause, and waits.
    """
    return _run("report", options)


@cli.command()
@_web("127.0.0.1:10075")
@_seed
@_logs("warn")
def demo(**options: Any) -> int:
    """Run the exporter on simulated clouds, with real HTTP and signatures. No account is needed."""
    return _run("demo", options)


_LOOPBACK = _later("app.demo", "loopback", keep=True)


@cli.command()
@_flag("--listen", "loopback address; port 0: any", _LOOPBACK, metavar="HOST:PORT", default="127.0.0.1:0")
@_seed
@_logs()
def simulate(**options: Any) -> int:
    """Run only the simulated clouds and print a config file for them, for developers."""
    return _run("simulate", options)


_URL: dict[str, Any] = {"default": "http://127.0.0.1:10075/-/healthy", "metavar": "URL"}


@cli.command()
@_flag("--url", "address of the page", _later("process.healthcheck", "parse_url", keep=True), **_URL)
@_flag("--tls.ca-file", "certificates to trust instead of the system's (PEM)", metavar="FILE")
@_flag("--tls.insecure-skip-verify", "accept any certificate; nothing secret is sent", **_switch)
@_flag("--tls.cert-file", "client certificate for mutual TLS (PEM)", metavar="FILE")
@_flag("--tls.key-file", "key of the client certificate, if in another file (PEM)", metavar="FILE")
def healthcheck(**options: Any) -> int:
    """Check that a running exporter responds, for containers.

    Exit code 0 if it does: with 200, or with 401 or 429 if its web config has users or a rate limit. 1 if it does not
    respond within 3 s, 2 on bad flags.
    """
    if options["tls_key_file"] and not options["tls_cert_file"]:
        raise click.UsageError("--tls.key-file needs --tls.cert-file")
    if options["tls_ca_file"] and options["tls_insecure_skip_verify"]:
        raise click.UsageError("--tls.ca-file and --tls.insecure-skip-verify exclude each other")
    return int(import_module("trainfleet_exporter.process.healthcheck").check(options))
