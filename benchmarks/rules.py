"""`python -m benchmarks.rules NAME=FOLDER ...`: what the rules of each folder cost in a real Prometheus.

It serves a page of running jobs and runs one Prometheus after the other on it, each with the rules of one folder. The
first blocks of each contain a day of history, because rules with long windows cost more with it. It prints the seconds
of evaluation in a minute, the CPU seconds of Prometheus in a minute, and the number of recorded series. Other work on
the machine changes the CPU seconds less than the times.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
import threading
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random

from tests.deploy.history_server import create_blocks
from tests.support.ports import held_port

from benchmarks import peers, rig

_LOOK_SECONDS = 20.0
_RECORDS = '{__name__=~"[a-z_]+:trainfleet_.+"}'
_CONFIG = """\
global: {{scrape_interval: 60s, scrape_timeout: 30s, evaluation_interval: 60s}}
rule_files: ["{rules}/*.yaml"]
scrape_configs:
  - job_name: trainfleet-exporter
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""
_CPU = re.compile(r"^process_cpu_seconds_total (\S+)$", re.MULTILINE)
_GROUP = re.compile(
    r'^prometheus_rule_group_(last_duration|interval)_seconds\{rule_group=".*;(.*)"\} (\S+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Running jobs with pods of eight accelerators. The platform reports the power of pods."""

    jobs: int
    pods: int

    def page(self, now: float) -> Iterator[str]:
        """Yield the lines of the exporter's page at a Unix time."""
        random = Random(now)
        for name, labels, value in self._shared(now):
            yield _line(name, labels, value)
        for number in range(self.jobs):
            job = f'job_id="job-{number}"'
            for name, labels, value in _of_job(random, job, number, self.pods, now):
                yield _line(name, labels, value)
            for pod in range(self.pods):
                for name, labels, value in _of_pod(random, f'{job},pod_id="job-{number}-{pod}"', number):
                    yield _line(name, labels, value)

    def _shared(self, now: float) -> Iterator[tuple[str, str, float]]:
        yield "provider_info", 'platform="x"', 1
        yield "provider_up", "", 1
        for collector in ("jobs", "usage", "pools"):
            of = f'collector="{collector}"'
            yield "exporter_collector_interval_seconds", of, 60
            yield "exporter_collector_success", of, 1
            yield "exporter_collector_last_success_timestamp_seconds", of, now - 10
            yield "exporter_collector_oldest_part_timestamp_seconds", of, now - 10
        for pool in range(20):
            of = f'pool_id="pool-{pool}"'
            yield "pool_info", f'{of},pool_name="n",parent_pool_id=""', 1
            yield "pool_capacity_accelerators", f'{of},accelerator="gpu",accelerator_model="V100"', 4000
            yield "pool_allocated_accelerators", f'{of},accelerator="gpu",accelerator_model="V100"', 3200

    def history(self, end: int) -> Iterator[str]:
        """Yield the samples that long windows read: a day of jobs and six hours of pods, as OpenMetrics."""
        random = Random(0)
        for number in range(self.jobs):
            of = f'provider="p",job_id="job-{number}"'
            for name, labels, mean, step in (
                ("job:trainfleet_accelerator_power:watts", of, 35_000.0, 600),
                ("job:trainfleet_network:bytes_per_second", of, 8e9, 600),
                ("job:trainfleet_accelerator_utilization:ratio", f'{of},accelerator="gpu"', 0.9, 60),
            ):
                yield from (
                    f"{name}{{{labels}}} {mean * random.gauss(1, 0.02):.4g} {at}\n"
                    for at in range(end - 86_400, end, step)
                )
            for pod in range(self.pods):
                head = f'pod:trainfleet_work_share:ratio{{{of},pod_id="job-{number}-{pod}"}}'
                yield from (f"{head} {random.gauss(1, 0.01):.4g} {at}\n" for at in range(end - 21_600, end, 300))
        yield "# EOF\n"


def _line(name: str, labels: str, value: float) -> str:
    return f'trainfleet_{name}{{provider="p"{"," if labels else ""}{labels}}} {value:.10g}\n'


def _of_job(random: Random, job: str, number: int, pods: int, now: float) -> Iterator[tuple[str, str, float]]:
    owner = (
        f'workspace_id="w{number % 10}",pool_id="pool-{number % 20}",user_id="{number % 50}",user_name="u{number % 50}"'
    )
    started = 1e9 + number
    yield "job_info", f'{job},job_name="n{number}",{owner}', 1
    yield "job_labels", f'{job},label_team="t{number % 8}"', 1
    yield "job_status", f'{job},status="running"', 1
    yield "job_holds_resources", job, 1
    yield "job_requested_accelerators", f'{job},accelerator="gpu",accelerator_model="V100"', 8 * pods
    yield "job_started_timestamp_seconds", job, started
    yield "job_submitted_timestamp_seconds", job, started - 100
    yield "job_restarts_total", job, 1
    for phase, seconds in (("queued", 100), ("preparing", 300), ("running", now - started), ("recovering", 60)):
        yield "job_phase_seconds", f'{job},phase="{phase}"', seconds
    yield "job_faults_total", f'{job},cause="node",platform_cause="x"', 1
    yield "job_usage_timestamp_seconds", job, now - 90
    yield "job_cpu_utilization_ratio", job, 0.3
    of = f'{job},accelerator="gpu"'
    yield "job_accelerator_utilization_ratio", of, 0.9 * random.gauss(1, 0.01)
    yield "job_accelerator_power_watts", of, 4400 * pods * random.gauss(1, 0.02)
    for way in ("receive", "transmit"):
        yield f"job_network_{way}_bytes_per_second", job, 1e9 * random.gauss(pods, 0.1)


def _of_pod(random: Random, pod: str, number: int) -> Iterator[tuple[str, str, float]]:
    yield "pod_info", f'{pod},role="worker",node_name="node-{number}",pod_ip=""', 1
    yield "pod_status", f'{pod},status="running"', 1
    yield "pod_evictions_total", pod, 0
    yield "pod_cpu_utilization_ratio", pod, 0.3
    of = f'{pod},accelerator="gpu"'
    yield "pod_accelerator_utilization_ratio", of, 0.9 * random.gauss(1, 0.01)
    yield "pod_accelerator_power_watts", of, 4400 * random.gauss(1, 0.01)
    for way in ("receive", "transmit"):
        yield f"pod_network_{way}_bytes_per_second", pod, 1e9 * random.gauss(1, 0.05)


def measure(rules: Path, port: int, blocks: Path, minutes: float) -> tuple[Mapping[str, float], float, int, int]:
    """Run a Prometheus with some rules on the page of a port.

    Return the seconds of evaluation in a minute by rule group, the CPU seconds of Prometheus in a minute, the recorded
    series, and the scraped samples.
    """
    seen: defaultdict[str, list[float]] = defaultdict(list)
    intervals: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, held_port() as own_port:
        folder = Path(name)
        shutil.copytree(blocks, folder / "data")
        config = folder / "prometheus.yaml"
        config.write_text(_CONFIG.format(rules=rules.resolve(), port=port), encoding="utf-8")
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{own_port}",
        ]
        with rig.running(command, log=folder / "log") as process:
            url = f"http://127.0.0.1:{own_port}"
            peers.wait_for(f"{url}/-/ready", process)
            start = time.monotonic()
            used = float(_CPU.findall(rig.get(f"{url}/metrics").decode())[0])
            while time.monotonic() < start + 60 * minutes:
                time.sleep(_LOOK_SECONDS)
                looked = rig.get(f"{url}/metrics").decode()
                for kind, group, value in _GROUP.findall(looked):
                    if kind == "interval":
                        intervals[group] = float(value)
                    elif float(value) > 0:
                        seen[group].append(float(value))
            cpu = 60 * (float(_CPU.findall(looked)[0]) - used) / (time.monotonic() - start)
            records = _now(url, f"count(last_over_time({_RECORDS}[11m]))")
            scraped = _now(url, "max(scrape_samples_scraped)")
    costs = {group: 60 / intervals[group] * sum(read) / len(read) for group, read in seen.items()}
    return costs, cpu, records, scraped


