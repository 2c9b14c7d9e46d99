"""Three exporter processes with one lease of an API server: one is killed, one is stopped and continues."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from tests.e2e.processes import ExporterProcess, eventually, running_clouds, running_exporter
from tests.lease.api_server import NAMESPACE, ApiServer
from tests.support.certificates import Authority
from trainfleet_simulator import Simulator


class _Site:
    """An exporter that has a cloud of its own, which counts its calls."""

    def __init__(self, exporter: ExporterProcess, cloud: str) -> None:
        self.exporter = exporter
        self.cloud = cloud

    @property
    def leads(self) -> bool:
        return "\ntrainfleet_exporter_leader 1.0\n" in self.exporter.metrics().text

    @property
    def calls(self) -> int:
        counts = httpx.get(f"{self.cloud}/truth", trust_env=False).json()["calls"]
        return sum(count for api in counts.values() for outcomes in api.values() for count in outcomes.values())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api_server: ApiServer

    def _answer(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {"authorization": self.headers["authorization"]}
        request = httpx.Request(self.command, f"https://api{self.path}", headers=headers, content=content)
        answer = self.api_server.answer(request)
        self.send_response(answer.status_code)
        self.send_header("content-length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 - http.server's names

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Log nothing."""


@contextlib.contextmanager
def _running_api_server(account: Path, server: ApiServer) -> Iterator[Mapping[str, str]]:
    """The environment of a pod whose service account is in the folder `account`."""
    authority = Authority(account)
    (account / "ca.crt").write_bytes(authority.file.read_bytes())
    (account / "namespace").write_text(NAMESPACE, encoding="utf-8")
    (account / "token").write_text("token", encoding="utf-8")
    listener = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api_server": server}))
    listener.socket = authority.server().wrap_socket(listener.socket, server_side=True)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        yield {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(listener.server_address[1])}
    finally:
        listener.shutdown()
        listener.server_close()


_IN_POD = """
import pathlib, runpy, sys
from trainfleet_exporter.lease import kubernetes
kubernetes.ACCOUNT = pathlib.Path(sys.argv.pop(1))
runpy.run_module("trainfleet_exporter", run_name="__main__")
"""
"""The command with another folder of the service account, because tests do not write to /var/run."""


def test_a_killed_and_a_stopped_holder_are_replaced(tmp_path: Path) -> None:
    """Waits for two takeovers with the shipped durations, about 25 s."""
    account = tmp_path / "account"
    account.mkdir()
    server = ApiServer()
    released = {"metadata": {"resourceVersion": "1"}, "spec": {"leaseTransitions": 1}}  # the first start need not wait
    server.leases["trainfleet-exporter"] = released
    command = [sys.executable, "-c", _IN_POD, str(account)]
    simulators = [Simulator(seed=3, clouds=("pai",)) for _ in range(3)]
    with running_clouds(simulators) as addresses, contextlib.ExitStack() as stack:
        pod = stack.enter_context(_running_api_server(account, server))
        sites = []
        for number, (simulator, url) in enumerate(zip(simulators, addresses, strict=True)):
            config = tmp_path / f"{number}.yaml"
            text = simulator.config_yaml(url).replace("poll_interval: 10s", "poll_interval: 2s")
            config.write_text(text.replace("poll_timeout: 8s", "poll_timeout: 1s"), encoding="utf-8")
            flags = [f"--config.file={config}", "--lease=kubernetes"]
            starting = running_exporter(flags, tmp_path / f"{number}.log", command=command, environ=pod)
            sites.append(_Site(stack.enter_context(starting), url))
        eventually(lambda: any(site.leads for site in sites), what="a leader")
        (first,) = [site for site in sites if site.leads]
        others = [site for site in sites if site is not first]
        eventually(lambda: first.calls > 0, what="calls of the leader")
        for site in others:
            site.exporter.wait_until_ready()
        assert [site.calls for site in others] == [0, 0]

        killed = time.monotonic()
        first.exporter.end(signal=signal.SIGKILL)
        before = len(server.requests)
        eventually(lambda: any(site.calls for site in others), what="calls of another exporter")
        assert time.monotonic() - killed < 2 * 15
        taken = server.requests.index(("PUT", 200), before)
        assert server.requests[before:taken].count(("GET", 200)) <= 15  # looks of two standbys in 15 s
        second, third = sorted(others, key=lambda site: -site.calls)
        assert third.calls == 0

        second.exporter.process.send_signal(signal.SIGSTOP)
        eventually(lambda: third.calls > 0, what="calls of the third exporter")
        before = second.calls
        second.exporter.process.send_signal(signal.SIGCONT)
        eventually(lambda: "lease lost" in second.exporter.log, what="the stopped exporter to notice")
        time.sleep(2.5)  # longer than an interval
        assert second.calls == before
        assert not second.leads
        assert third.leads
