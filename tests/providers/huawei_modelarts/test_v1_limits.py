"""A version of v1 brings the whole history of its metrics, and so do its pods: a month of them is read."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.providers.huawei_modelarts.cloud import CONFIG
from tests.providers.huawei_modelarts.usage.usage_rig import FleetOf

MINUTES = 30 * 24 * 60
V1 = CONFIG + "    collectors: {jobs_v1: {enabled: true, interval: 60s}}\n"


async def test_a_month_of_eight_cards_is_read(fleet_of: FleetOf) -> None:
    metrics: list[dict[str, Any]] = [{"metric": "gpuUtil", "value": ["22.15"] * MINUTES} for _ in range(16)]
    async with fleet_of(V1) as (cloud, fleet):
        cloud.v1_jobs = [{"job_id": 1, "version_id": 2, "status": 8}]
        cloud.v1_versions = {"1": [{"version_id": 2, "status": 8, "gpu_num": 8, "system_metric_list": metrics}]}
        cloud.v1_files = {"1/2": ["pod"]}
        cloud.v1_metrics = {("pod", "each"): metrics}
        assert await fleet.exporter.poll_once()
        assert len(await fleet.lines("device_utilization_ratio")) == 16


async def test_lists_that_were_read_delay_no_cycle(fleet_of: FleetOf) -> None:
    async with fleet_of(V1) as (cloud, fleet):
        cloud.workspaces.append({"id": "w", "name": "team"})
        fleet.schedule.start()
        await asyncio.sleep(20)
        assert fleet.own("collector_success", collector="jobs_v1") == 1
