"""Past days and the scrapes after them: each job has one status at each minute, and the same phases in the end."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.backfill.rig import MIDNIGHT, PROVIDERS, Rig, samples, simulated
from tests.deploy.history_server import create_blocks, prometheus_on
from tests.support.clock import run_stepped
from trainfleet_exporter.app.daemon import Daemon, WebSettings
from trainfleet_exporter.providers.past import Range
from trainfleet_exporter.providers.registry import installed_platforms

_BEGIN, _SCRAPES, _INTERVAL = 1200, 90, 30
_STATUS = re.compile(r"trainfleet_job_status\{(.*)\} 1")
_PHASE = re.compile(r'trainfleet_job_phase_seconds\{.*job_id="(.*)",phase="(.*)"\} (.*)')
_ENDED = re.compile(r'job_id="(.*)",status="(?:succeeded|failed|stopped)"')
Page = set[str]
"""The labels of the status of each job."""


async def _scraped(rig: Rig) -> tuple[dict[int, Page], str]:
    """What scrapes of a daemon show, by Unix seconds; and the last page."""
    daemon = Daemon(rig.config, installed_platforms(), WebSettings(addresses=("127.0.0.1:0",)))
    await daemon.start()
    found: dict[int, Page] = {}
    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            for number in range(_SCRAPES):
                when = MIDNIGHT + _BEGIN + 17 + number * _INTERVAL  # polls begin on the minute
                await asyncio.sleep(when - time.time())
                page = (await client.get(f"http://{daemon.server.addresses[0]}/metrics")).text
                found[when] = set(_STATUS.findall(page))
    finally:
        await daemon.stop()
    return found, page


def _seams(pages: Mapping[int, Page]) -> list[int]:
    """First scrapes of some daemons: the last ones before the page changes. Some of them are later than the change."""
    found = [before for before, after in pairwise(list(pages)[5:]) if pages[before] != pages[after]]
    assert len(found) >= 4
    return found[:4]


def _lines(pages: Mapping[int, Page], first: int) -> Iterator[str]:
    """The scrapes from one on. A 0 stands for the mark by which Prometheus knows that a job's old status has ended."""
    before: Page = set()
    yield "# TYPE trainfleet_job_status gauge\n"
    for when in range(first, max(pages) + 1, _INTERVAL):
        jobs = {labels.partition(",status=")[0] for labels in pages[when]}
        for labels in sorted({each for each in before if each.partition(",status=")[0] in jobs} | pages[when]):
            yield f'trainfleet_job_status{{seam="{first}",{labels}}} {int(labels in pages[when])} {when}\n'
        before = pages[when]
    yield "# EOF\n"


def _only_statuses(config: str) -> str:
    deny = "deny: [trainfleet_device_*, trainfleet_pod_*, trainfleet_pool_*, 'trainfleet_job_[a-oq-rt-z]*']"
    config = config.replace("poll_interval: 10s\n  poll_timeout: 8s", "poll_interval: 60s\n  poll_timeout: 50s")
    config = re.sub(r"interval: (15|20)s", "interval: 5m", config)
    return config.replace("    job_labels:", f"    {deny}\n    job_labels:")


@pytest.mark.long
@pytest.mark.parametrize("cloud", PROVIDERS)
def test_each_job_has_one_status_over_the_seam(cloud: str, tmp_path: Path) -> None:
    pages: dict[int, Page] = {}
    files: list[Path] = []

    async def work() -> None:
        async with simulated(cloud, tmp_path, change=_only_statuses, hours=_BEGIN / 3600, patience=4) as rig:
            scraped, last = await _scraped(rig)
            pages.update(scraped)
            await asyncio.sleep(1200)  # until the readings have settled
            whole, _ = await rig.backfill(tmp_path / "whole", Range(MIDNIGHT, max(pages)))
            ended = {found[1] for labels in pages[max(pages)] if (found := _ENDED.search(labels))}
            shown = {found[:2]: float(found[2]) for found in _PHASE.findall(last) if found[0] in ended}
            past = {
                (labels["job_id"], labels["phase"]): float(value)
                for name, labels, value, _ in samples(whole.files[0])
                if name == "trainfleet_job_phase_seconds"
            }
            # On PAI, an exporter shows no phases of a job that ended before the exporter began.
            assert {key: past.get(key) for key in shown} == shown
            assert {job_id for job_id, _ in shown}
            for first in _seams(pages):
                # A daemon that is scraped for the first time here; before that, one run, and one for the gap after it.
                gap = first - 600
                for number, wanted in enumerate((Range(MIDNIGHT, gap), Range(gap, first))):
                    out = tmp_path / f"{first}-{number}"
                    outcome, _ = await rig.backfill(out, wanted, labels={"seam": str(first)})
                    files.extend(outcome.files)
                live = tmp_path / f"{first}.om"
                live.write_text("".join(_lines(pages, first)), "utf-8")
                files.append(live)

    run_stepped(work, start=MIDNIGHT)
    blocks = tmp_path / "tsdb"
    for file in files:
        create_blocks("openmetrics", "--quiet", str(file), str(blocks))
    query = "sum by (seam, job_id) (trainfleet_job_status)"
    asked: dict[str, str | int] = {"query": query, "step": 60, "start": MIDNIGHT, "end": max(pages) // 60 * 60}
    with prometheus_on(blocks, tmp_path, lookback="5m") as url:
        answer = httpx.get(f"{url}/api/v1/query_range", params=asked, trust_env=False).json()
    over = 0
    for row in answer["data"]["result"]:
        minutes, seam = [int(when) for when, _ in row["values"]], int(row["metric"]["seam"])
        if seam - 120 < minutes[0] < seam + 60:
            continue  # so young that the first scrape may not know it yet
        assert minutes == list(range(minutes[0], minutes[-1] + 60, 60)), row["metric"]
        assert {value for _, value in row["values"]} == {"1"}, row["metric"]
        over += minutes[0] < seam < minutes[-1]
    assert over > 4 * 4
