"""The report for people: one screen a provider."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainfleet_exporter.config.durations import format_duration
from trainfleet_exporter.diagnose.report import ProviderReport
from trainfleet_exporter.quantities import iso_time, printable

_WIDEST = 90


def show(report: ProviderReport) -> str:
    """The report as text that ends with a line break."""
    expire = report.credentials_expire
    until = "" if expire is None else f", valid until {iso_time(expire)}"
    lines = [
        f"{report.provider}: {report.platform} in {report.region}",
        f"  credentials from: {report.credentials}{until}",
        "",
        *_table(
            ("API", "ANSWERED", "ENDPOINT"),
            (
                (
                    row.api,
                    _counts(row.outcomes) or "not called",
                    row.url + (f"  ({row.problem})" if row.problem else ""),
                )
                for row in report.endpoints
            ),
        ),
        "",
        *_table(
            ("COLLECTOR", "OK", "TOOK", "NEEDS", "HAS", "EVERY", "CALLS", "PARTS", "FAILED", "SERIES"),
            (
                (
                    row.collector,
                    "yes" if row.success else "NO",
                    f"{row.seconds:.1f}s",
                    f"{row.needs:.1f}s",
                    f"{row.has:.0f}s",
                    format_duration(round(row.interval)),
                    _counts(row.calls) or "none",
                    str(row.parts),
                    str(row.parts_failed),
                    f"{row.series:,}",
                )
                for row in report.collectors
            ),
        ),
        "  NEEDS: for its calls at limits.requests_per_second; HAS: poll_timeout, or a cycle's interval.",
        "",
        *_table(
            ("API", "CALLS A MINUTE", "AT MOST", "CALLS A MONTH", "BUDGET", "FREE"),
            (
                (
                    row.api,
                    f"{row.minute:.1f}",
                    f"{row.minute_limit:.0f}",
                    f"{row.month:,.0f}",
                    "" if row.budget is None else f"{row.budget:,}",
                    "" if row.free is None else f"{row.free:,}",
                )
                for row in report.calls
            ),
        ),
        "",
        *_table(("FAMILY", "SERIES"), ((family, f"{count:,}") for family, count in sorted(report.series.items()))),
        f"  {'in all':<{max(map(len, report.series), default=6)}}  {sum(report.series.values()):,}",
    ]
    if report.missing_rights:
        rights = ((row.right, row.operation, row.message) for row in report.missing_rights)
        lines += ["", *_table(("MISSING RIGHT", "FOR", "TOLD"), rights)]
    problems = [(row.collector, problem) for row in report.collectors for problem in row.problems]
    if problems:
        lines += ["", *_table(("COLLECTOR", "PROBLEM"), problems)]
    lines += ["", "  what to change:", *(f"  - {sentence}" for sentence in report.advice or ("nothing",))]
    return "\n".join(lines) + "\n"


def _counts(counts: object) -> str:
    assert isinstance(counts, dict)
    return " ".join(f"{count} {word}" for word, count in sorted(counts.items()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they have to be; the last one may be long, the others are cut."""
    made = [[*(printable(cell, _WIDEST) for cell in row[:-1]), printable(row[-1], 600)] for row in rows]
    widths = [max(len(row[place]) for row in [list(heads), *made]) for place in range(len(heads))]
    for row in [list(heads), *made]:
        yield ("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
