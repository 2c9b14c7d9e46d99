"""The report as text: one screen for each provider. The advice comes last, next to the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from trainfleet_exporter.config.kinds import format_duration
from trainfleet_exporter.diagnose.report import CallsReport, CollectorReport, ProviderReport
from trainfleet_exporter.transport.json_fields import iso_time, printable

_WIDEST = 90


def show(report: ProviderReport) -> str:
    """The report as text that ends with a line break."""
    expire = report.credentials_expire
    until = "" if expire is None else f", valid until {iso_time(expire)}"
    lines = [
        f"{report.provider}: {report.platform} in {report.region}",
        f"  credentials from: {report.credentials}{until}",
        "",
        *_table(("FAMILY", "SERIES"), ((family, f"{count:,}") for family, count in sorted(report.series.items()))),
        f"  {'total':<{max(map(len, report.series), default=6)}}  {sum(report.series.values()):,}",
        "",
        *_table(
            ("API", "SECONDS", "OUTCOMES", "ENDPOINT"),
            (
                (row.api, f"{row.seconds:.2f}" if row.outcomes else "", _counts(row.outcomes) or "not called", row.url)
                for row in report.endpoints
            ),
        ),
        "",
        *_table(
            ("COLLECTOR", "OK", "INTERVAL", "TAKES", "MAY TAKE", "FAILED PARTS", "SERIES", "CALLS A POLL"),
            map(_collector, report.collectors),
        ),
        "  TAKES: time of a poll, at the limits and the cloud's speed. MAY TAKE: poll_timeout, or a cycle's interval.",
        "",
        *_table(("API", "CALLS A MINUTE", "LIMIT", "CALLS A MONTH", "BUDGET", "FREE"), map(_calls, report.calls)),
    ]
    if report.missing_rights:
        rights = ((row.right, row.operation, row.message) for row in report.missing_rights)
        lines += ["", *_table(("MISSING PERMISSION", "OPERATION", "ERROR"), rights)]
    if report.problems:
        problems = ((row.reason, ", ".join(row.collectors), str(row.count), row.message) for row in report.problems)
        lines += ["", *_table(("PROBLEM", "COLLECTORS", "TIMES", "ERROR"), problems)]
    lines += ["", "  what to change:", *(f"  - {printable(line, 600)}" for line in report.advice or ("nothing",))]
    return "\n".join(lines) + "\n"


def _collector(row: CollectorReport) -> tuple[str, ...]:
    sampled = f" ({row.tried} of {row.units} jobs tried)" if row.tried < row.units else ""
    return (
        row.collector,
        {True: "yes", False: "NO", None: "not ended"}[row.success],
        format_duration(round(row.interval)),
        f"{row.needs:.1f}s",
        f"{row.has:.0f}s",
        str(row.parts_failed),
        f"{row.series:,}",
        (_counts(row.calls) or "none") + sampled,
    )


def _calls(row: CallsReport) -> tuple[str, ...]:
    more = "at least " if row.at_least else ""
    shared = "" if row.of_account == row.month else f" (account {row.of_account:,.0f})"
    return (
        row.api,
        f"{row.minute:.1f}",
        f"{row.minute_limit:.0f}",
        f"{more}{row.month:,.0f}{shared}",
        "" if row.budget is None else f"{row.budget:,}",
        "" if row.free is None else f"{row.free:,}",
    )


def _counts(counts: Mapping[str, int]) -> str:
    return " ".join(f"{count} {word}" for word, count in sorted(counts.items()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield aligned lines. The last column may be long, the others are cut."""
    made = [[*(printable(cell, _WIDEST) for cell in row[:-1]), printable(row[-1], 600)] for row in rows]
    widths = [max(len(row[place]) for row in [list(heads), *made]) for place in range(len(heads))]
    for row in [list(heads), *made]:
        yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
