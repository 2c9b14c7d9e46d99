"""For every test: no network beyond loopback, no environment of the developer's; coroutines run in stepped time."""

from __future__ import annotations

import inspect
import ipaddress
import logging
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.clock import START, run_stepped

# Examples are found, not timed: a busy machine must not fail a property.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")
os.environ["GOGC"] = "400"  # promtool and Prometheus collect garbage less often: a quarter of their time

_real_connect = socket.socket.connect
_real_connect_ex = socket.socket.connect_ex


def _check(address: Any) -> None:
    if isinstance(address, tuple) and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise AssertionError(f"a test tried to reach {address[0]}: only loopback is allowed")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in stepped time, from `BEGINS` of its module on."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    run_stepped(partial(pyfuncitem.obj, **arguments), start=getattr(pyfuncitem.module, "BEGINS", START))
    return True


@pytest.fixture(autouse=True)
def _loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(self: socket.socket, address: Any) -> None:
        _check(address)
        _real_connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        _check(address)
        return _real_connect_ex(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect_ex)


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A command that a test runs in this process sets up logs, which must not outlive the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    hook, warn = sys.excepthook, warnings.showwarning
    yield
    sys.excepthook, warnings.showwarning = hook, warn
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ALIBABA_CLOUD_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
