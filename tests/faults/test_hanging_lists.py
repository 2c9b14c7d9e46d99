"""A list that hangs beyond a poll's deadline does not delay collectors that know its content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.modelarts_rows import MODELARTS
from tests.faults.pai_rows import PAI
from tests.faults.row import Row
from tests.faults.site import open_site
from trainfleet_conformance.page import Page, missing, wrong
from trainfleet_simulator import Fault, Simulator

ROWS = [row for row in (*PAI, *MODELARTS) if row.operation in ("ListWorkspaces", "ListQuotas", "ListPools")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
async def test_who_knows_what_was_listed_polls_on(row: Row, tmp_path: Path) -> None:
    before, page = await _before_and_while_it_hangs(row, tmp_path)
    success = page.of("trainfleet_exporter_collector_success", provider="affected")
    failing = {labels["collector"] for labels, value in success if not value}
    assert failing == {row.fails[0]}
    assert wrong(page, before) == []
    lost = _lost(page, before)
    assert lost
    assert not [family for family in lost if family.startswith(("job", "node", "pod", "pool_workloads"))]


async def test_the_usage_of_pools_needs_no_list_of_jobs(tmp_path: Path) -> None:
    row = next(row for row in PAI if row.operation == "ListJobs")
    before, page = await _before_and_while_it_hangs(row, tmp_path)
    lost = _lost(page, before)
    assert "job_cpu_utilization_ratio" in lost
    assert not [family for family in lost if family.startswith("pool")]
    assert list(before.of("trainfleet_pool_accelerator_utilization_ratio", provider="affected"))


async def _before_and_while_it_hangs(row: Row, tmp_path: Path) -> tuple[Page, Page]:
    simulator = Simulator(seed=5, clouds=("pai", "modelarts"), population=1, still=True)
    # Shorter than a request may take: the whole poll's time is over when the list fails.
    async with open_site(tmp_path, replace(row, poll_timeout="15s"), simulator) as site:
        await site.after_polls(2)
        before = await site.scrape()
        simulator.faults.add(Fault(match=row.match, kind="hang"))
        await site.after_polls(6)
        return before, await site.scrape()


def _lost(page: Page, before: Page) -> set[str]:
    return {key[0].removeprefix("trainfleet_") for key in missing(page, before)}
