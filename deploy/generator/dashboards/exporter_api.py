"""Lower half of the exporter dashboard: API calls, budgets, outcomes and the process."""

from __future__ import annotations

from deploy.generator.dashboards.own import API, COLLECTOR, OWN, TARGET
from deploy.generator.dashboards.panels import BAD_ABOVE_ZERO, Panel, Query, Scale, counts, row, share, timeseries
from deploy.generator.dashboards.tables import Column, table

_ATTEMPTS = "trainfleet_exporter_api_requests_total"
_LATENCY = "trainfleet_exporter_api_request_duration_seconds"
_MONTH = "30 * 86400"


def _calls() -> list[Panel]:
    calls = f"rate({_ATTEMPTS}{{{OWN}}}[$__rate_interval])"
    of_api = "by (provider, api)"
    return [
        row("API calls and their cost"),
        timeseries(
            "Calls per minute",
            "Attempts to call each API, including retries. Clouds bill and limit attempts.",
            "cpm",
            Query(f"60 * sum {of_api} ({calls})", API),
            stacked=True,
        ),
        timeseries(
            "Failed calls",
            "Failed attempts per minute, by outcome.",
            "cpm",
            Query(
                "60 * sum by (provider, api, outcome) "
                f'(rate({_ATTEMPTS}{{{OWN}, outcome!~"ok|no_data"}}[$__rate_interval]))',
                API + " · {{outcome}}",
            ),
        ),
        table(
            "Calls by operation",
            "Attempts over the chosen time, and their number in 30 days at this rate.",
            "provider api operation",
            [
                Column(
                    "Calls",
                    f"sum by (provider, api, operation) (increase({_ATTEMPTS}{{{OWN}}}[$__range]))",
                    "short",
                    decimals=0,
                ),
                Column(
                    "Per month",
                    f"sum by (provider, api, operation) (rate({_ATTEMPTS}{{{OWN}}}[$__range])) * {_MONTH}",
                    "short",
                ),
                Column(
                    "Not ok",
                    "sum by (provider, api, operation) "
                    f'(increase({_ATTEMPTS}{{{OWN}, outcome!~"ok|no_data"}}[$__range]))',
                    "short",
                    BAD_ABOVE_ZERO,
                    decimals=0,
                ),
            ],
            sort="Calls",
            width=12,
        ),
        share(
            "Share of calls that are throttled",
            "Attempts that the cloud throttled. The exporter slows down by itself. If throttling continues, lower "
            "requests_per_second or raise intervals.",
            Query(
                f'sum {of_api} (rate({_ATTEMPTS}{{{OWN}, outcome="throttled"}}[$__rate_interval]))\n'
                f"/ sum {of_api} ({calls})",
                API,
            ),
            scale=Scale("text", ((0.1, "red"),)),
            height=10,
        ),
        timeseries(
            "Latency of calls, 95th percentile",
            "95 % of the attempts took less than this.",
            "s",
            Query(
                "histogram_quantile(0.95, sum by (le, provider, api) "
                f"(rate({_LATENCY}_bucket{{{OWN}}}[$__rate_interval])))",
                API,
            ),
        ),
        timeseries(
            "Latency of calls, mean",
            "Mean duration of attempts.",
            "s",
            Query(
                f"sum {of_api} (rate({_LATENCY}_sum{{{OWN}}}[$__rate_interval]))\n"
                f"/ sum {of_api} (rate({_LATENCY}_count{{{OWN}}}[$__rate_interval]))",
                API,
            ),
        ),
        timeseries(
            "Calls in 30 days as a share of the budget",
            "Calls in 30 days at the rate of the last hour, divided by limits.monthly_calls. At 1, the exporter makes "
            "poll intervals longer. Providers of one account share the budget, so add up their shares.",
            "percentunit",
            Query(
                f"sum {of_api} (rate({_ATTEMPTS}{{{OWN}}}[1h])) * {_MONTH}\n"
                f"/ max {of_api} (trainfleet_exporter_api_budget_calls{{{OWN}}})",
                API,
            ),
            scale=Scale("text", ((1.2, "red"),)),
            width=8,
        ),
        timeseries(
            "Calls of the last 30 days as a share of the budget",
            "Calls that were made, divided by limits.monthly_calls. Providers of one account share the budget, so add "
            "up their shares.",
            "percentunit",
            Query(
                f"sum {of_api} (increase({_ATTEMPTS}{{{OWN}}}[30d]))\n"
                f"/ max {of_api} (trainfleet_exporter_api_budget_calls{{{OWN}}})",
                API,
            ),
            scale=Scale("text", ((1.2, "red"),)),
            width=8,
        ),
        timeseries(
            "Poll intervals as a multiple of the configured ones",
            "1 is normal. A budget, the rate limit or a slow cloud makes intervals longer.",
            "none",
            Query(
                "max by (provider, collector) (\n"
                f"  trainfleet_exporter_collector_interval_seconds{{{OWN}}}\n"
                f"  / trainfleet_exporter_collector_configured_interval_seconds{{{OWN}}}\n"
                ")",
                COLLECTOR,
            ),
            scale=Scale("text", ((3, "red"),)),
            width=8,
        ),
    ]


def _process() -> list[Panel]:
    return [
        row("Readings and the process"),
        timeseries(
            "Dropped readings",
            "Readings and objects that the exporter dropped per minute, by reason, such as stale or out of range.",
            "cpm",
            Query(
                "60 * sum by (provider, collector, reason) "
                f"(rate(trainfleet_exporter_dropped_readings_total{{{OWN}}}[$__rate_interval])) > 0",
                COLLECTOR + " · {{reason}}",
            ),
        ),
        counts(
            "Samples per scrape",
            "Samples that Prometheus reads from each exporter in a scrape.",
            Query(f"scrape_samples_scraped{{{TARGET}}}", "{{instance}}"),
        ),
        timeseries(
            "CPU",
            "CPU cores that the exporter uses.",
            "none",
            Query(f"rate(process_cpu_seconds_total{{{TARGET}}}[$__rate_interval])", "{{instance}}"),
            width=8,
        ),
        timeseries(
            "Memory",
            "Resident memory of the exporter.",
            "bytes",
            Query(f"process_resident_memory_bytes{{{TARGET}}}", "{{instance}}"),
            width=8,
        ),
        share(
            "Open files",
            "Open file descriptors of the exporter as a share of its limit.",
            Query(f"process_open_fds{{{TARGET}}}\n/ process_max_fds{{{TARGET}}}", "{{instance}}"),
            width=8,
        ),
    ]


CALLS = _calls()
PROCESS = _process()
