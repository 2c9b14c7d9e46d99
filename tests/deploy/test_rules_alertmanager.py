"""The Alertmanager example: routes of alerts, and alerts that inhibit others."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from deploy.generator import DEPLOY

from tests.deploy.alerting import running_alertmanager
from tests.e2e.processes import eventually
from tests.support.programs import need

CONFIG = DEPLOY / "alertmanager" / "alertmanager.yml"


def _amtool(*arguments: str | Path) -> str:
    done = subprocess.run([need("amtool"), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_amtool_takes_the_example() -> None:
    assert "9 inhibit rules" in _amtool("check-config", CONFIG)


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("alertname=TrainfleetProviderDown severity=critical provider=p", "on-call"),
        ("alertname=TrainfleetExporterDown severity=critical instance=i", "on-call"),
        ("alertname=TrainfleetJobIdle severity=warning job_id=j user_name=alice", "alice"),
        ("alertname=TrainfleetJobIdle severity=warning job_id=j user_name=bob", "users"),
        ("alertname=TrainfleetJobIdle severity=warning job_id=j", "platform-jobs"),
        ("alertname=TrainfleetJobQueuedTooLong severity=info job_id=j user_name=bob", "users"),
        ("alertname=TrainfleetJobFailed severity=warning event=true job_id=j user_name=alice", "alice"),
        ("alertname=TrainfleetJobFailed severity=warning event=true job_id=j user_name=bob", "users"),
        ("alertname=TrainfleetJobFailed severity=warning event=true job_id=j", "platform-jobs"),
        ("alertname=TrainfleetJobPlatformFault severity=warning event=true job_id=j user_name=alice", "platform-jobs"),
        ("alertname=TrainfleetPodsEvicted severity=info event=true job_id=j user_name=bob", "users"),
        ("alertname=TrainfleetPoolSaturated severity=warning pool_id=q", "platform"),
        ("alertname=TrainfleetJobFailureRateHigh severity=warning workspace_id=w", "platform"),
    ],
)
def test_routes_choose_the_receiver(labels: str, receiver: str) -> None:
    asked = ("config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={receiver}")
    said = _amtool(*asked, *labels.split())
    assert said == receiver


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A running Alertmanager without receivers, which tests query."""
    with running_alertmanager(tmp_path_factory.mktemp("alertmanager"), "127.0.0.1:9", group_wait="1h") as (client, _):
        yield client


def _silenced(client: httpx.Client, alerts: list[dict[str, str]]) -> set[str]:
    """Return the labels of the firing `alerts` that another alert inhibits."""
    ours = {tuple(sorted(labels.items())) for labels in alerts}
    found = [one for one in client.get("/api/v2/alerts").json() if tuple(sorted(one["labels"].items())) in ours]
    assert len(found) == len(ours)
    return {str(one["labels"]) for one in found if one["status"]["inhibitedBy"]}


def _of(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, **labels}


JOB = {"provider": "p", "job_id": "j", "pool_id": "q"}