def _now(url: str, query: str) -> int:
    found = json.loads(rig.get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
    return int(found["data"]["result"][0]["value"][1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("rules", nargs="+", metavar="NAME=FOLDER", help="folders of rule files")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=8, help="pods of each job (default: 8)")
    parser.add_argument("--minutes", type=float, default=12.0, help="time for each folder (default: 12)")
    asked = parser.parse_args(arguments)
    fleet = Fleet(asked.jobs, asked.pods)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = "".join(fleet.page(time.time())).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with tempfile.TemporaryDirectory() as name, ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        samples, blocks = Path(name) / "history.om", Path(name) / "blocks"
        with samples.open("w", encoding="utf-8") as stream:
            stream.writelines(fleet.history(int(time.time())))
        create_blocks("openmetrics", "--quiet", str(samples), str(blocks))
        for each in asked.rules:
            title, _, folder = each.partition("=")
            costs, cpu, records, scraped = measure(Path(folder), server.server_port, blocks, asked.minutes)
            spent = f"{sum(costs.values()):.2f} s and {cpu:.2f} CPU s a minute"
            print(f"{title}: {spent}, {records:,} records of {scraped:,} samples")
            for group, cost in sorted(costs.items(), key=lambda item: -item[1]):
                print(f"  {group}: {cost:.2f} s a minute", flush=True)
        server.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
