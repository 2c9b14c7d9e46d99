"""What the page costs others: figures are made once, and the page has a bounded size."""

from __future__ import annotations

import pytest

from tests.web.status_page_rig import Rig, counts, holder, usage
from trainfleet_exporter.model import Pod, Status
from trainfleet_exporter.web.status_page.figures import IDLE_ROWS

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
