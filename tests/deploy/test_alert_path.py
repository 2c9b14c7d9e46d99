"""The whole path of an alert with real servers.

1. A job hangs in the simulated cloud.
2. An alert of the rules fires.
3. Alertmanager notifies the job's owner by webhook.
4. The job is stopped, and the alert ends.

The rules are the shipped ones with short times. Tests with promtool check the shipped times. The routes are the shipped
ones with a receiver of the test.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.deploy.alerting import Notice, Receiver, running_alertmanager, running_prometheus, serving, troubles
from tests.e2e.processes import eventually, running_clouds, running_exporter
from tests.support.programs import need
from trainfleet_simulator import Simulator
from trainfleet_simulator.world.jobs import Job

SHORT: Mapping[str, str | int] = {"bridge": "4s", "idle_window": "4s", "idle_for": "1s", "starting_seconds": 1}
_LEFT = 600
"""The job that the test lets hang would run for at least this many more seconds."""


def _at_work(simulator: Simulator, now: float) -> list[Job]:
    """Return jobs that work, have usage of their own and will run for a while."""
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
    """Return the simulator's config with short intervals and only the needed collectors."""
    text = simulator.config_yaml(cloud)
    off = "".join(f"      {name}: {{enabled: false}}\n" for name in ("pods", "nodes", "pools", "pool_workloads"))
    text = re.sub(r"    collectors:\n(      .*\n)+", f"    collectors:\n{off}      usage: {{interval: 5s}}\n", text)
    only = f"    jobs: {{include: {{name: ['^{re.escape(job.draft.name)}$']}}}}\n"
    text = text.replace("    limits:\n", f"{only}    limits:\n")
    return text.replace("poll_interval: 10s", "poll_interval: 5s").replace("poll_timeout: 8s", "poll_timeout: 4s")


@pytest.mark.long
def test_owner_is_notified_once_when_a_job_hangs_and_is_stopped(tmp_path: Path) -> None:
    need("prometheus")
    need("prometheus-alertmanager")
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(serving(Receiver()))
        quick = {"group_wait": "0s", "group_interval": "1s"}
        client, alertmanager = stack.enter_context(
            running_alertmanager(tmp_path, f"127.0.0.1:{receiver.server_port}", **quick)
        )
        simulator, job = _cloud_with_a_job()
        [cloud] = stack.enter_context(running_clouds([simulator]))
        config = tmp_path / "config.yaml"
        config.write_text(_config(simulator, cloud, job), encoding="utf-8")
        exporter = stack.enter_context(running_exporter([f"--config.file={config}"], tmp_path / "exporter.log"))
        target = exporter.url.removeprefix("http://")
        prometheus = stack.enter_context(running_prometheus(tmp_path, target, alertmanager, short=SHORT))

        def worked() -> bool:
            query = f'job:trainfleet_accelerator_utilization:ratio{{job_id="{job.job_id}"}} > 0.2'
            return bool(prometheus.get("/api/v1/query", params={"query": query}).json()["data"]["result"])

        eventually(worked, what="the job's utilization")

        def idle() -> Notice | None:
            names = ("TrainfleetJobIdle", job.job_id)
            return next((each for each in receiver.notices if (each.name, each.job_id) == names), None)

        def over() -> bool:
            alerts = client.get("/api/v2/alerts", params={"filter": "alertname=TrainfleetJobIdle"}).json()
            return job.job_id not in {alert["labels"]["job_id"] for alert in alerts}

        assert idle() is None
        # From now on, readings show that the job has been idle for 15 minutes.
        job.hangs_at = int(time.time()) - 900
        firing = eventually(idle, what="the alert")
        simulator.world.stop(job)
        eventually(over, what="the end of the alert")
        user = job.draft.user
        assert firing.path == ("/users/alice" if user.name == "alice" else "/users")
        assert {**firing.alert["labels"], "pool_id": "", "accelerator": ""} == {
            "alertname": "TrainfleetJobIdle",
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
        assert not any(notice.resolved for notice in receiver.notices if notice.job_id)
        assert job.status in {"Stopping", "Stopped"}
        assert troubles(tmp_path) == []
