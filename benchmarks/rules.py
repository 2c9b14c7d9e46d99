"""`python -m benchmarks.rules FOLDER ...`: what the rules of each folder cost in a real Prometheus.

It runs an exporter on simulated clouds, and one Prometheus after the other, each with the rules of one folder. The
first blocks of each contain a day of history, because rules with long windows cost more with it. It prints the seconds
of evaluation in a minute, the CPU seconds of Prometheus in a minute, and the number of recorded series. Other work on
the machine changes the CPU seconds less than the times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import sys
import tempfile
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from tests.deploy.history_server import create_blocks
from tests.support.ports import held_port

from benchmarks import peers, rig
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

_LOOK_SECONDS = 20.0
_POLL_SECONDS = 180.0
"""After these, the pods of all jobs are known."""
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
_JOBS = re.compile(r'^trainfleet_job_holds_resources\{(provider="[^"]*",job_id="[^"]*").*\} 1$', re.MULTILINE)
_PODS = re.compile(r'^trainfleet_pod_info\{(provider="[^"]*",job_id="[^"]*",pod_id="[^"]*")', re.MULTILINE)


def history(page: str, end: int) -> Iterator[str]:
    """Yield the samples that long windows read: a day of jobs and six hours of pods, as OpenMetrics."""
    random = Random(0)
    for of in _JOBS.findall(page):
        for name, labels, mean, step in (
            ("job:trainfleet_accelerator_power:watts", of, 35_000.0, 600),
            ("job:trainfleet_network:bytes_per_second", of, 8e9, 600),
            ("job:trainfleet_accelerator_utilization:ratio", f'{of},accelerator="gpu"', 0.9, 60),
        ):
            yield from (
                f"{name}{{{labels}}} {mean * random.gauss(1, 0.02):.4g} {at}\n" for at in range(end - 86_400, end, step)
            )
    for of in _PODS.findall(page):
        head = f"pod:trainfleet_work_share:ratio{{{of}}}"
        yield from (f"{head} {random.gauss(1, 0.01):.4g} {at}\n" for at in range(end - 21_600, end, 300))
    yield "# EOF\n"


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


async def _export(population: int, port: int) -> None:
    simulator = Simulator(clouds=("pai", "modelarts", "sagemaker"), population=population, patience=60)
    async with simulator.serve() as cloud:
        config = rig.load(simulator.config_yaml(cloud))
        await Daemon(config, installed_platforms(), WebSettings(addresses=(f"127.0.0.1:{port}",))).start()
        await asyncio.Event().wait()


def main() -> int:
    """Measure each folder; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rules", description=__doc__)
    parser.add_argument("rules", nargs="*", type=Path, metavar="FOLDER", help="with rule files")
    parser.add_argument("--population", type=int, default=450, help="that of the simulator (default: 450)")
    parser.add_argument("--minutes", type=float, default=12.0, help="time for each folder (default: 12)")
    parser.add_argument("--export", type=int, metavar="PORT", help="only run the exporter at this port")
    asked = parser.parse_args()
    if asked.export:
        asyncio.run(_export(asked.population, asked.export))
    with tempfile.TemporaryDirectory() as name, held_port() as port:
        folder, url = Path(name), f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "benchmarks.rules", f"--export={port}", f"--population={asked.population}"]
        with rig.running(command, log=folder / "log") as exporter:
            peers.wait_for(f"{url}/-/ready", exporter)
            time.sleep(_POLL_SECONDS)
            page = rig.get(f"{url}/metrics").decode()
            print(f"{len(_JOBS.findall(page)):,} jobs with {len(_PODS.findall(page)):,} pods", flush=True)
            with (folder / "history.om").open("w", encoding="utf-8") as stream:
                stream.writelines(history(page, int(time.time())))
            create_blocks("openmetrics", "--quiet", str(folder / "history.om"), str(folder / "blocks"))
            for each in asked.rules:
                costs, cpu, records, scraped = measure(each, port, folder / "blocks", asked.minutes)
                spent = f"{sum(costs.values()):.2f} s and {cpu:.2f} CPU s a minute"
                print(f"{each}: {spent}, {records:,} records of {scraped:,} samples")
                for group, cost in sorted(costs.items(), key=lambda item: -item[1]):
                    print(f"  {group}: {cost:.2f} s a minute", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
