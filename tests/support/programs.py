"""Programs that some tests need."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def need(program: str) -> str:
    """Return the path of a program, preferably from this virtual environment.

    If it is not installed, skip the test. In CI, fail the test.
    """
    path = shutil.which(program, path=str(Path(sys.executable).parent)) or shutil.which(program)
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(f"{program} is not installed, and CI must not skip")
        pytest.skip(f"{program} is not installed")
    return path
