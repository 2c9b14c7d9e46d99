"""How many connections the system lets there be."""

from __future__ import annotations

import logging
import resource

import pytest

from trainfleet_exporter.descriptors import affordable


@pytest.mark.parametrize(
    ("limit", "wanted", "granted"),
    [
        (1024, 512, 512),
        (640, 512, 512),
        (639, 512, 511),
        (256, 512, 128),
        (64, 512, 2),
        (1024, 65535, 896),
        (resource.RLIM_INFINITY, 65535, 65535),
    ],
)
def test_there_are_as_many_as_leave_something_for_others(
    limit: int, wanted: int, granted: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    with caplog.at_level(logging.WARNING):
        assert affordable(wanted) == granted
    told = f"{granted} connections at a time instead of {wanted}: only {limit} file descriptors may be open (ulimit -n)"
    assert [record.getMessage() for record in caplog.records] == ([told] if granted < wanted else [])
