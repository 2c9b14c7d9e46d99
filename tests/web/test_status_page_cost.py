"""What the page costs others: it reads the metrics a little at a time and once, and its size has bounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
from starlette.responses import Response

from tests.support.clock import run_stepped
from tests.web.status_page_rig import NOW, Rig, counts, healthy, holder, usage
from trainfleet_exporter.model import Pod, Status
from trainfleet_exporter.web.status_page import Sources, StatusPage, endpoint, samples
from trainfleet_exporter.web.status_page.fleet import IDLE_ROWS, read_fleet
from trainfleet_exporter.web.status_page.own import read_own

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
    return StatusPage(
        Sources(
            page_store=rig.page_store,
            telemetry=rig.telemetry,
            last_errors=lambda: rig.errors,
            denied=tuple,
            telemetry_path="/metrics",
            notice="",
        )
    )


def test_rows_have_bounds(large: Rig) -> None:
    page = large.see()
    assert len(page.answer.content) < 250_000
    assert len(page.rows("idle")) == IDLE_ROWS
    assert [row[1] for row in page.rows("idle")] == ["25 GPUA100"] * IDLE_ROWS
    assert f"{JOBS - IDLE_ROWS:,} more idle jobs that hold less: see the metrics." in page.section("idle")
    assert len(page.rows("held")) == 50
    states = [state for state, _ in page.providers()]
    assert states == ["is-down"] * 40 + ["is-ok"] * 10
    assert "30 more providers: ✓ ok 30" in page.section("providers")
    assert len(page.all("details")) == 10  # those that are well are folded up
    assert page.tiles()["Jobs running"][0] == "2,000"
    assert page.tiles()["Accelerators held"][0] == f"{PROVIDERS * 25 * 26 // 2:,}"


def test_the_loop_gets_its_turn_every_few_lines(large: Rig) -> None:
    page = large.page_store.current()

    async def main() -> int:
        turns = 0
        reading = asyncio.create_task(read_fleet(page, ()))
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    lines = sum(text.count(b"\n") for name in _READ_WHOLE for text in page.samples(name))
    assert lines == JOBS * 3 + PROVIDERS
    assert asyncio.run(main()) >= lines // samples._LINES - len(_READ_WHOLE)


_READ_WHOLE = (
    "trainfleet_jobs",
    "trainfleet_job_holds_resources",
    "trainfleet_job_requested_accelerators",
    "trainfleet_job_accelerator_utilization_ratio",
)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """Counts how often a page is read."""
    counted = Mock(wraps=read_fleet)
    monkeypatch.setattr(endpoint, "read_fleet", counted)
    return counted


def test_a_page_is_made_once_a_second_and_metrics_read_once(reads: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_LINES", 1)  # others ask while it is being read
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


def test_other_metrics_to_hide_are_another_page(reads: Mock) -> None:
    rig = healthy()
    deny: list[str] = []
    sources = Sources(
        page_store=rig.page_store,
        telemetry=rig.telemetry,
        last_errors=dict,
        denied=lambda: deny,
        telemetry_path="/metrics",
        notice="",
    )

    async def main() -> None:
        page = StatusPage(sources)
        assert b"metrics.deny" not in (await _ask(page)).body
        deny.append("trainfleet_jobs")
        await asyncio.sleep(1)
        assert b"metrics.deny hides trainfleet_jobs" in (await _ask(page)).body

    run_stepped(main)
    assert reads.call_count == 2


def test_a_reload_may_add_a_provider_while_the_page_is_made() -> None:
    async def main(turns: int) -> bool:
        rig = healthy()
        reading = asyncio.create_task(read_own(rig.telemetry, rig.errors))
        for _ in range(turns):
            await asyncio.sleep(0)
        was_reading = not reading.done()
        rig.collector("new", "jobs")
        rig.telemetry.watch_budget("new", "dlc", Mock(calls=10, remaining=5))
        rig.telemetry.watch_credentials("new", lambda: NOW + 60)
        own = await reading
        assert [name for name in own.providers if name != "new"] == ["pai", "ma"]
        return was_reading

    assert asyncio.run(main(5))
    turns = 0
    while asyncio.run(main(turns)):
        turns += 1


def test_metrics_that_are_no_more_are_let_go() -> None:
    rig = healthy()

    async def main() -> None:
        page = _page(rig)
        await _ask(page)
        block = rig.page_store.current().families["trainfleet_jobs"]
        assert sys.getrefcount(block) == 3  # by its page, by its name here, and for the count
        rig.publish("new", "pai", *counts({Status.RUNNING: 1}, "third"))
        rig.page_store.current()
        assert sys.getrefcount(block) == 2

    run_stepped(main)
