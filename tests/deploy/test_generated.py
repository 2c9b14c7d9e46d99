"""The generated files under deploy/ and docs/ match the code."""

from __future__ import annotations

from deploy.generator import out_of_step
from deploy.generator.__main__ import SOURCES


def test_generated_files_are_up_to_date() -> None:
    assert sorted(map(str, out_of_step(SOURCES))) == [], "run python -m deploy.generator"
