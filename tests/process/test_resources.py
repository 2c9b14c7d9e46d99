"""Limits of connections by file descriptors, and memory settings, each in a process of its own."""

from __future__ import annotations

import json
import logging
import resource
import subprocess
import sys

import pytest

from tests.support.logs import lines_of
from trainfleet_exporter.process.resources import affordable_connections

_SCRIPT = """
import gc, json, re
from trainfleet_exporter.process.resources import tune_memory

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

tune_memory()
before = resident()
kept = []
for _ in range(5):
    pieces = [bytes(2**20 - 100) for _ in range(100)]
    pieces = [b"x".join([piece[:500_000]] * 2) for piece in pieces]  # what is freed in between is what matters
    kept.append(bytes(1000))
    peak = resident()
    del pieces
print(json.dumps([gc.get_freeze_count(), gc.get_threshold()[0], resident() - before, peak - before]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_old_objects_are_frozen_and_freed_memory_is_returned() -> None:
    ran = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    frozen, young, left, peak = json.loads(ran.stdout)
    assert (frozen > 5_000, young, peak > 90, left < 5) == (True, 10_000, True, True)


@pytest.mark.parametrize(
    ("limit", "allowed"), [(1024, 512), (640, 512), (639, 511), (64, 2), (resource.RLIM_INFINITY, 512)]
)
def test_connections_leave_descriptors_for_others(
    limit: int, allowed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    with caplog.at_level(logging.WARNING):
        assert affordable_connections(512) == allowed
    facts = f"connections={allowed} wanted=512 descriptors={limit}"
    logged = f"connection limit lowered: too few file descriptors (ulimit -n) {facts}"
    assert lines_of(caplog.records) == ([logged] if allowed < 512 else [])
