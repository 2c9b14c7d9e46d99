"""What a ModelArts provider's config says of usage, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.config.loading import load
from trainfleet_exporter.config import redacted
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import Choice

TEXT = """\
providers:
  - name: ma
    platform: huawei_modelarts
    region: cn-north-4
    credentials: {access_key: a, secret_key: hunter2}
    collectors:
      usage: %s
"""


def provider(folder: Path, usage: str) -> HuaweiModelArtsConfig:
    (found,) = load(folder, TEXT % usage).providers
    assert isinstance(found, HuaweiModelArtsConfig)
    return found


def test_defaults(tmp_path: Path) -> None:
    config = provider(tmp_path, "{}")
    usage = config.collectors.usage
    assert (usage.source, usage.interval, usage.aom_instance, usage.max_jobs) == ("auto", 120, "0", 500)
    assert dict(usage.metrics.choices()) == {}
    assert config.endpoint("aom") == "https://aom.cn-north-4.myhuaweicloud.com"
    assert config.collectors.pool_usage.enabled
    assert (config.collectors.nodes.enabled, config.collectors.nodes.interval) == (False, 300)
    assert {"usage", "pool_usage", "nodes"} <= config.bulk_collectors().keys()


def test_task_metrics_alone_are_no_sweep(tmp_path: Path) -> None:
    config = provider(tmp_path, "{source: task_metrics, interval: 5s}")
    assert "usage" not in config.bulk_collectors()
    assert not config.collectors.usage.asks_aom
    assert not provider(tmp_path, "{enabled: false}").collectors.usage.asks_aom


def test_metrics_of_the_config(tmp_path: Path) -> None:
    usage = "{metrics: {job_cpu_usage_cores: {promql: 'sum(x{a=\"$${y}\"})', unit: mCore}, pod_cpu_usage_cores: null}}"
    config = provider(tmp_path, usage)
    assert config.collectors.usage.metrics.choices() == {
        "job_cpu_usage_cores": Choice('sum(x{a="${y}"})', "mCore"),
    }


def test_the_running_config_shows_only_metrics_that_are_given(tmp_path: Path) -> None:
    config = load(tmp_path, TEXT % "{metrics: {device_power_watts: {promql: x, unit: W}}}")
    shown = redacted(config)
    (given,) = yaml.safe_load(shown)["providers"]
    assert given["collectors"]["usage"]["metrics"] == {"device_power_watts": {"promql": "x", "unit": "W"}}
    assert redacted(load(tmp_path, shown)) == shown