@pytest.mark.parametrize(
    ("firing", "silenced", "said"),
    [
        pytest.param(
            _of("TrainfleetProviderDown", provider="p"),
            [
                _of("TrainfleetJobIdle", **JOB),
                _of("TrainfleetPodStraggling", **JOB),
                _of("TrainfleetDeviceUnhealthy", pod_id="j-0", device="3", **JOB),
                _of("TrainfleetJobRestartStorm", **JOB),
                _of("TrainfleetPoolSaturated", provider="p", pool_id="q"),
                _of("TrainfleetCollectorStale", provider="p", collector="jobs"),
            ],
            [
                _of("TrainfleetJobFailed", event="true", **JOB),
                _of("TrainfleetJobIdle", **{**JOB, "provider": "other"}),
                _of("TrainfleetApiThrottled", provider="p", api="dlc"),
            ],
            id="a provider is down",
        ),
        pytest.param(
            _of("TrainfleetExporterDown", provider="p", instance="i"),
            [
                _of("TrainfleetProviderDown", provider="p"),
                _of("TrainfleetJobIdle", **JOB),
                _of("TrainfleetCollectorStale", provider="p", collector="jobs"),
                _of("TrainfleetCredentialsExpiring", provider="p"),
            ],
            [_of("TrainfleetProviderDown", provider="other"), _of("TrainfleetJobIdle", **{**JOB, "provider": "third"})],
            id="the exporter of a provider is down",
        ),
        pytest.param(
            _of("TrainfleetExporterDown", instance="spare"),
            [],
            [_of("TrainfleetJobIdle", **JOB), _of("TrainfleetCollectorStale", provider="p")],
            id="an exporter is down whose providers another one polls",
        ),
        pytest.param(
            _of("TrainfleetCredentialsExpiring", provider="p"),
            [_of("TrainfleetProviderDown", provider="p"), _of("TrainfleetCollectorStale", provider="p", collector="x")],
            [_of("TrainfleetProviderDown", provider="other"), _of("TrainfleetApiThrottled", provider="p", api="dlc")],
            id="credentials have ended",
        ),
        pytest.param(
            _of("TrainfleetApiThrottled", provider="p", api="dlc"),
            [
                _of("TrainfleetCollectorStale", provider="p", collector="jobs"),
                _of("TrainfleetCollectorStretched", provider="p", collector="pods"),
            ],
            [_of("TrainfleetCollectorStale", provider="other", collector="jobs"), _of("TrainfleetJobIdle", **JOB)],
            id="a cloud throttles calls",
        ),
        pytest.param(
            _of("TrainfleetApiThrottled", provider="p", api="cloudwatch"),
            [
                _of("TrainfleetCollectorStale", provider="p", collector="usage"),
                _of("TrainfleetCollectorStretched", provider="p", collector="pool_usage"),
            ],
            [
                _of("TrainfleetCollectorStale", provider="p", collector="jobs"),
                _of("TrainfleetCollectorStretched", provider="p", collector="jobs"),
            ],
            id="a cloud throttles calls of usage",
        ),
        pytest.param(
            _of("TrainfleetJobHung", **JOB),
            [_of("TrainfleetJobSlowed", **JOB), _of("TrainfleetPodStraggling", **JOB)],
            [_of("TrainfleetJobSlowed", **{**JOB, "job_id": "k"}), _of("TrainfleetJobFailed", **JOB)],
            id="a job hangs",
        ),
        pytest.param(
            _of("TrainfleetJobIdle", **JOB),
            [_of("TrainfleetPodStraggling", pod_id="j-0", **JOB)],
            [_of("TrainfleetPodStraggling", pod_id="k-0", **{**JOB, "job_id": "k"})],
            id="a job is idle",
        ),
        pytest.param(
            _of("TrainfleetDeviceUnhealthy", pod_id="j-0", device="3", **JOB),
            [_of("TrainfleetPodStraggling", pod_id="j-0", **JOB)],
            [_of("TrainfleetPodStraggling", pod_id="j-1", **JOB), _of("TrainfleetJobSlowed", **JOB)],
            id="a device is unhealthy",
        ),
        pytest.param(
            _of("TrainfleetPoolSaturated", provider="p", pool_id="q"),
            [_of("TrainfleetJobQueuedTooLong", **JOB)],
            [_of("TrainfleetJobQueuedTooLong", **{**JOB, "pool_id": "r"})],
            id="a pool is full",
        ),
    ],
)
def test_what_is_said_already_is_not_said_twice(
    alertmanager: httpx.Client,
    request: pytest.FixtureRequest,
    firing: dict[str, str],
    silenced: list[dict[str, str]],
    said: list[dict[str, str]],
) -> None:
    # Each case has its own providers, so that the alerts of other cases do not matter.
    mark = request.node.callspec.id

    def own(labels: dict[str, str]) -> dict[str, str]:
        return {name: f"{value} of {mark}" if name == "provider" else value for name, value in labels.items()}

    everything = [own(labels) for labels in (firing, *silenced, *said)]
    begun = datetime.now(UTC).isoformat()
    alerts = [{"labels": labels, "startsAt": begun} for labels in everything]
    assert alertmanager.post("/api/v2/alerts", json=alerts).status_code == 200
    expected = {str(dict(sorted(own(labels).items()))) for labels in silenced}
    eventually(lambda: _silenced(alertmanager, everything) >= expected, what="the alerts to be looked at")
    assert _silenced(alertmanager, everything) == expected
