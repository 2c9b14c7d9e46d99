"""The exporter's own metrics as a page: every family, in the order of the registry, in both formats."""

from __future__ import annotations

import re

import pytest
import time_machine
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from trainfleet_exporter.exposition import Format
from trainfleet_exporter.telemetry import DROP_REASONS, REJECT_REASONS, CollectorState, Telemetry

LOADED = 1_750_000_000.5
OF_THE_PROCESS = re.compile(r"(# (HELP|TYPE) )?(process_|python_|trainfleet_exporter_build_info)")


@pytest.fixture
def telemetry() -> Telemetry:
    """Two providers; one has not answered yet."""
    with time_machine.travel(LOADED, tick=False):
        telemetry = Telemetry()
    jobs = CollectorState(
        "p",
        "jobs",
        60.0,
        success=False,
        duration=1.5,
        last_success=1.7e9,
        parts=3,
        parts_failed=1,
        oldest_part=1.6e9,
        series=2_000_000,
    )
    telemetry.watch(jobs)
    telemetry.watch(CollectorState("p", "pools", 300.0, success=True))
    telemetry.watch(CollectorState("q", "jobs", 30.0))
    telemetry.attempt("p", api="dlc", operation="ListJobs", outcome="ok", seconds=0.1)
    telemetry.attempt("p", api="dlc", operation="ListJobs", outcome="throttled", seconds=30)
    telemetry.failed(jobs, "timeout")
    telemetry.dropped(jobs, "stale", 2)
    telemetry.watch_credentials("p", lambda: 1.8e9)
    telemetry.watch_credentials("q", lambda: None)
    telemetry.watch_budget("p", "dlc", 1000)
    return telemetry


def lines(page: bytes) -> list[str]:
    """Leave out the lines that depend on the moment and the machine."""
    return [line for line in page.decode().splitlines() if not OF_THE_PROCESS.match(line)]


def samples(telemetry: Telemetry) -> list[str]:
    return [line for line in lines(telemetry.exposition(Format.TEXT)) if not line.startswith("#")]


def test_every_known_value_is_shown_and_nothing_else(telemetry: Telemetry) -> None:
    own, p = "trainfleet_exporter", 'api="dlc",provider="p"'
    jobs, pools, q = (
        '{collector="jobs",provider="p"}',
        '{collector="pools",provider="p"}',
        '{collector="jobs",provider="q"}',
    )
    latency = f"{own}_api_request_duration_seconds"
    below = ("0.01", "0.025", "0.05")
    above = ("0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "20.0")
    assert samples(telemetry) == [
        'trainfleet_provider_up{provider="p"} 1.0',
        'trainfleet_provider_up{provider="q"} 0.0',
        f"{own}_collector_success{jobs} 0.0",
        f"{own}_collector_success{pools} 1.0",
        f"{own}_collector_duration_seconds{jobs} 1.5",
        f"{own}_collector_interval_seconds{jobs} 60.0",
        f"{own}_collector_interval_seconds{pools} 300.0",
        f"{own}_collector_interval_seconds{q} 30.0",
        f"{own}_collector_configured_interval_seconds{jobs} 60.0",
        f"{own}_collector_configured_interval_seconds{pools} 300.0",
        f"{own}_collector_configured_interval_seconds{q} 30.0",
        f"{own}_collector_last_success_timestamp_seconds{jobs} 1.7e+09",
        f"{own}_collector_last_success_timestamp_seconds{pools} 0.0",
        f"{own}_collector_last_success_timestamp_seconds{q} 0.0",
        f"{own}_collector_series{jobs} 2e+06",
        f"{own}_collector_series{pools} 0.0",
        f"{own}_collector_series{q} 0.0",
        f"{own}_collector_parts{jobs} 3.0",
        f"{own}_collector_parts{pools} 0.0",
        f"{own}_collector_parts{q} 0.0",
        f"{own}_collector_parts_failed{jobs} 1.0",
        f"{own}_collector_parts_failed{pools} 0.0",
        f"{own}_collector_parts_failed{q} 0.0",
        f"{own}_collector_oldest_part_timestamp_seconds{jobs} 1.6e+09",
        f"{own}_api_budget_calls{{{p}}} 1000.0",
        f'{own}_credentials_expiry_timestamp_seconds{{provider="p"}} 1.8e+09',
        f"{own}_config_last_reload_successful 1.0",
        f"{own}_config_last_reload_success_timestamp_seconds 1.7500000005e+09",
        f"{own}_shard_ordinal 0.0",
        f"{own}_total_shards 1.0",
        f'{own}_api_requests_total{{api="dlc",operation="ListJobs",outcome="ok",provider="p"}} 1.0',
        f'{own}_api_requests_total{{api="dlc",operation="ListJobs",outcome="throttled",provider="p"}} 1.0',
        *(f'{latency}_bucket{{api="dlc",le="{bound}",provider="p"}} 0.0' for bound in below),
        *(f'{latency}_bucket{{api="dlc",le="{bound}",provider="p"}} 1.0' for bound in above),
        f'{latency}_bucket{{api="dlc",le="+Inf",provider="p"}} 2.0',
        f"{latency}_count{{{p}}} 2.0",
        f"{latency}_sum{{{p}}} 30.1",
        f'{own}_collector_errors_total{{collector="jobs",provider="p",reason="timeout"}} 1.0',
        *(
            f'{own}_dropped_readings_total{{collector="{collector}",provider="{provider}",reason="{reason}"}} '
            + ("2.0" if (provider, collector, reason) == ("p", "jobs", "stale") else "0.0")
            for provider, collector in (("p", "jobs"), ("p", "pools"), ("q", "jobs"))
            for reason in DROP_REASONS
        ),
        *(f'{own}_http_rejected_total{{reason="{reason}"}} 0.0' for reason in REJECT_REASONS),
    ]


def test_page_is_what_prometheus_client_writes(telemetry: Telemetry) -> None:
    text, openmetrics = telemetry.exposition(Format.TEXT), telemetry.exposition(Format.OPENMETRICS)
    assert lines(text) == lines(write_text(telemetry.registry))
    assert lines(openmetrics + b"# EOF\n") == lines(write_openmetrics(telemetry.registry))
    names = [family.name for family in telemetry.registry.collect()]
    assert len(set(names)) == len(names)
    assert {"process_cpu_seconds", "python_info", "trainfleet_exporter_build_info"} <= set(names)
    assert [family.name for family in read_text(text.decode())] == names
    assert [family.name for family in read_openmetrics(openmetrics.decode() + "# EOF\n")] == names


def test_removed_provider_loses_gauges_then_counters(telemetry: Telemetry) -> None:
    def of_p() -> set[str]:
        return {line.split("{")[0] for line in samples(telemetry) if 'provider="p"' in line}

    latency = "trainfleet_exporter_api_request_duration_seconds"
    counted = {
        "trainfleet_exporter_api_requests_total",
        *(latency + end for end in ("_bucket", "_count", "_sum")),
        "trainfleet_exporter_collector_errors_total",
        "trainfleet_exporter_dropped_readings_total",
    }
    of_others = [line for line in samples(telemetry) if 'provider="p"' not in line]
    assert of_p() > counted
    telemetry.unwatch("p")
    assert of_p() == counted
    telemetry.forget("p")
    assert of_p() == set()
    assert samples(telemetry) == of_others
