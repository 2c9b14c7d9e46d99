"""A workspace whose jobs cannot be listed affects no other workspace, whichever shard shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.clock import run_stepped
from tests.support.sharded import fleet_samples, fleet_yaml, load, shard_exporter, together
from trainfleet_exporter.polling import Schedule
from trainfleet_exporter.sharding import WHOLE, Shard, ShardAssignment
from trainfleet_simulator import Simulator
from trainfleet_simulator.faults import Fault

_MINUTES = 6
_FIELDS = {"pai": ("ListJobs", "WorkspaceId"), "modelarts": ("ListTrainingJobs", "workspace_id")}
_PROVIDERS = {"pai": "sim-pai-hangzhou-0", "modelarts": "sim-modelarts-north4-0"}


@pytest.mark.long
@pytest.mark.parametrize("whose", ["the primary's", "another's"])
@pytest.mark.parametrize("cloud", ["pai", "modelarts"])
def test_usage_of_others_stays(cloud: str, whose: str, tmp_path: Path) -> None:
    operation, field = _FIELDS[cloud]

    async def main() -> None:
        simulator = Simulator(seed=3, clouds=(cloud,), population=30, still=True)
        ids = sorted({job.draft.workspace_id for job in simulator.worlds[cloud].jobs.values()} - {"98765"})
        total, own = next(
            (total, own)
            for total in range(2, 9)
            if 0 < len(own := _of_primary(_PROVIDERS[cloud], ids, total)) < len(ids)
        )
        for key in own if whose == "the primary's" else set(ids) - own:
            simulator.faults.add(Fault({"operation": operation, field: key}, status=403))
        async with simulator.serve() as url:
            config = load(fleet_yaml(simulator, url, 1), tmp_path)
            exporters = [shard_exporter(config, shard) for shard in (WHOLE, *(Shard(n, total) for n in range(total)))]
            schedules = [Schedule(exporter.runners) for exporter in exporters]
            try:
                for schedule in schedules:
                    schedule.start()
                await asyncio.sleep(_MINUTES * 60 + 30)
                alone, *parts = [_usage(fleet_samples((await each.text()).decode())) for each in exporters]
            finally:
                for schedule, exporter in zip(schedules, exporters, strict=True):
                    await schedule.stop()
                    await exporter.aclose()
        assert alone
        assert together(parts).keys() == alone.keys()

    run_stepped(main)


def _of_primary(provider: str, workspace_ids: Iterable[str], total: int) -> set[str]:
    """The workspaces that are with the primary shard."""
    (primary,) = [share for n in range(total) if (share := ShardAssignment(provider, Shard(n, total), 4)).is_primary]
    return {key for key in workspace_ids if primary.owns("workspace", key)}


def _usage(page: dict[str, float]) -> dict[str, float]:
    return {series: value for series, value in page.items() if series.startswith("trainfleet_job_usage_info{")}
