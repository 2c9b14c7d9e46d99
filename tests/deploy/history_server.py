"""A real Prometheus with a recorded history and the results of the rules."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.deploy.history import SCRAPE_INTERVAL, History
from tests.e2e.processes import running_server
from tests.support.ports import held_port
from tests.support.programs import need

LATELY = 180
"""Alerts are known for this many seconds before the end."""
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True, slots=True)
class Series:
    """A series of a query result. `values` are by Unix time."""

    labels: Mapping[str, str]
    values: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class HistoryServer:
    """A client for the Prometheus with the history."""

    url: str
    client: httpx.Client
    history: History

    def instant(self, query: str) -> list[Series]:
        """Query at the last scrape. Raises AssertionError with the error of Prometheus."""
        return self._ask("query", query=query, time=self.history.end)

    def range(self, query: str, step: int = SCRAPE_INTERVAL) -> list[Series]:
        """Query at every step of the two hours. Raises AssertionError with the error of Prometheus."""
        return self._ask("query_range", query=query, start=self.history.start, end=self.history.end, step=step)

    def label_values(self, label: str, selector: str = "") -> list[str]:
        """Return the values of a label, as a `label_values()` variable of Grafana does."""
        times = {"start": self.history.start, "end": self.history.end}
        matches = {"match[]": selector} if selector else {}
        found: list[str] = self._get(f"label/{label}/values", **times, **matches)
        return found

    def _ask(self, kind: str, **parameters: Any) -> list[Series]:
        result = self._get(kind, **parameters)["result"]
        return [
            Series(row["metric"], {when: float(value) for when, value in row.get("values") or [row["value"]]})
            for row in result
        ]

    def _get(self, path: str, **parameters: Any) -> Any:
        answer = self.client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", f"{parameters}: {answer['error']}"
        return answer["data"]


@contextmanager
def serving_history(history: History, rule_files: Iterable[Path], folder: Path) -> Iterator[HistoryServer]:
    """Run a Prometheus with blocks of the history and of the rules over it."""
    blocks = folder / "tsdb"
    create_blocks("openmetrics", "--quiet", str(history.samples), str(blocks))
    records, alerts = _rules(rule_files)
    turns = [(level, history.start) for level in _levels(records)]
    if alerts:
        turns.append((alerts, history.end - LATELY))  # alerts over all the time would take longest
    # A run of promtool reads only the blocks of earlier runs, so each level needs its own run. The name and file of a
    # group decide at which second of the minute it is evaluated, so all runs use the same.
    path = folder / "rules.yaml"
    for number, (rules, start) in enumerate(turns):
        path.write_text(yaml.safe_dump({"groups": [{"name": "rules", "interval": "1m", "rules": rules}]}), "utf-8")
        made = folder / f"made-{number}"
        with prometheus_on(blocks, folder) as url:
            times = (f"--start={start}", f"--end={history.end}")
            create_blocks("rules", "--quiet", f"--url={url}", *times, f"--output-dir={made}", str(path))
        for block in made.iterdir():
            block.rename(blocks / block.name)
    with prometheus_on(blocks, folder) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        yield HistoryServer(url, client, history)


def _rules(rule_files: Iterable[Path]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the recording rules, and the alerts as records of `ALERTS`."""
    groups = [group for path in rule_files for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    given = [rule for group in groups for rule in group["rules"]]
    return [rule for rule in given if "record" in rule], [_pending(rule) for rule in given if "alert" in rule]


def _pending(alert: dict[str, Any]) -> dict[str, Any]:
    labels = {**alert["labels"], "alertname": alert["alert"], "alertstate": "pending"}
    return {"record": "ALERTS", "expr": f"({alert['expr']}) * 0 + 1", "labels": labels}


def _levels(rules: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rules by level. A level reads only scrapes and earlier levels."""
    waiting = list(rules)
    while waiting:
        missing = {rule["record"] for rule in waiting}
        ready = [rule for rule in waiting if missing.isdisjoint(_NAME.findall(rule["expr"]))]
        assert ready, f"these records need one another: {sorted(missing)}"
        yield ready
        waiting = [rule for rule in waiting if rule not in ready]


def create_blocks(kind: str, *arguments: str) -> None:
    """Create blocks with promtool. Raises AssertionError with its error."""
    command = [need("promtool"), "tsdb", "create-blocks-from", kind, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@contextmanager
def prometheus_on(blocks: Path, folder: Path, *, lookback: str = f"{SCRAPE_INTERVAL - 1}s999ms") -> Iterator[str]:
    """Run a Prometheus on `blocks` that scrapes nothing, and yield its URL.

    Files of samples have no stale markers. With a lookback just below the scrape interval, a series that is missing in
    the last scrape has ended.
    """
    config, log = folder / "prometheus.yaml", folder / "prometheus.log"
    config.write_text("global: {}\n", "utf-8")
    with held_port() as port:
        url = f"http://127.0.0.1:{port}"
        command = [
            need("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={blocks}",
            "--storage.tsdb.retention.time=100y",
            f"--query.lookback-delta={lookback}",
            "--query.timeout=10m",  # a query cannot ask for more than this
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        with running_server(command, port, log):
            yield url
