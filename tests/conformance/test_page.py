"""A page is checked: every line is valid, and no series appears twice."""

from __future__ import annotations

import pytest

from trainfleet_conformance.page import check, check_both

_TEXT = """\
# HELP trainfleet_jobs x
# TYPE trainfleet_jobs gauge
trainfleet_jobs{status="succeeded",platform_status="Completed"} 1
trainfleet_jobs{status="failed",platform_status="a \\"b\\" c"} 5
# HELP trainfleet_jobs_finished_total x
# TYPE trainfleet_jobs_finished_total counter
trainfleet_jobs_finished_total 3
# HELP trainfleet_wait_seconds x
# TYPE trainfleet_wait_seconds histogram
trainfleet_wait_seconds_bucket{le="+Inf"} 2
trainfleet_wait_seconds_sum 1e-05
trainfleet_wait_seconds_count 2
"""
_OPENMETRICS = _TEXT.replace(" trainfleet_jobs_finished_total", " trainfleet_jobs_finished") + "# EOF\n"
_SERIES = 'trainfleet_jobs{status="succeeded",platform_status="Completed"} '


def test_both_formats_have_the_same_series() -> None:
    found = check_both(_TEXT, _OPENMETRICS)
    assert len(found) == 6
    assert found["trainfleet_jobs", (("platform_status", 'a "b" c'), ("status", "failed"))] == 5


@pytest.mark.parametrize("page", [_TEXT, _OPENMETRICS])
@pytest.mark.parametrize(
    "twice", [f"{_SERIES}5", f"{_SERIES}1", 'trainfleet_jobs{platform_status="Completed",status="succeeded"} 5']
)
def test_a_series_twice_is_found(page: str, twice: str) -> None:
    with pytest.raises(ValueError, match=r"twice on the page: .*Completed.*, before with the value 1"):
        check(page.replace(f"{_SERIES}1\n", f"{_SERIES}1\n{twice}\n"))


def test_a_series_twice_in_two_families_is_found() -> None:
    with pytest.raises(ValueError, match="twice on the page"):
        check("# HELP a x\n# TYPE a counter\na_total 1\n# HELP a_total x\n# TYPE a_total gauge\na_total 2\n# EOF\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("_total 3", "_total 3,0", "not a sample line"),
        ("_total 3", "_total nan", "not a sample line"),
        ("_total 3", "_total 3 1700000000", "not a sample line"),
        ('"Completed"', "Completed", "not a sample line"),
        ("platform_status=", "status=", "a label twice"),
        ("trainfleet_wait_seconds_count", "trainfleet_wait_seconds", "not below the head"),
        ("# HELP trainfleet_wait_seconds x\n", "", "do not belong together"),
        ("seconds histogram", "seconds gauges", "do not belong together"),
        ("# HELP trainfleet_wait_seconds x\n", "\n", "not a sample line"),
        ("trainfleet_jobs_finished_total", "trainfleet_jobs", "a family twice"),
        ("_count 2\n", "_count 2", "does not end with a newline"),
        ("# HELP trainfleet_wait", "# EOF\n# HELP trainfleet_wait", "not a line of this format"),
    ],
)
def test_an_invalid_page_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(_TEXT.replace(old, new))


def test_each_format_has_its_own_names_of_counters() -> None:
    with pytest.raises(ValueError, match="not below the head"):
        check(_TEXT + "# EOF\n")
    with pytest.raises(ValueError, match="not below the head"):
        check(_OPENMETRICS.removesuffix("# EOF\n"))


def test_a_series_in_one_format_only_is_found() -> None:
    with pytest.raises(ValueError, match="only in one of the two formats: wait_seconds_sum"):
        check_both(_TEXT.replace("trainfleet_wait_seconds_sum 1e-05\n", ""), _OPENMETRICS)
