"""Billing months: which one a time belongs to, by the rule of the cloud."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.budgets.rig import DAY, JANUARY, month
from trainfleet_exporter.budgets import BillingPeriod
from trainfleet_exporter.providers.registry import Platform, installed_platforms

CHINA = BillingPeriod(utc_offset=timedelta(hours=8))
PERIODS = st.builds(
    BillingPeriod,
    utc_offset=st.integers(min_value=-12 * 60, max_value=14 * 60).map(lambda minutes: timedelta(minutes=minutes)),
    first_day=st.integers(min_value=1, max_value=28),
)


def _time(*date: int) -> float:
    return datetime(*date, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


def test_left_out_a_month_is_the_calendar_month_by_utc() -> None:
    assert (JANUARY.starts, JANUARY.ends) == (_time(2026, 1, 1), _time(2026, 2, 1))
    assert BillingPeriod().month(JANUARY.ends - 1) == JANUARY
    assert BillingPeriod().month(JANUARY.ends) == month("2026-02")
    assert JANUARY.seconds == 31 * DAY
    assert (month("2028-02").seconds, month("2025-12").ends) == (29 * DAY, JANUARY.starts)


def test_a_month_begins_at_midnight_in_the_zone_of_the_cloud() -> None:
    last = _time(2026, 1, 31, 15, 59, 59)
    assert CHINA.month(last) == CHINA.named("2026-01")
    assert CHINA.month(last + 1) == CHINA.named("2026-02")
    assert CHINA.named("2026-01").ends == last + 1
    west = BillingPeriod(utc_offset=timedelta(hours=-5, minutes=-30))
    assert west.named("2026-02").starts == _time(2026, 2, 1, 5, 30)


def test_month_begins_and_is_named_by_the_time_of_the_cloud() -> None:
    period = BillingPeriod(first_day=28)
    assert period.month(_time(2026, 3, 27, 23, 59, 59)).name == "2026-02"
    assert period.month(_time(2026, 3, 28)).name == "2026-03"
    assert period.named("2026-02").seconds == 28 * DAY
    assert period.named("2025-12").ends == _time(2026, 1, 28)


@pytest.mark.parametrize("day", [0, 29, 31])
def test_a_day_that_not_every_month_has_is_refused(day: int) -> None:
    with pytest.raises(ValueError, match=f"^first_day is {day}: 1 to 28 are allowed$"):
        BillingPeriod(first_day=day)


@given(PERIODS, st.integers(min_value=0, max_value=4_000_000_000))
def test_every_time_is_in_its_month_and_names_read_back(period: BillingPeriod, time: int) -> None:
    found = period.month(time)
    assert found.starts <= time < found.ends
    assert period.named(found.name) == found
    after = period.month(found.ends)
    assert after.starts == found.ends
    assert after.name > found.name


@pytest.mark.parametrize(
    "text", ["", "2026-00", "2026-13", "26-01", "2026-1", "2026-01 ", "2026-01\n", "0000-01", "٢026-01"]
)
def test_what_is_no_month(text: str) -> None:
    with pytest.raises(ValueError, match="not a month"):
        month(text)


def test_something_is_always_left_of_a_month() -> None:
    assert JANUARY.left(JANUARY.ends - 7) == 7
    assert 0 < JANUARY.left(JANUARY.ends) < 0.01


def test_the_elapsed_share_is_rounded_up_and_not_more_than_all() -> None:
    shares = [(0.0, 0), (1.0, 1), (JANUARY.seconds / 4, 25), (JANUARY.seconds / 4 + 1, 26), (40 * DAY, 100)]
    for seconds, calls in shares:
        assert JANUARY.elapsed_share(100, JANUARY.starts + seconds) == calls


def test_a_month_is_on_record_until_a_day_after_its_end() -> None:
    ends = CHINA.named("2026-01").ends
    assert CHINA.keeps("2026-01", ends + DAY - 1)
    assert not CHINA.keeps("2026-01", ends + DAY)


def test_two_clouds_bill_by_china_time_and_others_by_utc() -> None:
    assert {name: platform.billing for name, platform in installed_platforms().items()} == {
        "alibaba_pai": CHINA,
        "aws_sagemaker": BillingPeriod(),
        "huawei_modelarts": CHINA,
    }
    other = installed_platforms()["alibaba_pai"]
    assert Platform(name="other", config=other.config, build=other.build).billing == BillingPeriod()
