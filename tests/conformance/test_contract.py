"""What the kit says of a sample that a page lacks."""

from __future__ import annotations

from trainfleet_conformance.contract import like
from trainfleet_conformance.page import Page

_HEAD = "# HELP trainfleet_job_status x\n# TYPE trainfleet_job_status gauge\n"
_PAGE = _HEAD + "".join(
    f'trainfleet_job_status{{provider="p",job_id="j{number}",status="running"}} 1\n' for number in range(5)
)


def test_the_labels_of_a_missing_sample_are_shown() -> None:
    page = Page(_PAGE)
    shown = "; ".join(f"job_status{{job_id='j{number}',status='running'}}" for number in range(3))
    assert like(page, "trainfleet_job_status") == shown
    assert like(page, "trainfleet_job_info") == ""
