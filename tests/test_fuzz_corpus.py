"""The kept inputs of every fuzz target, fed once; `make fuzz` looks for new ones."""

from __future__ import annotations

import pytest
from fuzz.archive import FOLDER, read_inputs
from fuzz.targets import TARGETS

pytestmark = pytest.mark.long


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_break_nothing(target: str) -> None:
    inputs = read_inputs(target)
    assert inputs
    for name, data in inputs.items():
        try:
            TARGETS[target](data)
        except Exception as error:
            raise AssertionError(f"{target} fails on the kept input {name}") from error


def test_every_archive_belongs_to_a_target() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TARGETS)
