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
    with pytest.raises(ValueError, match=r"twice on the page: .*(Completed|in another order)"):
        check(page.replace(f"{_SERIES}1\n", f"{_SERIES}1\n{twice}\n"))


def test_a_series_twice_in_two_families_is_found() -> None:
    with pytest.raises(ValueError, match="twice on the page: a_total"):
        check("# HELP a x\n# TYPE a counter\na_total 1\n# HELP a_total x\n# TYPE a_total gauge\na_total 2\n# EOF\n")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("_total 3", "_total 3,0", "could not convert"),
        ("_total 3", "_total nan", "cannot be NaN"),
        ("_total 3", "_total 3 1700000000", "a time in a sample"),
        ('"Completed"', "Completed", "label"),
        ("platform_status=", "status=", "label"),
        ("trainfleet_wait_seconds_count", "trainfleet_wait_seconds", "_count must be present"),
        ("# HELP trainfleet_wait_seconds x\n", "", "not below the head"),
        ("seconds histogram", "seconds gauges", "type"),
        ("# HELP trainfleet_wait_seconds x\n", "\n", "blank"),
        ("trainfleet_jobs_finished", "trainfleet_jobs", "twice on the page: trainfleet_jobs|a counter without _total"),
        ("_count 2\n", "_count 2", "could not convert"),
        ("# HELP trainfleet_wait", "# EOF\n# HELP trainfleet_wait", "after # EOF"),
        ("trainfleet_wait_seconds_sum 1e-05\n", "", "must be present"),
        ('le="+Inf"', 'le="1"', r"\+Inf"),
    ],
)
@pytest.mark.parametrize("page", [_TEXT, _OPENMETRICS])
def test_an_invalid_page_is_refused(page: str, old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(page.replace(old, new))


def test_each_format_has_its_own_names_of_counters() -> None:
    with pytest.raises(ValueError, match="Clashing name: trainfleet_jobs_finished_total"):
        check(_TEXT + "# EOF\n")
    with pytest.raises(ValueError, match="a counter without _total"):
        check(_OPENMETRICS.removesuffix("# EOF\n"))


def test_a_series_in_one_format_only_is_found() -> None:
    with pytest.raises(ValueError, match="only in one of the two formats: jobs_finished_total"):
        check_both(_TEXT.replace("trainfleet_jobs_finished_total 3\n", ""), _OPENMETRICS)
