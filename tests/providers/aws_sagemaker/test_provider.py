"""The platform as a whole: no collector succeeds without a call, what a policy names, and no past."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.providers.aws_sagemaker.cloud import CONFIG, Cloud, Run, job
from tests.providers.aws_sagemaker.models import service
from tests.support.fleet import Fleet
from trainfleet_exporter.backfill.command import Wish, fault_in
from trainfleet_exporter.config import load_config
from trainfleet_exporter.providers.aws_sagemaker.provider import PLATFORM
from trainfleet_exporter.providers.history import Range


def test_no_collector_succeeds_while_the_cloud_is_out_of_reach(run: Run) -> None:
    def unreachable(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async def steps(fleet: Fleet) -> None:
        for _ in range(3):
            assert not await fleet.exporter.poll_once()
            await asyncio.sleep(60)
        assert [runner.state.collector for runner in fleet.exporter.runners if runner.state.success] == []
        up = fleet.exporter.telemetry.registry.get_sample_value("trainfleet_provider_up", {"provider": "p"})
        assert up == 0

    run(unreachable, steps)


@pytest.mark.parametrize("jobs", [10, 90])
def test_calls_of_a_whole_poll_do_not_grow_with_the_jobs(run: Run, jobs: int) -> None:
    cloud = Cloud()
    cloud.jobs = [
        job(f"j{number}", ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}) for number in range(jobs)
    ]

    async def steps(fleet: Fleet) -> None:
        assert await fleet.exporter.poll_once()
        # Two live lists, one of what ended, three counts; 360 metrics; plans and clusters.
        assert len(cloud.calls) == 3 + 3 + 1 + 2

    run(cloud, steps)


def test_every_operation_has_its_action(run: Run) -> None:
    assert {action.partition(":")[2] for action in PLATFORM.permissions.values()} == PLATFORM.permissions.keys()
    for operation, action in PLATFORM.permissions.items():
        assert operation in service(action.partition(":")[0]).operation_names


def test_backfill_refuses_the_platform(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    config = load_config(path, environ={}, platforms={PLATFORM.name: PLATFORM.config})
    wish = Wish(provider="p", wanted=Range(1_700_000_000, 1_700_086_400), out=tmp_path)
    assert fault_in(wish, config, {PLATFORM.name: PLATFORM}, 2e9) == (
        "--provider: platform aws_sagemaker has no past data to backfill"
    )
