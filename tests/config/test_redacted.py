"""The running config as it is shown."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.config.loading import MINIMAL, load
from tests.support.certificates import Authority
from trainfleet_exporter.config import Config, redacted

FULL = """\
global:
  poll_interval: 90s
  poll_timeout: 1m
  max_data_age: 1h30m
  finished_job_retention: 0s
  ledger_file: jobs.jsonl
  metrics: {deny: ["trainfleet_pod_*"], job_labels: [team, "a: b", "$${x}", $$]}
providers:
  - name: café
    platform: alibaba_pai
    region: cn-hangzhou
    account: ${ACCOUNT}
    credentials: {access_key_id: hunter2-id, access_key_secret: "${KEY}", security_token_file: token}
    endpoints: {dlc: "http://127.0.0.1:1"}
    http: {proxy_url: "http://user:hunter2@proxy:3128", ca_file: ca.pem, request_timeout: 10s}
    workspaces: [0123, 'yes']
    jobs: {include: {name: ["train-.*$", 'a\\d']}, exclude: {user_id: [1]}}
    job_window: 7d
    collectors: {pods: {enabled: false}, usage: {source: job_metrics}, jobs: {interval: 2m}}
    limits: {requests_per_second: 0.5, monthly_calls: {cloudmonitor: 400000, dlc: 1}}
"""


def full(folder: Path) -> Config:
    (folder / "token").write_text("hunter2-token")
    Authority(folder, "ca")
    return load(folder, FULL, {"ACCOUNT": "main", "KEY": "hunter2-key"})


def test_no_secret_shows(tmp_path: Path) -> None:
    config = full(tmp_path)
    for shown in (redacted(config), repr(config), str(config)):
        assert "hunter2" not in shown
    credentials = yaml.safe_load(redacted(config))["providers"][0]["credentials"]
    assert credentials == dict.fromkeys(("access_key_id", "access_key_secret", "security_token"), "<secret>")


def test_values_show_as_they_are_written(tmp_path: Path) -> None:
    shown = yaml.safe_load(redacted(full(tmp_path)))
    assert shown["global"] == {
        "poll_interval": "1m30s",
        "poll_timeout": "1m",
        "max_data_age": "1h30m",
        "keep_last_good_polls": 3,
        "finished_job_retention": "0s",
        "metrics": {"deny": ["trainfleet_pod_*"], "job_labels": ["team", "a: b", "$${x}", "$"]},
        "ledger_file": str(tmp_path / "jobs.jsonl"),
    }
    (provider,) = shown["providers"]
    assert (provider["name"], provider["account"]) == ("café", "main")
    assert provider["http"]["proxy_url"] == "http://<secret>@proxy:3128"
    assert provider["http"]["ca_file"] == str(tmp_path / "ca.pem")
    assert provider["limits"]["monthly_calls"] == {"cloudmonitor": 400000, "dlc": 1}
    assert provider["workspaces"] == ["0123", "yes"]
    assert provider["jobs"]["include"]["name"] == ["train-.*$", "a\\d"]
    usage = provider["collectors"]["usage"]
    assert (usage["enabled"], usage["interval"], usage["source"]) == (True, "2m", "job_metrics")


def test_intervals_and_endpoints_are_those_in_use(tmp_path: Path) -> None:
    keys = "credentials: {access_key: a, secret_key: hunter2}"
    modelarts = f"  - {{name: m, platform: huawei_modelarts, region: cn-north-4, {keys}}}\n"
    text = "global: {poll_interval: 90s}\n" + MINIMAL + "    endpoints: {dlc: 'http://127.0.0.1:1'}\n" + modelarts
    pai, other = yaml.safe_load(redacted(load(tmp_path, text)))["providers"]
    assert pai["endpoints"] == {
        "dlc": "http://127.0.0.1:1",
        "paistudio": "https://pai.cn-hangzhou.aliyuncs.com",
        "aiworkspace": "https://aiworkspace.cn-hangzhou.aliyuncs.com",
        "cloudmonitor": "https://metrics.cn-hangzhou.aliyuncs.com",
        "sts": "https://sts.cn-hangzhou.aliyuncs.com",
        "metadata": "http://100.100.100.200",
    }
    assert other["endpoints"]["aom"] == "https://aom.cn-north-4.myhuaweicloud.com"
    for provider in (pai, other):
        intervals = {key: collector["interval"] for key, collector in provider["collectors"].items()}
        assert (intervals["jobs"], intervals["pools"], intervals["job_counts"]) == ("1m30s", "1m30s", "5m")


def test_it_is_a_config_file_itself(tmp_path: Path) -> None:
    """All but the secrets survives, so that what runs can be kept."""
    for config in (full(tmp_path), load(tmp_path, MINIMAL)):
        shown = redacted(config)
        assert redacted(load(tmp_path, shown)) == shown
