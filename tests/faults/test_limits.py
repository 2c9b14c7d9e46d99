"""What the columns of many values are refused for: the values, not the bytes that the matrix allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.columns import COLUMNS, Column
from tests.faults.modelarts_rows import MODELARTS
from tests.faults.site import open_site
from trainfleet_simulator import Simulator

MANY = [column for column in COLUMNS if column.kind.startswith("many_")]
ROW = next(row for row in MODELARTS if row.operation == "ShowTrainingJobMetrics")


@pytest.mark.parametrize("column", MANY, ids=lambda column: column.kind)
async def test_many_values_are_refused_for_their_number(column: Column, tmp_path: Path) -> None:
    simulator = Simulator(seed=5, clouds=("pai", "modelarts"), population=1, still=True)
    async with open_site(tmp_path, ROW, simulator) as site:
        await site.after_polls(2)
        site.take_log()
        site.make(ROW, column)
        await site.after_polls(1)
        log = site.take_log()
        assert "the answer is over the limit of 1,000,000 values" in log
        assert "MiB" not in log
        site.unmake(ROW, column)
