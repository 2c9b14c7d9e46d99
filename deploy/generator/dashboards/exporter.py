"""The dashboard "Exporter health and API cost": how fresh the data is, and how many calls it takes."""

from __future__ import annotations

from deploy.generator.dashboards.dashboard import dashboard
from deploy.generator.dashboards.exporter_api import CALLS, PROCESS
from deploy.generator.dashboards.own import COLLECTOR, OWN, TARGET
from deploy.generator.dashboards.panels import (
    BAD_ABOVE_ZERO,
    Json,
    Panel,
    Query,
    Scale,
    counts,
    number,
    row,
    share,
    stat,
    states,
    timeseries,
)
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import PROVIDER, choice, datasource

UID = "trainfleet-exporter"

_C = "trainfleet_exporter_collector_"
_UP = {0: ("down", "red"), 1: ("up", "green")}
_WELL = {0: ("failing", "red"), 1: ("ok", "green")}
_BY = "provider, collector"


def _collector(name: str, how: str = "max") -> str:
    return f"{how} by ({_BY}) ({_C}{name}{{{OWN}}})"


_SINCE_SUCCESS = f"time() - (max by ({_BY}) ({_C}last_success_timestamp_seconds{{{OWN}}}) > 0)"


def _variables() -> list[Json]:
    # Only exporters have `build_info`. All targets have `up` and `process_...`.
    return [
        datasource(),
        choice(
            "job",
            "Job",
            "label_values(trainfleet_exporter_build_info, job)",
            "The scrape job of the exporter, not a training job.",
            all_value="",
        ),
        choice(
            "instance",
            "Instance",
            'label_values(trainfleet_exporter_build_info{job=~"$job"}, instance)',
            "The exporter that is scraped.",
            all_value="",
        ),
        PROVIDER,
    ]


def _now() -> list[Panel]:
    return [
        row("Now"),
        stat(
            "Exporters",
            "Whether Prometheus can scrape the exporter. If not, all other panels are out of date.",
            "none",
            Query(f"up{{{TARGET}}}", "{{instance}}"),
            words=_UP,
            text="value_and_name",
        ),
        stat(
            "Providers",
            "A provider is up if the latest poll of at least one of its collectors succeeded.",
            "none",
            Query(f"min by (provider) (trainfleet_provider_up{{{OWN}}})", "{{provider}}"),
            words=_UP,
            text="value_and_name",
            width=6,
        ),
        stat(
            "Failing collectors",
            "Collectors with at least one failed part in the latest poll.",
            "none",
            Query(f"sum({_C}success{{{OWN}}} == bool 0)", "failing"),
            scale=BAD_ABOVE_ZERO,
            width=3,
        ),
        stat(
            "Config",
            "Whether the latest load of the config file succeeded. If not, the old config stays in use.",
            "none",
            Query(f"min(trainfleet_exporter_config_last_reload_successful{{{TARGET}}})", "config"),
            words={0: ("reload failed", "red"), 1: ("loaded", "green")},
            width=3,
        ),
        number(
            "Series",
            "Series of all collectors, without the exporter's own metrics.",
            Query(f"sum({_C}series{{{OWN}}})", "series"),
            width=3,
        ),
        stat(
            "Credentials expire in",
            "Time until temporary credentials expire. The exporter refreshes them earlier. Permanent ones are "
            "not shown.",
            "s",
            Query(
                f"min by (provider) (trainfleet_exporter_credentials_expiry_timestamp_seconds{{{OWN}}}) - time()",
                "{{provider}}",
            ),
            scale=Scale("red", ((180, "yellow"), (600, "green"))),
            text="value_and_name",
            width=3,
        ),
        stat(
            "Version",
            "Version of the running exporters.",
            "none",
            Query(f"count by (version) (trainfleet_exporter_build_info{{{TARGET}}})", "{{version}}"),
            text="name",
            width=2,
        ),
    ]


def _collectors() -> list[Panel]:
    return [
        row("Collectors"),
        table(
            "Collectors",
            "The latest poll of each collector. Limits may make the interval longer than the configured one.",
            "provider collector",
            [
                Column("State", _collector("success", "min"), words=_WELL),
                Column("Last success", _SINCE_SUCCESS, "s", Scale("text", ((1800, "red"),))),
                Column("Interval", _collector("interval_seconds"), "s"),
                Column("Duration", _collector("duration_seconds"), "s", decimals=2),
                Column("Parts", _collector("parts")),
                Column("Failed parts", _collector("parts_failed"), scale=BAD_ABOVE_ZERO),
                Column("Series", _collector("series"), "short"),
                Column(
                    "Errors",
                    f"sum by ({_BY}) (increase(trainfleet_exporter_collector_errors_total{{{OWN}}}[$__range]))",
                    "short",
                    decimals=0,
                ),
            ],
            sort="Last success",
        ),
        states(
            "Collectors over time",
            "Whether every part of the latest poll succeeded. A part that fails keeps its last good values for a few "
            "intervals. Then its series disappear.",
            Query(_collector("success", "min"), COLLECTOR),
            words=_WELL,
            height=11,
        ),
        timeseries(
            "Intervals since the last success",
            "Age of the latest completely successful poll, in intervals of the collector. Around 1 is normal.",
            "none",
            Query(f"({_SINCE_SUCCESS})\n/ {_collector('interval_seconds')}", COLLECTOR),
            scale=Scale("text", ((5, "red"),)),
        ),
        share(
            "Share of the interval that polls take",
            "Duration of the latest poll divided by the interval. Close to 1, the collector cannot keep its interval. "
            "Per-job collectors spread their calls over the interval on purpose.",
            Query(f"{_collector('duration_seconds')}\n/ {_collector('interval_seconds')}", COLLECTOR),
        ),
        counts(
            "Errors of collectors",
            "Errors in polls in each interval of the graph, by reason.",
            Query(
                "sum by (provider, collector, reason) "
                f"(increase(trainfleet_exporter_collector_errors_total{{{OWN}}}[$__rate_interval]))",
                COLLECTOR + " · {{reason}}",
            ),
        ),
        timeseries(
            "Oldest part shown",
            "Age of the oldest values that are still shown on the other dashboards.",
            "s",
            Query(f"time() - {_collector('oldest_part_timestamp_seconds', 'min')}", COLLECTOR),
        ),
    ]


def build() -> str:
    """Return the JSON of the dashboard."""
    return dashboard(
        UID,
        "Trainfleet / Exporter health and API cost",
        "Whether the exporter reaches its clouds, how old its data is, and how many API calls it makes.",
        _variables(),
        [*_now(), *_collectors(), *CALLS, *PROCESS],
    )
