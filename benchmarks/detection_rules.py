"""The shipped rules over samples: records level by level, then alerts by range queries of a real Prometheus.

A range query with the interval of a rule group evaluates an expression as often as the group. An alert's `for` is
applied here to the results, as Prometheus does. A test compares it with `promtool test rules`.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.generator import rules
from deploy.generator.rules_model import Alert, Record, filled, seconds
from tests.deploy.history_server import create_blocks, prometheus_on

STEP = 60
_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Firing:
    """One alert while it fires: its labels, and the Unix times of its first and last evaluation."""

    name: str
    labels: Mapping[str, str]
    start: int
    end: int


def needed(alerts: Iterable[Alert]) -> list[list[tuple[Record, int]]]:
    """Return the records that the alerts read, each with its interval in seconds.

    They come in turns: those of a turn read only samples and earlier turns.
    """
    known = {record.name: record for record in rules.records()}
    steps = {rule.name: seconds(group.interval) or STEP for group in rules.RECORDING for rule in group.rules}
    wanted: dict[str, Record] = {}
    waiting = [name for alert in alerts for name in rules.RECORD.findall(alert.expr)]
    while waiting:
        name = waiting.pop()
        if name in known and name not in wanted:
            wanted[name] = known[name]
            waiting += rules.RECORD.findall(known[name].expr)
    turns: list[list[tuple[Record, int]]] = []
    while wanted:
        ready = [record for record in wanted.values() if wanted.keys().isdisjoint(rules.RECORD.findall(record.expr))]
        turns.append([(record, steps[record.name]) for record in ready])
        for record in ready:
            del wanted[record.name]
    return turns


def firings(samples: Path, alerts: Sequence[Alert], folder: Path, start: int, end: int) -> list[Firing]:
    """Return every firing of one of the alerts between two Unix times, with the shipped thresholds."""
    thresholds = rules.shipped().thresholds
    blocks = folder / "tsdb"
    _store(samples, blocks)
    made = folder / "records.om"
    for turn in needed(alerts):
        with prometheus_on(blocks, folder) as url, made.open("w", encoding="utf-8") as stream:
            for record, step in turn:
                for labels, values in _range(url, filled(record.expr, thresholds), start, end, step):
                    kept = ",".join(
                        f"{name}={json.dumps(value)}" for name, value in labels.items() if name != "__name__"
                    )
                    head = f"{record.name}{{{kept}}}"
                    stream.writelines(f"{head} {value} {at}\n" for at, value in values)
            stream.write("# EOF\n")
        _store(made, blocks)
    with prometheus_on(blocks, folder) as url:
        return [
            firing
            for alert in alerts
            for labels, values in _range(url, filled(alert.expr, thresholds), start, end, STEP)
            for firing in fired(
                alert.name,
                labels,
                [at for at, _ in values],
                seconds(filled(alert.wait, thresholds)),
                seconds(str(thresholds["keep_firing_for"])) if alert.flaps else 0,
            )
        ]


def fired(name: str, labels: Mapping[str, str], times: Sequence[int], wait: int, keep: int = 0) -> Iterator[Firing]:
    """Return the times at which an alert fires. Its expression has a value at `times`.

    The alert fires when it has had a value for `wait` seconds at every evaluation, and then `keep` seconds longer.
    """
    firing, begin = None, 0
    for number, at in enumerate(times):
        if number + 1 < len(times) and times[number + 1] == at + STEP:
            continue
        if firing is not None and times[begin] <= firing.end + STEP:
            firing = Firing(name, labels, firing.start, at + keep)
        elif at - times[begin] >= wait:
            if firing is not None:
                yield firing
            firing = Firing(name, labels, times[begin] + wait, at + keep)
        begin = number + 1
    if firing is not None:
        yield firing


def _store(samples: Path, blocks: Path) -> None:
    create_blocks("--max-block-duration=500h", "openmetrics", "--quiet", str(samples), str(blocks))


def _range(
    url: str, query: str, start: int, end: int, step: int
) -> Iterator[tuple[Mapping[str, str], list[tuple[int, str]]]]:
    """Return the series of a response, with a value for each step of so many seconds that has one."""
    form = urllib.parse.urlencode({"query": query, "start": start, "end": end, "step": step, "timeout": "10m"})
    with urllib.request.urlopen(f"{url}/api/v1/query_range", form.encode(), timeout=_TIMEOUT) as answer:  # noqa: S310 - ours
        found: Any = json.load(answer)
    for series in found["data"]["result"]:
        yield series["metric"], [(int(at), value) for at, value in series["values"]]
