"""The whole path of an alert, with the real servers: a job hangs in the simulated cloud, the exporter sees it, the
rules make an alert of it, Alertmanager notifies a webhook, with the owner, and again when the job is stopped.

The rules are the shipped ones with short times (promtool's tests prove the shipped values), the routes are the shipped
ones, sent to a receiver of the test.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from deploy.generator import DEPLOY, rules

from tests.e2e.processes import eventually, running_clouds, running_exporter
from tests.support.ports import held_port
from tests.support.programs import need
from trainfleet_simulator import Simulator
from trainfleet_simulator.world.jobs import Job

SHORT: Mapping[str, str | int] = {
    "bridge": "4s",
    "stuck_window": "4s",
    "stuck_readings": 2,
    "stuck_worked_within": "1m",
    "stuck_for": "1s",
}
_LEFT = 600
"""Seconds for which the job that is let hang would go on at least."""


@dataclass(frozen=True)
class Notice:
    """One alert of one message that came in, and when."""

    at: float
    path: str
    alert: dict[str, Any]

    def is_about(self, job: Job, status: str) -> bool:
        labels = self.alert["labels"]
        return bool(
            labels["alertname"] == "TrainfleetJobStuck"
            and labels["job_id"] == job.job_id
            and self.alert["status"] == status
        )


class Receiver(ThreadingHTTPServer):
    """What Alertmanager's webhooks are sent to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.notices: list[Notice] = []

    def first(self, job: Job, status: str) -> Notice | None:
        return next((notice for notice in self.notices if notice.is_about(job, status)), None)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.notices += [Notice(time.time(), self.path, alert) for alert in message["alerts"]]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name for it
        pass


@contextlib.contextmanager
def _receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


@contextlib.contextmanager
def _running(command: list[str | Path], port: int, log: Path) -> Iterator[httpx.Client]:
    """A server that says at /-/ready that it is."""
    with log.open("wb") as stream, subprocess.Popen(command, stderr=stream, stdout=stream) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                eventually(lambda: client.get("/-/ready").status_code == 200, what=str(command[0]))
                yield client
        finally:
            process.terminate()


@contextlib.contextmanager
def running_alertmanager(folder: Path, receiver: str, **route: str) -> Iterator[tuple[httpx.Client, int]]:
    """The shipped Alertmanager, its webhooks led to `receiver` (host and port), its times replaced by `route`."""
    config = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8"))
    for one in config["receivers"]:
        for hook in one["webhook_configs"]:
            hook["url"] = re.sub(r"localhost:\d+", receiver, hook["url"])

    def quicken(node: dict[str, Any]) -> None:
        node.update({key: value for key, value in route.items() if key in node})
        for child in node.get("routes", []):
            quicken(child)

    quicken(config["route"])
    with alertmanager_with(config, folder) as found:
        yield found


@contextlib.contextmanager
def alertmanager_with(config: dict[str, Any], folder: Path) -> Iterator[tuple[httpx.Client, int]]:
    """An Alertmanager with this config, and its port."""
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with held_port() as port:
        command: list[str | Path] = [
            need("prometheus-alertmanager"),
            f"--config.file={path}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        with _running(command, port, folder / "alertmanager.log") as client:
            yield client, port


@contextlib.contextmanager
def _running_prometheus(folder: Path, target: str, alertmanager: int) -> Iterator[httpx.Client]:
    """The shipped Prometheus on one exporter, scraping and evaluating every second."""
    tuning = rules.shipped()
    thresholds = {**tuning.thresholds, **SHORT}
    (folder / "rules").mkdir()
    (folder / "rules" / "all.yaml").write_text(
        rules.render(thresholds, tuning.prices, tuning.models, interval="1s"), encoding="utf-8"
    )
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "1s")
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    config["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{alertmanager}"]}]
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with held_port() as port:
        command: list[str | Path] = [
            need("prometheus"),
            f"--config.file={path}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--rules.alert.resend-delay=1s",
        ]
        with _running(command, port, folder / "prometheus.log") as client:
            yield client


