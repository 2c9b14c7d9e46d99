"""Programs that some tests drive: skipped by name where one is missing, except under CI, where that is a failure."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def need(program: str) -> str:
    """The program's path, first of the environment's own; skips the test where it is not installed."""
    path = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(f"{program} is not installed, and CI must not skip")
        pytest.skip(f"{program} is not installed")
    return path
