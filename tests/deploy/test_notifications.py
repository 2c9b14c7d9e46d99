"""Failed jobs are notified once: real servers, short times. Tests with promtool check the shipped times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.alerting import Receiver, running_alertmanager, running_prometheus, serving, troubles
from tests.e2e.processes import eventually
from tests.support.programs import need

SHORT: Mapping[str, str | int] = {"bridge": "5s", "job_failed_seconds": 10}
FAILED = {"TrainfleetJobFailed", "TrainfleetJobPlatformFault"}
JOBS = {
    "a": ("alice", "ContainerExitedWithError", "/users/alice"),
    "b": ("bob", "OutOfMemory", "/users"),
    "c": ("bob", "", "/users"),
    "d": ("", "ImagePullFailed", "/platform/jobs"),
    "e": ("bob", "NodeFault", "/platform/jobs"),
}
"""Failed jobs: user, reason, and path of the notification."""


class _Exporter(ThreadingHTTPServer):
    """A page with running jobs, which fail when `failed_at` is set. Every fourth scrape fails."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.failed_at = 0.0
        self.scrapes = 0

    def page(self) -> str:
        lines = ['trainfleet_provider_up{provider="p"} 1', 'trainfleet_provider_info{provider="p"} 1']
        for job, (user, reason, _) in JOBS.items():
            key = f'provider="p",job_id="{job}"'
            lines.append(f'trainfleet_job_info{{{key},job_name="n-{job}",user_id="",user_name="{user}"}} 1')
            status = "failed" if self.failed_at else "running"
            lines.append(f'trainfleet_job_status{{{key},status="{status}"}} 1')
            if self.failed_at:
                lines.append(f"trainfleet_job_finished_timestamp_seconds{{{key}}} {self.failed_at}")
                lines += [f'trainfleet_job_status_reason{{{key},reason="{reason}"}} 1'] if reason else []
        return "".join(f"{line}\n" for line in lines)


class _Page(BaseHTTPRequestHandler):
    server: _Exporter

    def do_GET(self) -> None:
        self.server.scrapes += 1
        self.send_response(503 if self.server.scrapes % 4 == 0 else 200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.server.page().encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's parameter
        pass


@pytest.mark.long
def test_each_failed_job_is_notified_once_and_never_resolved(tmp_path: Path) -> None:
    need("prometheus")
    need("prometheus-alertmanager")
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(serving(Receiver()))
        exporter = stack.enter_context(serving(_Exporter()))
        client, alertmanager = stack.enter_context(
            running_alertmanager(tmp_path, f"127.0.0.1:{receiver.server_port}", group_wait="0s", group_interval="1s")
        )
        target = f"127.0.0.1:{exporter.server_port}"
        stack.enter_context(running_prometheus(tmp_path, target, alertmanager, short=SHORT))
        eventually(lambda: exporter.scrapes >= 1, what="a scrape")
        exporter.failed_at = time.time()
        eventually(lambda: {each.job_id for each in receiver.notices} == set(JOBS), what="the notifications")

        def over() -> bool:
            names = {alert["labels"]["alertname"] for alert in client.get("/api/v2/alerts").json()}
            return not names & FAILED

        eventually(over, what="the end of the alerts")
        flushed = exporter.scrapes + 2  # longer than group_interval
        eventually(lambda: exporter.scrapes >= flushed, what="Alertmanager to send what it has")
        sent = [(each.job_id, each.path) for each in receiver.notices if each.name in FAILED and not each.resolved]
        assert sorted(sent) == sorted((job, path) for job, (*_, path) in JOBS.items())
        assert [each.name for each in receiver.notices if each.resolved and each.job_id] == []
        assert receiver.messages <= 1.2 * len(JOBS)
        assert {each.job_id for each in receiver.notices if each.name == "TrainfleetJobPlatformFault"} == {"e"}
        assert troubles(tmp_path) == []