def _at_work(simulator: Simulator, now: float) -> list[Job]:
    """Jobs that work, are measured one by one, and will go on for a while."""
    found = []
    for job in simulator.world.live():
        plan, draft = job.draft.plan, job.draft
        if (
            job.status == "Running"
            and (draft.payment, draft.resource_type) == ("PostPaid", "ECS")
            and job.running is not None
            and job.running < now - 90
            and now + _LEFT < job.running + plan.running
            and job.hangs_at is None
            and job.restarts == len(plan.restarts)
            and any(role.cards for role in draft.roles)
        ):
            found.append(job)
    return found


def _cloud_with_a_job() -> tuple[Simulator, Job]:
    for seed in range(1, 30):
        simulator = Simulator(seed=seed, population=300)
        found = _at_work(simulator, time.time())
        if found:
            return simulator, found[0]
    raise AssertionError("no seed has such a job")


def _config(simulator: Simulator, cloud: str, job: Job) -> str:
    """The simulator's own config, polled quickly, with nothing that the path does not need."""
    text = simulator.config_yaml(cloud)
    off = "".join(f"      {name}: {{enabled: false}}\n" for name in ("pods", "nodes", "pools", "pool_workloads"))
    text = re.sub(r"    collectors:\n(      .*\n)+", f"    collectors:\n{off}      usage: {{interval: 2s}}\n", text)
    only = f"    jobs: {{include: {{name: ['^{re.escape(job.draft.name)}$']}}}}\n"
    text = text.replace("    limits:\n", f"{only}    limits:\n")
    return text.replace("poll_interval: 10s", "poll_interval: 2s").replace("poll_timeout: 8s", "poll_timeout: 1s")


@pytest.mark.long
def test_owner_is_notified_when_a_job_hangs_and_recovers(tmp_path: Path) -> None:
    need("prometheus")
    need("prometheus-alertmanager")
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(_receiving())
        quick = {"group_wait": "0s", "group_interval": "1s"}
        _, alertmanager = stack.enter_context(
            running_alertmanager(tmp_path, f"127.0.0.1:{receiver.server_port}", **quick)
        )
        simulator, job = _cloud_with_a_job()
        [cloud] = stack.enter_context(running_clouds([simulator]))
        config = tmp_path / "config.yaml"
        config.write_text(_config(simulator, cloud, job), encoding="utf-8")
        exporter = stack.enter_context(running_exporter([f"--config.file={config}"], tmp_path / "exporter.log"))
        target = exporter.url.removeprefix("http://")
        prometheus = stack.enter_context(_running_prometheus(tmp_path, target, alertmanager))

        def worked() -> bool:
            query = f'job:trainfleet_accelerator_utilization:ratio{{job_id="{job.job_id}"}} > 0.2'
            return bool(prometheus.get("/api/v1/query", params={"query": query}).json()["data"]["result"])

        eventually(worked, what="the job's utilization")
        hung = time.time()
        assert receiver.first(job, "firing") is None
        # It has done nothing for a while, as every reading says from now on.
        job.hangs_at = int(hung) - 900
        firing = eventually(lambda: receiver.first(job, "firing"), what="the alert")
        stopped = time.time()
        simulator.world.stop(job)
        resolved = eventually(lambda: receiver.first(job, "resolved"), what="the end of the alert")
        user = job.draft.user
        assert firing.path == ("/users/alice" if user.name == "alice" else "/users")
        assert {**firing.alert["labels"], "pool_id": "", "accelerator": ""} == {
            "alertname": "TrainfleetJobStuck",
            "severity": "warning",
            "provider": "sim-pai-hangzhou",
            "job_id": job.job_id,
            "job_name": job.draft.name,
            "workspace_id": job.draft.workspace_id,
            "pool_id": "",
            "user_id": user.user_id,
            "user_name": user.name,
            "accelerator": "",
        }
        assert user.name in firing.alert["annotations"]["description"]
        assert resolved.alert["fingerprint"] == firing.alert["fingerprint"]
        assert job.stopped is not None or job.status == "Stopping"
        # A poll, a scrape, the rules, what is bridged, and two turns of Alertmanager.
        print(
            f"hung for {firing.at - hung:.1f} s when its owner was told, "
            f"and {resolved.at - stopped:.1f} s after it was stopped told that it was over"
        )
        trouble = [
            line
            for name in ("prometheus", "alertmanager")
            for line in (tmp_path / f"{name}.log").read_text().splitlines()
            if re.search(r"level=(warn|error)", line)
        ]
        assert trouble == []
