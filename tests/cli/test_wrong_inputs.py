"""Wrong command lines and configs: each message names what is wrong and what to write instead.

`wrong_inputs.txt` holds all of them: a config, indented, if there is one; a command; and its exact output. After a
change of wording: `UPDATE_GOLDEN=1 pytest tests/cli/test_wrong_inputs.py`, and read the difference.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.golden import check_golden
from trainfleet_exporter.cli import main

TABLE = Path(__file__).parent / "wrong_inputs.txt"
PAI = """\
providers:
  - name: pai
    platform: alibaba_pai
    region: cn-hangzhou
    credentials: {access_key_id: id, access_key_secret: hunter2}
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No credentials but those of the config, a working folder of its own, and signals as they were."""
    before = signal.getsignal(signal.SIGHUP)
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("ALIBABA_", "HUAWEI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALIBABA_CLOUD_ECS_METADATA_DISABLED", "true")
    yield
    signal.signal(signal.SIGHUP, before)


def _answer(capsys: pytest.CaptureFixture[str], config: str, command: str = "--config.file=config.yaml") -> str:
    path = Path("config.yaml")
    path.unlink(missing_ok=True)
    if config:
        path.write_text(config, encoding="utf-8")
    code = main(shlex.split(command))
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "hunter2" not in printed.err
    return printed.err


def test_every_answer_is_exactly_this(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = TABLE.read_text(encoding="utf-8").split("\n\n")
    answers = []
    for block in blocks:
        config, command = re.split(r"^\$ trainfleet-exporter ", block, flags=re.MULTILINE)
        command = command.partition("\n")[0]
        answer = _answer(capsys, re.sub("(?m)^    ", "", config), command)
        answers.append(f"{config}$ trainfleet-exporter {command}\n{answer}")
    assert len(answers) > 50
    check_golden(TABLE, "\n".join(answers))


def test_a_misspelt_key_hides_no_other_fault(capsys: pytest.CaptureFixture[str]) -> None:
    config = PAI.replace("platform:", "platfrom:").replace("region: cn-hangzhou", "regoin: cn-north-4")
    said = _answer(capsys, f"{config}    collectors: {{jobs_v1: {{}}}}\n")
    lines = [line.split(": ")[1] for line in said.splitlines()]
    assert lines == [
        "providers[0].platfrom",
        "providers[0].region",
        "providers[0].regoin",
        "providers[0].collectors.jobs_v1",
    ]


def test_no_suggestion_is_made_from_a_hidden_value(capsys: pytest.CaptureFixture[str]) -> None:
    said = _answer(capsys, PAI.replace("cn-hangzhou", "LTAI5tQnKxYz1234567890ab"))
    assert "a text that is not shown" in said
    assert "1234567890" not in said
    assert "did you mean" not in said
