"""The kit catches what it is for: each mistake made on purpose in the example fails the check that is named for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.deliberate import EXAMPLE, MISTAKES, ROOT, Mistake


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_caught(mistake: Mistake, tmp_path: Path) -> None:
    copy = tmp_path / "lantern"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    mistake.make(copy)
    answer = _run_kit(copy, mistake.check)
    printed = answer.stdout + answer.stderr
    assert answer.returncode == 1, printed
    assert f"FAILED tests/test_conformance.py::TestLantern::{mistake.check}" in printed, printed
    assert mistake.message in printed, printed


def _run_kit(folder: Path, check: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    test = f"tests/test_conformance.py::TestLantern::{check}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", test]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)


def test_the_checks_that_are_named_are_the_kit_s() -> None:
    from trainfleet_conformance import ProviderConformance  # noqa: PLC0415 - only this test needs it

    for mistake in MISTAKES:
        assert hasattr(ProviderConformance, mistake.check.partition("[")[0]), mistake.name
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 14


def test_the_text_of_each_mistake_stands_once_in_the_example() -> None:
    for mistake in MISTAKES:
        text = (EXAMPLE / "src" / "trainfleet_lantern" / mistake.file).read_text(encoding="utf-8")
        assert text.count(mistake.old) == 1, f"{mistake.name}: {mistake.old!r} in {mistake.file}"
