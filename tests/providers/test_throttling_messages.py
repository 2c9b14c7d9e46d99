"""What the clouds say when they throttle, in their own words and units."""

from __future__ import annotations

import pytest

from trainfleet_exporter.errors import CloudError, Throttled
from trainfleet_exporter.providers.alibaba_pai.api import PaiDialect
from trainfleet_exporter.providers.huawei_modelarts import api as huawei
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.transport import HttpAnswer


def _huawei(status: int, **body: str) -> CloudError | None:
    return huawei.judge(HttpAnswer(status, {}, b"{}", body))


def _pai(status: int, code: str, message: str, **headers: str) -> CloudError | None:
    dialect = PaiDialect("cloudmonitor", "2019-01-01", credential=None, clock=ServerClock())  # type: ignore[arg-type]  # judging needs none
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return dialect.judge(HttpAnswer(status, named, b"{}", {"Code": code, "Message": message}))


@pytest.mark.parametrize(("status", "code"), [(429, "APIGW.0308"), (400, "APIG.0308")])
@pytest.mark.parametrize(
    ("words", "pace"),
    [
        ("policy user over ratelimit,limit:60,time:1 minute", 1.0),
        ("policy ip over ratelimit,limit:200,time:1 second", 200.0),
        ("policy api over ratelimit,limit:3,time:5 second", 0.6),
        ("policy user over ratelimit,limit:600,time:5minute", 2.0),
        ("policy user over ratelimit,limit:3600,time:1 hour", 1.0),
        ("policy user over ratelimit,limit:0,time:1 minute", 0.0),
    ],
)
def test_the_gateway_names_the_pace_that_it_allows(status: int, code: str, words: str, pace: float) -> None:
    error = _huawei(status, error_code=code, error_msg=f"The throttling threshold has been reached: {words}")
    assert isinstance(error, Throttled)
    assert error.pace == pytest.approx(pace)


@pytest.mark.parametrize(
    "message",
    ["", "Too many requests", "limit:60", "limit:60,time:0 minute", "limit:x,time:1 minute", "limit:60,time:1 month"],
)
def test_without_such_words_there_is_no_pace(message: str) -> None:
    error = _huawei(429, error_code="APIGW.0308", error_msg=message)
    assert isinstance(error, Throttled)
    assert error.pace is None


def test_a_wait_hint_is_milliseconds() -> None:
    error = _pai(400, "Throttling.User", "slow down", x_acs_retry_after="1234")
    assert isinstance(error, Throttled)
    assert (error.retry_after, error.pace) == (1.234, None)
