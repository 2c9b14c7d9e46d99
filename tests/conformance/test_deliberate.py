"""The kit catches what it is for: each mistake made on purpose in the example fails the check that is named for it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.conformance.deliberate import EXAMPLE, MISTAKES, Mistake

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["trainfleet_conformance", "trainfleet_exporter.app.daemon", "_pytest.config"])
"""Each mistake has a process of its own, in which the kit is imported already: most of the time that it would take."""


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_caught(mistake: Mistake, tmp_path: Path) -> None:
    copy = tmp_path / "lantern"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    mistake.make(copy)
    process = _FORKS.Process(target=_run_kit, args=(copy, mistake.check))
    process.start()
    process.join(300)
    printed = (copy / "printed").read_text(encoding="utf-8")
    assert process.exitcode == 1, printed
    assert f"FAILED tests/test_conformance.py::TestLantern::{mistake.check}" in printed, printed
    assert mistake.message in printed, printed


def _run_kit(folder: Path, check: str) -> None:
    os.chdir(folder)
    with Path("printed").open("wb") as printed:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(printed.fileno(), stream.fileno())
    test = f"tests/test_conformance.py::TestLantern::{check}"
    imported = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "-W", imported, test]))
