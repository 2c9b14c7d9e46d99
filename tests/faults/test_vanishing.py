"""A workspace that is deleted while its jobs run, and comes back: on both clouds, with all that builds on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.judges import nothing_else
from tests.faults.modelarts_rows import MODELARTS
from tests.faults.pai_rows import PAI
from tests.faults.row import Row
from tests.faults.site import open_site
from trainfleet_conformance.page import Key, Page, missing
from trainfleet_simulator import Simulator

ROWS = {"12345": replace(PAI[1], workspaces=()), "c7d8e9fa0b1c2d3e4f5061728394a5b6": MODELARTS[1]}


def _jobs_of(page: Page, workspace_id: str) -> set[str]:
    return {labels["job_id"] for labels, _ in page.of("trainfleet_job_info", workspace_id=workspace_id)}


def _is_of(key: Key, workspace_id: str, jobs: set[str]) -> bool:
    labels = dict(key[1])
    return labels.get("workspace_id") == workspace_id or labels.get("job_id") in jobs


@pytest.mark.long
@pytest.mark.parametrize(("workspace_id", "row"), ROWS.items(), ids=["pai", "modelarts"])
async def test_workspace_vanishes_with_its_content_and_comes_back(workspace_id: str, row: Row, tmp_path: Path) -> None:
    simulator = Simulator(seed=5, clouds=("pai", "modelarts"), population=1, still=True)
    async with open_site(tmp_path, row, simulator) as site:
        await site.after_polls(2)
        before = await site.scrape()
        jobs = _jobs_of(before, workspace_id)
        assert jobs
        for world in simulator.worlds.values():
            world.hidden.add(workspace_id)
        # One poll to learn of it, one more for what was asked in it meanwhile, and the time that it is kept.
        await site.after_polls(3)
        hidden = await site.scrape()
        lost_jobs = [key for key in missing(hidden, before) if key[0].startswith("trainfleet_job")]
        assert [key for key in hidden.shown if _is_of(key, workspace_id, jobs)] == []
        assert [key for key in lost_jobs if not _is_of(key, workspace_id, jobs)] == []
        untrue = [text for text in nothing_else(hidden, before) if "provider_job_quota_used" not in text]
        assert untrue == []  # the quota is used less
        assert [labels for labels, value in hidden.of("trainfleet_exporter_collector_success") if not value] == []
        for world in simulator.worlds.values():
            world.hidden.remove(workspace_id)
        await site.after_polls(3)
        after = await site.scrape()
        assert nothing_else(after, before) == []
        assert missing(after, before) == []
