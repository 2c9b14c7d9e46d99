"""Parts of two days of each cloud, backfilled and loaded, are what the exporter showed at the same minutes."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.backfill.rig import MIDNIGHT, PROVIDERS, Rig, simulated
from tests.deploy.history_server import create_blocks, prometheus_on
from tests.support.clock import run_stepped
from trainfleet_conformance.page import Key, check
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.providers.past import DAY, Range
from trainfleet_exporter.providers.registry import installed_platforms

INSTANTS = [MIDNIGHT + 5400 + 20_400 * number for number in range(6)]
"""Unix times at which an exporter is scraped."""
END = MIDNIGHT + DAY + 6 * 3600
_LAG = 420
"""Seconds: polls, and readings that arrive late. What is older is not shown, or not yet known."""
_STATUSES = ("trainfleet_job_status", "trainfleet_job_platform_status", "trainfleet_job_holds_resources")
_ENDED = "trainfleet_job_finished_timestamp_seconds"
_PHASES = "trainfleet_job_phase_seconds"


def _slow(config: str) -> str:
    """The exporter's own intervals; without what is not backfilled."""
    deny = "deny: [trainfleet_device_*, trainfleet_pool_*, trainfleet_node_*, trainfleet_jobs*]"
    config = config.replace("poll_interval: 10s\n  poll_timeout: 8s", "poll_interval: 60s\n  poll_timeout: 50s")
    config = re.sub(r"interval: (15|20)s", "interval: 60s", config).replace(
        "jobs_v1: {enabled: true", "jobs_v1: {enabled: false"
    )
    return config.replace("    job_labels:", f"    {deny}\n    job_labels:")


async def _page(rig: Rig, at: int) -> Mapping[Key, float]:
    """The page of an exporter that began some minutes ago."""
    await asyncio.sleep(at - 200 - time.time())
    daemon = Daemon(rig.config, installed_platforms(), WebSettings(addresses=("127.0.0.1:0",)))
    await daemon.start()
    try:
        await asyncio.sleep(at - time.time())
        async with httpx.AsyncClient(trust_env=False) as client:
            page = check((await client.get(f"http://{daemon.server.addresses[0]}/metrics")).text)
        # To Prometheus, a label without a value is none.
        return {(name, tuple(pair for pair in labels if pair[1])): value for (name, labels), value in page.items()}
    finally:
        await daemon.stop()


def _past(client: httpx.Client, at: int) -> Mapping[Key, list[float]]:
    """By series, its values of the last minutes."""
    asked: dict[str, str | int] = {"query": f'{{__name__=~"trainfleet_.*"}}[{_LAG}s]', "time": at}
    answer = client.get("/api/v1/query", params=asked).json()
    assert answer["status"] == "success", answer
    found = {}
    for row in answer["data"]["result"]:
        name = row["metric"].pop("__name__")
        found[name, tuple(sorted(row["metric"].items()))] = [float(value) for _, value in row["values"]]
    return found


def _is_equal(value: float, past: list[float]) -> bool:
    return any(value == pytest.approx(each, rel=1e-6, abs=1e-9) for each in past)


@pytest.mark.long
@pytest.mark.parametrize("cloud", PROVIDERS)
def test_two_days_are_what_the_exporter_showed(cloud: str, tmp_path: Path) -> None:
    pages: dict[int, Mapping[Key, float]] = {}
    files: list[Path] = []
    changed: defaultdict[int, set[str]] = defaultdict(set)

    async def work() -> None:
        async with simulated(cloud, tmp_path, change=_slow, hours=0) as rig:
            for at in INSTANTS:
                pages[at] = await _page(rig, at)
            await asyncio.sleep(END + 1200 - time.time())
            outcome, _ = await rig.backfill(tmp_path / "out", Range(MIDNIGHT, END))
            files.extend(outcome.files)
            (forecast,) = [line for line in rig.printed if "calls expected" in line]
            numbers = re.findall(r" ([\d,]+)", forecast.partition("calls expected:")[2])
            expected = sum(int(number.strip(",").replace(",", "")) for number in numbers)
            assert rig.calls() - rig.calls_before_days == pytest.approx(expected, rel=0.02), forecast
            for job in rig.jobs():
                moments = [job.created, job.running, job.finished, *(since for _, since in job.statuses)]
                moments += [
                    moment for pod in job.pods for one in (*pod.history, pod) for moment in (one.started, one.finished)
                ]
                for at in INSTANTS:
                    if any(moment is not None and at - _LAG <= moment <= at for moment in moments):
                        changed[at].add(rig.id_of(job))

    run_stepped(work, start=MIDNIGHT)
    assert len(files) == 2
    blocks = tmp_path / "tsdb"
    for file in files:
        create_blocks("openmetrics", "--quiet", str(file), str(blocks))
    compared: Counter[str] = Counter()
    with prometheus_on(blocks, tmp_path) as url, httpx.Client(base_url=url, trust_env=False, timeout=120) as client:
        written = set(client.get("/api/v1/label/__name__/values").json()["data"])
        for at, page in pages.items():
            past = _past(client, at)
            of_tasks = {dict(labels)["job_id"] for name, labels in page if ("source", "task_metrics") in labels}
            for (name, labels), value in page.items():
                job_id = dict(labels).get("job_id", "")
                if name not in written or job_id in changed[at]:
                    continue
                if job_id in of_tasks and name.endswith(("_ratio", "_usage_info")):
                    continue  # task metrics have no dates, and are not written
                if name == _PHASES and (_ENDED, (("job_id", job_id), ("provider", PROVIDERS[cloud]))) not in page:
                    continue  # the phases of a live job are not written
                if cloud == "modelarts" and name in _STATUSES and (name, labels) not in past:
                    continue  # its records prove no status before a job ran
                assert (name, labels) in past, (at, name, labels)
                assert _is_equal(value, past[name, labels]), (at, name, labels, value, past[name, labels])
                compared[name] += 1
            live = {dict(labels)["job_id"] for name, labels in page if name == "trainfleet_job_info"}
            for (name, labels), values in past.items():
                job_id = dict(labels).get("job_id", "")
                if name == _PHASES and cloud != "sagemaker":
                    continue  # this exporter did not see the job end (test_seam has one that did)
                if job_id in live - changed[at] and (name not in _STATUSES or values[-1]):
                    assert (name, labels) in page, (at, name, labels, values)
    # An exporter that has just begun knows only the latest of the jobs that ended.
    assert written - compared.keys() <= {_ENDED, _PHASES}
    assert min(count for name, count in compared.items() if name not in (_ENDED, _PHASES)) >= 10, compared
