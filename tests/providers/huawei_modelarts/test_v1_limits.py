"""Answers of the v1 API that grow with the age of a job are read, however long it runs."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from tests.transport.rig import Rig
from trainfleet_exporter.providers.huawei_modelarts.api import Identity
from trainfleet_exporter.providers.huawei_modelarts.client import ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.payloads import Metrics, MetricValues, VersionsV1, VersionV1

MINUTES = 30 * 24 * 60


async def _project(_: float) -> str:
    return "project"


async def _read(answer: dict[str, Any], operation: str) -> VersionsV1 | Metrics:
    body = json.dumps(answer, separators=(",", ":")).encode()
    async with Rig(lambda _: httpx.Response(200, content=body)) as rig:
        api = ModelArtsClient(rig.client, cast("Identity", SimpleNamespace(project=_project)))
        deadline = asyncio.get_running_loop().time() + 60
        if operation == "versions":
            return await api.list_versions_v1("1", deadline=deadline)
        return await api.pod_metrics_v1("1", "2", "pod", each=True, deadline=deadline)


@pytest.mark.parametrize("operation", ["versions", "pod metrics"])
def test_a_month_of_eight_cards_is_read(operation: str) -> None:
    metrics: list[dict[str, Any]] = [{"metric": f"gpuUtil{card}", "value": ["22.15"] * MINUTES} for card in range(16)]
    if operation == "versions":
        answer: dict[str, Any] = {"versions": [{"version_id": 2, "status": 8, "system_metric_list": metrics}]}
        assert asyncio.run(_read(answer, operation)) == VersionsV1([VersionV1(version_id=2, status=8.0)])
    else:
        found = asyncio.run(_read({"metrics": metrics, "interval": 1}, operation))
        assert found == Metrics([MetricValues(row["metric"], row["value"]) for row in metrics], 1.0)
