"""What the page costs others: figures are made once, and the page has a bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from starlette.responses import Response

from tests.support.clock import run_stepped
from tests.web.status_page_rig import NOW, Rig, counts, healthy, holder, usage
from trainfleet_exporter.model import Pod, Status
from trainfleet_exporter.web.status_page import StatusPage, figures
from trainfleet_exporter.web.status_page.figures import IDLE_ROWS, read_fleet

JOBS, PODS = 2_000, 8_000
PROVIDERS = 80


@pytest.fixture(scope="module")
def large() -> Rig:
    """Many providers with many jobs, all of them idle."""
    rig = Rig()
    for number in range(PROVIDERS):
        provider = f"cloud-{number:02}"
        if number % 2:
            rig.collector(provider, "jobs")
        else:
            rig.failing(provider, "jobs", "ListJobs: HTTP 500 trouble")
        jobs = [holder(f"{number}-{each}", 1 + each, name="n" * 200) for each in range(JOBS // PROVIDERS)]
        rig.publish(f"{number}/jobs", provider, *jobs, *counts({Status.RUNNING: len(jobs)}))
        rig.publish(f"{number}/usage", provider, *(usage(job.job_id, 0.01) for job in jobs))
        pods = PODS // JOBS
        rig.publish(
            f"{number}/pods", provider, *(Pod(job_id=j.job_id, pod_id=f"{k}") for j in jobs for k in range(pods))
        )
    return rig


def _page(rig: Rig) -> StatusPage:
    return StatusPage(rig.pages())


def test_rows_have_bounds(large: Rig) -> None:
    page = large.see()
    assert len(page.answer.content) < 250_000
    assert len(page.rows("idle")) == IDLE_ROWS
    assert [row[1] for row in page.rows("idle")] == ["25 GPUA100"] * IDLE_ROWS
    assert f"{JOBS - IDLE_ROWS:,} more idle jobs with fewer accelerators: see the metrics." in page.section("idle")
    assert len(page.rows("held")) == 50
    states = [state for state, _ in page.providers()]
    assert states == ["is-down"] * 40 + ["is-ok"] * 10
    assert "30 more providers: ✓ ok 30" in page.section("providers")
    assert len(page.all("details")) == 10  # those that are well are folded up
    assert page.tiles()["Jobs running"][0] == "2,000"
    assert page.tiles()["Accelerators held"][0] == f"{PROVIDERS * 25 * 26 // 2:,}"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """Counts how often a page is read."""
    counted = Mock(wraps=read_fleet)
    monkeypatch.setattr(figures, "read_fleet", counted)
    return counted


def test_a_page_is_made_once_a_second_and_figures_once(reads: Mock) -> None:
    rig = healthy()

    async def main() -> list[bytes]:
        page = _page(rig)
        bodies = [bytes(answer.body) for answer in await asyncio.gather(*(_ask(page) for _ in range(20)))]
        await asyncio.sleep(0.9)
        bodies.append(bytes((await _ask(page)).body))
        assert len(set(bodies)) == 1
        assert reads.call_count == 1
        await asyncio.sleep(30)
        later = await _ask(page)
        assert bytes(later.body) != bodies[0]  # it is older
        assert b"42 s ago" in later.body
        assert reads.call_count == 1
        rig.publish("new", "pai", *counts({Status.RUNNING: 1000}, "third"))
        await asyncio.sleep(1)
        newest = await _ask(page)
        assert reads.call_count == 2
        return [bytes(newest.body)]

    (body,) = run_stepped(main, start=NOW)
    assert b"1,006" in body


async def _ask(page: StatusPage) -> Response:
    return await page.answer(None)  # type: ignore[arg-type]  # it does not look at the request
