"""Alerts ignore old readings of a simulated cloud whose usage a budget stretches to an hour."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest
from deploy.generator import rules
from deploy.generator.rules_model import filled
from deploy.generator.rules_readings import AGE, FRESH_USE, OLD

from tests.deploy.history import SCRAPE_INTERVAL, START, History, stamped
from tests.deploy.history_server import HistoryServer, serving_history
from tests.pacing.month import config_text
from tests.support.clock import run_stepped
from tests.support.programs import need
from trainfleet_exporter.app.exporter import Exporter
from trainfleet_exporter.config import load_config
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_simulator import Simulator

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules" / "trainfleet-recording.yaml"
HOURS = 4
ALLOWED = 15_000
"""Calls in 30 days. A poll takes 20, so there is one poll in an hour."""
IDLE_FOR = 20 * 60
IDLE_RATIO = 0.1
"""Above the utilization of the simulated jobs while they write a checkpoint."""
READ = (
    "trainfleet_job_holds_resources",
    "trainfleet_job_info",
    "trainfleet_job_requested_accelerators",
    "trainfleet_job_accelerator_utilization_ratio",
    "trainfleet_job_usage_timestamp_seconds",
    "trainfleet_exporter_collector_interval_seconds",
    "trainfleet_exporter_collector_oldest_part_timestamp_seconds",
)


def _record(folder: Path) -> History:
    """Run the exporter at this pace, scrape every minute, and write the samples that the rule reads."""
    path = folder / "history.om"

    async def main() -> History:
        simulator = Simulator(seed=3, clouds=("pai",), patience=20)
        async with simulator.serve() as url:
            config = folder / "config.yaml"
            config.write_text(config_text(url, ALLOWED), encoding="utf-8")
            platforms = installed_platforms()
            models = {name: platform.config for name, platform in platforms.items()}
            exporter = Exporter(load_config(config, environ={}, platforms=models), platforms)
            schedule = Schedule(exporter.runners)
            try:
                schedule.start()
                with path.open("w", encoding="utf-8") as stream:
                    first = int(START) + SCRAPE_INTERVAL // 2
                    for when in range(first, first + HOURS * 3600, SCRAPE_INTERVAL):
                        await asyncio.sleep(when - time.time())
                        page = (await exporter.text()).decode().splitlines(keepends=True)
                        stream.writelines(stamped("".join(line for line in page if line.startswith(READ)), when))
                    stream.write("# EOF\n")
            finally:
                await schedule.stop()
                await exporter.aclose()
            return History(path, first, when)

    return run_stepped(main, start=START)


def _firing(prometheus: HistoryServer, expression: str) -> set[str]:
    """Return the jobs for which the expression is true for `IDLE_FOR`."""
    found = set()
    for series in prometheus.range(expression):
        times = sorted(series.values)
        begin = times[0]
        for earlier, later in pairwise(times):
            begin = begin if later - earlier == SCRAPE_INTERVAL else later
            if later - begin >= IDLE_FOR:
                found.add(series.labels["job_id"])
    return found


@pytest.mark.long
def test_hour_old_reading_makes_no_job_idle(tmp_path: Path) -> None:
    for program in ("prometheus", "promtool"):
        need(program)
    alert = next(alert for alert in rules.alerts() if alert.name == "TrainfleetJobIdle")
    thresholds = rules.shipped().thresholds
    assert alert.wait == "<idle_for>"
    assert thresholds["idle_for"] == f"{IDLE_FOR // 60}m"
    shipped = filled(alert.expr, {**thresholds, "idle_ratio": IDLE_RATIO})
    unguarded = shipped.replace(FRESH_USE, "job:trainfleet_accelerator_utilization:ratio").replace(
        "\n".join(f"  {line}" for line in OLD.splitlines()), ""
    )
    assert AGE not in unguarded
    with serving_history(_record(tmp_path), [RULES], tmp_path) as prometheus:
        ages = [age for series in prometheus.range(AGE) for age in series.values.values()]
        idle, also_by_old_readings = _firing(prometheus, shipped), _firing(prometheus, unguarded)
    assert max(ages) > 3000
    assert also_by_old_readings, "some jobs are read during a checkpoint, or nothing is tested"
    assert idle == set()
