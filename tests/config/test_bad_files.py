"""Each file of `bad/` gets exactly the message next to it, and every rule has such a file.

After a change of wording: `UPDATE_GOLDEN=1 pytest tests/config/test_bad_files.py`, and read the difference.
"""

from __future__ import annotations

import re
import string
import traceback
from pathlib import Path

import pytest

from tests.config.loading import PLATFORMS
from tests.support.golden import check_golden
from trainfleet_exporter.config import load_config
from trainfleet_exporter.config.wording import Rule, Wording
from trainfleet_exporter.errors import ConfigError
from trainfleet_exporter.providers.alibaba_pai.config import PaiRule
from trainfleet_exporter.providers.alibaba_pai.usage.config import UsageRule as PaiUsageRule
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiRule
from trainfleet_exporter.providers.huawei_modelarts.usage.config import UsageRule as HuaweiUsageRule
from trainfleet_exporter.providers.usage.table import ProfileRule

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


RULES = {*Rule, *ProfileRule, *PaiRule, *PaiUsageRule, *HuaweiRule, *HuaweiUsageRule}


# No file can stand for one that is not there: test_load.py has that rule.
@pytest.mark.parametrize("rule", sorted(RULES - {Rule.UNREADABLE_FILE}), ids=lambda rule: rule.name)
def test_every_rule_has_a_bad_file(rule: Wording) -> None:
    parts = (re.escape(text) + (".+" if name else "") for text, name, *_ in string.Formatter().parse(rule))
    message = re.compile(": " + "".join(parts) + "$", re.MULTILINE)
    assert any(message.search(path.read_text(encoding="utf-8")) for path in BAD.glob("*.txt"))
