"""What the daemon tells the collector of garbage and the C library, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_SCRIPT = """
import gc, json, re
from trainfleet_exporter import memory

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

memory.settle()
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
def test_what_was_there_is_frozen_and_what_was_freed_goes_back() -> None:
    ran = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    frozen, young, left, peak = json.loads(ran.stdout)
    assert frozen > 5_000
    assert young == 10_000
    assert peak > 90
    assert left < 5
