"""Each file of `bad/` gets exactly the messages next to it, each with its line and without a secret.

After a change of wording: `UPDATE_GOLDEN=1 pytest tests/config/test_bad_files.py`, and read the difference.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from tests.config.loading import PLATFORMS
from tests.support.golden import check_golden
from trainfleet_exporter.config import load_config
from trainfleet_exporter.errors import ConfigError

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*.yaml"))
SLOW = {"too-deep"}
CASES = [pytest.param(path, id=path.stem, marks=pytest.mark.long if path.stem in SLOW else []) for path in FILES]
ENVIRON = {
    "WRONG_DURATION": "soon",
    "EMPTY": "",
    "OTHER_REGION": "cn-north-4",
    "ZONE": "cn-north-4a",
    "MISSPELT_REGION": "cn-hangzou",
    "YOURS": "YOUR_ACCOUNT",
    "NO_BREAK_SPACE": "hunter2\u00a0",
    "SECRET_OF_TWO_LINES": "hunter2\nhunter2",
    "HOME": str(BAD / "files" / "home"),
    "HUAWEICLOUD_SDK_AK": "hunter2",
    "ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true",
}
SECRET = "hunter2"  # wherever a file of bad/ has a secret, it is this


def faults_of(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ=ENVIRON, platforms=PLATFORMS)
    return str(caught.value).replace(str(path), path.name) + "\n"


@pytest.mark.parametrize("path", CASES)
def test_the_message_is_exactly_this(path: Path) -> None:
    check_golden(path.with_suffix(".txt"), faults_of(path))


@pytest.mark.parametrize("path", CASES)
def test_no_message_holds_a_secret_or_a_line_break(path: Path) -> None:
    reported = faults_of(path)
    assert SECRET not in reported
    assert all(line.startswith(f"{path.name}:") for line in reported.splitlines())


@pytest.mark.parametrize("path", CASES)
def test_faults_are_in_file_order(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ=ENVIRON, platforms=PLATFORMS)
    places = [(fault.line or 0, fault.path) for fault in caught.value.faults]
    assert places == sorted(places)


@pytest.mark.parametrize("path", CASES)
def test_its_traceback_shows_no_secret(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ=ENVIRON, platforms=PLATFORMS)
    assert SECRET not in "".join(traceback.format_exception(caught.value)).replace(str(path), "")


def test_every_message_file_has_its_config() -> None:
    assert {path.stem for path in BAD.glob("*.txt")} == {path.stem for path in FILES}
