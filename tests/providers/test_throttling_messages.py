"""What the clouds say when they throttle, in their own words and units."""

from __future__ import annotations

from trainfleet_exporter.errors import CloudError, Throttled
from trainfleet_exporter.providers.alibaba_pai.api import PaiDialect
from trainfleet_exporter.providers.judging import ServerClock
from trainfleet_exporter.transport import HttpAnswer


def _pai(status: int, code: str, message: str, **headers: str) -> CloudError | None:
    dialect = PaiDialect("cloudmonitor", "2019-01-01", credential=None, clock=ServerClock())  # type: ignore[arg-type]  # judging needs none
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return dialect.judge(HttpAnswer(status, named, b"{}", {"Code": code, "Message": message}))


def test_a_wait_hint_is_milliseconds() -> None:
    error = _pai(400, "Throttling.User", "slow down", x_acs_retry_after="1234")
    assert isinstance(error, Throttled)
    assert error.retry_after == 1.234
