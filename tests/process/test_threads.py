"""A call in a daemon thread does not delay the end of the process, nor change its output or exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys, threading, time
from pydantic import BaseModel, field_validator
from trainfleet_exporter import cli
from trainfleet_exporter.__main__ import main
from trainfleet_exporter.process.threads import DaemonThreadExecutor

begun = threading.Event()
runs = {runs}

class Section(BaseModel):
    key: int

    @field_validator("key", mode="before")
    @classmethod
    def _slow(cls, value):
        begun.set()
        while runs:
            time.sleep(0.001)
        return value

class Lingers:
    def __del__(self):
        time.sleep(0.3)  # the interpreter ends, and lets other threads have their turn

lingers = Lingers()

def run():
    DaemonThreadExecutor().submit(Section.model_validate, {{"key": 1}})
    begun.wait()
    while not runs and threading.active_count() > 1:
        time.sleep(0.001)
    print("out")
    {end}

cli.main = run
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("runs", "end", "code"), [(True, "return 0", 0), (True, "sys.exit(4)", 4), (False, "return 3", 3)]
)
def test_running_call_changes_neither_output_nor_exit_code(runs: bool, end: str, code: int) -> None:
    script = _SCRIPT.format(runs=runs, end=end)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "out\n", "")
