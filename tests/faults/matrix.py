"""One row of the matrix: an operation under every fault, and everything that anybody could have read meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.faults.cell import Cell, Trial
from tests.faults.columns import COLUMNS, Column
from tests.faults.operations import SECRETS
from tests.faults.row import Row
from tests.faults.site import Site, open_site
from tests.support.clock import run_stepped
from tests.support.planted import hits, quoted_proofs
from trainfleet_conformance.page import Page
from trainfleet_simulator import Simulator
from trainfleet_simulator.server import CLOUDS

_SETTLED = 2
"""Polls after which everything is shown."""


@dataclass(slots=True)
class RowResult:
    """The cells of a row by fault; how many pages and logs were searched for secrets, and what was found in them."""

    cells: dict[str, Cell] = field(default_factory=dict)
    searched: int = 0
    size: int = 0
    hits: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """Everything that did not hold."""
        return [f"{name}: {text}" for name, cell in self.cells.items() for text in cell.complaints] + self.hits

    def search(self, fault: str, site: Site) -> None:
        """Look for secrets in all that the site has put out since the last time."""
        outputs = {f"{fault}: page {number}": page for number, page in enumerate(site.outputs)}
        outputs[f"{fault}: log"] = site.take_log()
        site.outputs.clear()
        self.searched += len(outputs)
        self.size += sum(map(len, outputs.values()))
        self.hits += hits(outputs, SECRETS | site.issued_secrets() | quoted_proofs(site.simulator))


def run_row(row: Row, folder: Path, columns: Sequence[Column] = COLUMNS) -> RowResult:
    """Run the cells of a row, those that can be made, in stepped time."""
    result = RowResult()
    wanted = [column for column in columns if row.excludes(column) is None]
    if not row.cold:
        run_stepped(lambda: _run_cells(result, row, folder, wanted))
        return result
    before = run_stepped(lambda: _before(row, folder))
    for column in wanted:  # each time from the same moment on, for the same world
        run_stepped(partial(_run_cold, result, row, folder, column, before))
    return result


async def _run_cells(result: RowResult, row: Row, folder: Path, columns: Sequence[Column]) -> None:
    async with open_site(folder, row, _simulator(row)) as site:
        await site.after_polls(_SETTLED)
        before, footprint = await site.scrape(), site.footprint()
        for column in columns:
            await _run_cell(result, site, Trial(site, row, column, before, footprint))


async def _before(row: Row, folder: Path) -> Page:
    async with open_site(folder, row, _simulator(row)) as site:
        await site.after_polls(_SETTLED)
        return await site.scrape()


async def _run_cold(result: RowResult, row: Row, folder: Path, column: Column, before: Page) -> None:
    async with open_site(folder, row, _simulator(row), meets=column) as site:
        await _run_cell(result, site, Trial(site, row, column, before, None))


async def _run_cell(result: RowResult, site: Site, trial: Trial) -> None:
    name = trial.column.name
    result.cells[name] = await trial.run()
    result.search(name, site)


def _simulator(row: Row) -> Simulator:
    simulator = Simulator(seed=5, clouds=CLOUDS, population=1, still=True)
    row.prepare(simulator)
    return simulator
