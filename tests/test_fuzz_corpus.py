"""What fuzzing has found worth keeping, fed again: `make fuzz` looks further than there is time for here."""

from __future__ import annotations

from pathlib import Path

import fuzz
import pytest
from fuzz.targets import TARGETS

pytestmark = pytest.mark.long

CORPUS = Path(fuzz.__file__).parent / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_is_borne(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for path in inputs:
        try:
            TARGETS[name](path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{name} does not bear {path.name}") from error


def test_no_input_is_of_no_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
