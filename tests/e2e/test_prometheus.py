"""A real Prometheus scrapes the demo, and what it holds equals what the simulated cloud said it answered.

The cloud logs every answer with its time. A poll's result follows from the answers between two polls, so for
every scrape that fell between polls, each `trainfleet_jobs` series is compared with a tally made from the log.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.processes import ExporterProcess, running_exporter, running_server
from tests.support.ports import held_port
from tests.support.programs import need

SECONDS, INTERVAL = 32, 4
TERMINAL = {"Succeeded", "Failed", "Stopped"}
CONFIG = """
global: {{scrape_interval: {interval}s, scrape_timeout: {interval}s}}
scrape_configs:
  - job_name: trainfleet
    static_configs: [{{targets: ["{target}"]}}]
"""


@contextmanager
def _running_prometheus(target: str, folder: Path) -> Iterator[tuple[httpx.Client, Path]]:
    program = need("prometheus")
    config, log = folder / "prometheus.yaml", folder / "prometheus.log"
    config.write_text(CONFIG.format(target=target, interval=INTERVAL), encoding="utf-8")
    with held_port() as port:
        command = [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with running_server(command, port, log) as client:
            yield client, log


def _samples(client: httpx.Client, query: str) -> list[tuple[dict[str, str], dict[float, float]]]:
    """Raw samples: labels, and values by their scrape's time."""
    answer = client.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", answer
    return [
        (series["metric"], {float(when): float(value) for when, value in series["values"]})
        for series in answer["data"]["result"]
    ]


def _values(client: httpx.Client, query: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The answer of a dashboard's query: values by their labels."""
    answer = client.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", answer
    return {tuple(sorted(row["metric"].items())): float(row["value"][1]) for row in answer["data"]["result"]}


def test_what_prometheus_holds_is_what_the_cloud_said(tmp_path: Path) -> None:
    need("prometheus")
    with running_exporter(["demo", "--log.level=info"], tmp_path / "log") as exporter:
        exporter.wait_until_ready()
        with _running_prometheus(exporter.url.removeprefix("http://"), tmp_path) as (prometheus, log):
            time.sleep(SECONDS)
            window = f"[{SECONDS + 60}s]"
            up = _samples(prometheus, f"up{window}")
            pai = 'provider="sim-pai-hangzhou"'
            jobs = _samples(prometheus, f"trainfleet_jobs{{{pai}}}{window}")
            ends = {
                labels["collector"]: values
                for labels, values in _samples(
                    prometheus, f"trainfleet_exporter_collector_last_success_timestamp_seconds{{{pai}}}{window}"
                )
            }
            failures = _samples(prometheus, f"trainfleet_exporter_collector_errors_total{window}")
            answers = _answers(exporter)
            by_status = _values(prometheus, "sum by (provider, status) (trainfleet_jobs)")
            busy = _values(prometheus, "avg by (provider, accelerator) (trainfleet_job_accelerator_utilization_ratio)")
            kinds = _values(prometheus, "sum by (accelerator) (trainfleet_job_requested_accelerators)")
            trouble = [line for line in log.read_text().splitlines() if re.search(r"level=(warn|error)", line)]
        assert [value for _, values in up for value in values.values() if value != 1] == []
        assert trouble == []
        assert failures == []
        for provider in ("sim-pai-hangzhou", "sim-modelarts-north4", "sim-sagemaker-us-east-1"):
            assert by_status[(("provider", provider), ("status", "running"))] > 0
            assert by_status[(("provider", provider), ("status", "succeeded"))] > 0
        assert {labels[0] for labels in busy} == {("accelerator", "gpu"), ("accelerator", "npu")}
        assert len({labels[1] for labels in busy}) == 3  # every cloud
        assert all(0 < value < 1 for value in busy.values())
        assert {labels[0][1] for labels in kinds} == {"gpu", "npu"}
        live = _compare_live(jobs, ends["jobs"], answers)
        finished = _compare_finished(jobs, ends["job_counts"], answers)
        assert min(live, finished) >= SECONDS / INTERVAL * 0.4


def _answers(exporter: ExporterProcess) -> list[dict[str, Any]]:
    cloud = exporter.client.get("/config").text
    endpoint = re.search(r"dlc: (http://[\d.:]+)", cloud)
    assert endpoint is not None
    found: list[dict[str, Any]] = httpx.get(f"{endpoint[1]}/truth", trust_env=False).json()["answers"]
    return found


def _poll_of(ends: dict[float, float], when: float) -> tuple[float, float] | None:
    """The end of the poll that a scrape shows, and that of the one before it; None where that is not known."""
    known = sorted(set(ends.values()) - {0.0})
    shown = ends.get(when)
    if shown is None or shown == 0.0 or known.index(shown) == 0:
        return None
    return shown, known[known.index(shown) - 1]


def _live_tally(answers: list[dict[str, Any]], since: float, until: float) -> Counter[tuple[str, str]]:
    """Live jobs by workspace and the platform's word: the latest answer about each, within one poll."""
    latest: dict[str, tuple[str, str]] = {}
    for answer in answers:
        query = answer["query"]
        if answer["operation"] == "ListJobs" and since < answer["time"] <= until and query.get("PageSize") != "1":
            for job_id, status, *_ in answer["rows"]:
                latest[job_id] = (query["WorkspaceId"], status)
    return Counter(place for place in latest.values() if place[1] not in TERMINAL)


def _compare_live(jobs: list[Any], ends: dict[float, float], answers: list[dict[str, Any]]) -> int:
    compared = 0
    asked = sorted(a["time"] for a in answers if a["operation"] == "ListJobs" and a["query"].get("PageSize") != "1")
    for when in ends:
        poll = _poll_of(ends, when)
        if poll is None or poll[1] < asked[0] or any(poll[0] < time <= when + 0.5 for time in asked):
            continue  # a poll was under way: parts of it may show already
        shown: Counter[tuple[str, str]] = Counter()
        for labels, values in jobs:
            if labels["platform_status"] not in TERMINAL and when in values:
                shown[(labels["workspace_id"], labels["platform_status"])] += int(values[when])
        assert +shown == _live_tally(answers, poll[1], poll[0]), f"at {when}"
        compared += 1
    return compared


def _compare_finished(jobs: list[Any], ends: dict[float, float], answers: list[dict[str, Any]]) -> int:
    compared = 0
    counts = [a for a in answers if a["operation"] == "ListJobs" and a["query"].get("PageSize") == "1"]
    for when, end in ends.items():
        if not end or any(end < answer["time"] <= when + 0.5 for answer in counts):
            continue
        truth = {(a["query"]["WorkspaceId"], a["query"]["Status"]): a["total"] for a in counts if a["time"] <= end}
        shown = {
            (labels["workspace_id"], labels["platform_status"]): values[when]
            for labels, values in jobs
            if labels["platform_status"] in TERMINAL and when in values
        }
        assert shown == truth, f"at {when}"
        compared += 1
    return compared


def test_the_tally_takes_the_latest_answer_of_a_poll() -> None:
    rows = "1 100 old Running, 11 100 a Queuing, 11 100 b Running, 12 100 a Running, 13 100 b Failed, 13 1 c Running"
    answers = [
        {"operation": "ListJobs", "time": int(time), "query": {"WorkspaceId": "w", "PageSize": size}, "rows": [row]}
        for time, size, *row in map(str.split, rows.split(","))
    ]
    assert _live_tally(answers, 10, 20) == {("w", "Running"): 1}
