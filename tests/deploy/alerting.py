"""A real Prometheus and a real Alertmanager with the shipped config, and a receiver of their notifications."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml
from deploy.generator import DEPLOY, rules
from deploy.generator.rules_model import INTERVAL

from tests.e2e.processes import running_server
from tests.support.ports import held_port
from tests.support.programs import need

S = TypeVar("S", bound=ThreadingHTTPServer)


@dataclass(frozen=True)
class Notice:
    """One alert of a received message. `at` is the Unix time."""

    at: float
    path: str
    alert: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the alert."""
        return str(self.alert["labels"]["alertname"])

    @property
    def job_id(self) -> str:
        """The id of the job of the alert, or empty."""
        return str(self.alert["labels"].get("job_id", ""))

    @property
    def resolved(self) -> bool:
        """Whether the alert has ended."""
        return bool(self.alert["status"] == "resolved")


class Receiver(ThreadingHTTPServer):
    """An HTTP server that keeps the notifications of Alertmanager's webhooks."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.notices: list[Notice] = []
        self.messages = 0


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.messages += 1
        self.server.notices += [Notice(time.time(), self.path, alert) for alert in message["alerts"]]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's parameter
        pass


@contextlib.contextmanager
def serving(server: S) -> Iterator[S]:
    """Run a server in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def running_alertmanager(folder: Path, receiver: str, **route: str | list[str]) -> Iterator[tuple[httpx.Client, int]]:
    """Run Alertmanager with the shipped config.

    Its webhooks go to `receiver` (host and port). `route` replaces keys of all its routes.
    """
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
    """Run Alertmanager with this config. Yield a client and its port."""
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
        with running_server(command, port, folder / "alertmanager.log") as client:
            yield client, port


@contextlib.contextmanager
def running_prometheus(
    folder: Path, target: str, alertmanager: int, *, short: Mapping[str, str | int] | None = None
) -> Iterator[httpx.Client]:
    """Run Prometheus with the shipped config on one exporter.

    With `short` thresholds, it scrapes and evaluates rules every second.
    """
    shipped = rules.shipped()
    tuning = replace(shipped, thresholds={**shipped.thresholds, **(short or {})})
    (folder / "rules").mkdir()
    text = rules.render(tuning, interval="1s" if short else INTERVAL)
    (folder / "rules" / "all.yaml").write_text(text, encoding="utf-8")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    if short:
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
            *(["--rules.alert.resend-delay=1s"] if short else []),
        ]
        with running_server(command, port, folder / "prometheus.log") as client:
            yield client


def troubles(folder: Path) -> list[str]:
    """Return the warnings and errors in the logs of the servers that ran in this folder."""
    return [
        line
        for name in ("prometheus", "alertmanager")
        for line in (folder / f"{name}.log").read_text(encoding="utf-8").splitlines()
        if re.search(r"level=(warn|error)", line) and "Received SIGTERM" not in line
    ]
