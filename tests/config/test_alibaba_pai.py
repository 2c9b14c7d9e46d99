"""The config of platform `alibaba_pai`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.loading import load_provider
from trainfleet_exporter.config import Http, Secret
from trainfleet_exporter.config.secrets import ProxyUrl
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig, Collectors, Pods
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials
from trainfleet_exporter.providers.alibaba_pai.metrics import FAMILIES, UNITS, Choice


def test_endpoints_are_made_from_the_region(tmp_path: Path) -> None:
    provider = load_provider(tmp_path)
    assert {api: provider.endpoint(api) for api in ("dlc", "paistudio", "aiworkspace", "cloudmonitor")} == {
        "dlc": "https://pai-dlc.cn-hangzhou.aliyuncs.com",
        "paistudio": "https://pai.cn-hangzhou.aliyuncs.com",
        "aiworkspace": "https://aiworkspace.cn-hangzhou.aliyuncs.com",
        "cloudmonitor": "https://metrics.cn-hangzhou.aliyuncs.com",
    }


def test_an_endpoint_of_the_file_takes_the_place_of_one(tmp_path: Path) -> None:
    provider = load_provider(tmp_path, "endpoints: {dlc: 'http://127.0.0.1:8080/', paistudio: null}")
    assert provider.endpoint("dlc") == "http://127.0.0.1:8080"
    assert provider.endpoint("paistudio") == "https://pai.cn-hangzhou.aliyuncs.com"
    assert provider.given_endpoints() == {"dlc": "http://127.0.0.1:8080"}


def test_plain_http_beyond_this_machine_must_be_allowed(tmp_path: Path) -> None:
    provider = load_provider(tmp_path, "endpoints: {dlc: 'http://pai.example'}", "http: {allow_plain_http: true}")
    assert provider.endpoint("dlc") == "http://pai.example"


def test_intervals_by_default(tmp_path: Path) -> None:
    collectors = load_provider(tmp_path).collectors
    assert collectors.job_counts.interval == 300
    assert collectors.jobs.interval is None
    assert collectors.jobs.effective_interval(60) == 60
    assert (collectors.pods.interval, collectors.pods.max_jobs) == (300, 500)
    assert (collectors.usage.interval, collectors.usage.source) == (120, "auto")
    assert collectors.usage.effective_interval(60) == 120
    assert collectors.usage.max_jobs == 500
    assert collectors.usage.metrics.choices() == {}
    assert collectors.usage.profiling == ()
    assert collectors.pools.interval is None
    assert (collectors.nodes.enabled, collectors.nodes.interval) == (False, 300)
    assert (collectors.pool_workloads.enabled, collectors.pool_workloads.interval) == (True, None)


@pytest.mark.parametrize(("source", "is_sweep"), [("auto", True), ("cloudmonitor", True), ("job_metrics", False)])
def test_usage_is_a_sweep_where_cloudmonitor_is_asked(tmp_path: Path, source: str, is_sweep: bool) -> None:
    provider = load_provider(tmp_path, f"collectors: {{usage: {{source: {source}}}}}")
    assert provider.collectors.usage.source == source
    assert ("usage" in provider.bulk_collectors()) is is_sweep
    assert {"pool_workloads", "nodes"} <= provider.bulk_collectors().keys()


def test_metrics_of_the_file_say_what_feeds_a_family(tmp_path: Path) -> None:
    given = """collectors:
      usage:
        metrics:
          job_cpu_utilization_ratio: {statistic: Maximum}
          pool_memory_usage_bytes: {name: QUOTA_MEMORY_USED, unit: GiB}
          device_power_watts:
          pod_cpu_usage_cores: {}"""
    metrics = load_provider(tmp_path, given).collectors.usage.metrics
    assert metrics.choices() == {
        "job_cpu_utilization_ratio": Choice(statistic="Maximum"),
        "pool_memory_usage_bytes": Choice("QUOTA_MEMORY_USED", "GiB"),
        "pod_cpu_usage_cores": Choice(),
    }
    assert metrics.model_dump(mode="json").keys() == metrics.choices().keys()


@pytest.mark.parametrize("suffix", sorted(FAMILIES))
def test_every_family_of_the_table_can_be_fed_otherwise(tmp_path: Path, suffix: str) -> None:
    for unit in UNITS[FAMILIES[suffix].quantity]:
        profiling = f"profiling: [{FAMILIES[suffix].profile}], " if FAMILIES[suffix].profile else ""
        given = f"collectors: {{usage: {{{profiling}metrics: {{{suffix}: {{name: X, unit: '{unit}'}}}}}}}}"
        choices = load_provider(tmp_path, given).collectors.usage.metrics.choices()
        assert choices == {suffix: Choice("X", unit)}


def test_it_can_be_made_without_a_file() -> None:
    provider = AlibabaPaiConfig(
        name="pai",
        platform="alibaba_pai",
        region="cn-hangzhou",
        credentials=Credentials(access_key_id=Secret("id"), access_key_secret=Secret("hunter2")),
        collectors=Collectors(pods=Pods(interval=7.5, max_jobs=2)),
        http=Http(proxy_url=ProxyUrl("http://user:hunter2@proxy")),
        job_window=1,
    )
    assert (provider.collectors.pods.interval, provider.job_window) == (7.5, 1)
    assert "hunter2" not in repr(provider)


def test_a_loaded_provider_keeps_the_environment(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "ALIBABA_CLOUD_PROFILE": "p", "OTHER": "x"}
    assert load_provider(tmp_path, environ=environ).variables == {"HOME": "/h", "ALIBABA_CLOUD_PROFILE": "p"}
