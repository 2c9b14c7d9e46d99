"""The README: its first screen, its config and the samples that the demo prints."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
import yaml

from tests.docs.commands import Command, commands
from tests.docs.pages import ROOT, blocks, prose
from tests.docs.session import session
from tests.e2e.processes import eventually
from trainfleet_exporter.cli import main
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.providers.registry import installed_platforms

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def _samples() -> list[Command]:
    return [command for command in commands(README) if command.words[0] == "curl"]


def test_the_config_of_three_clouds_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks(README, "yaml")
    assert len(block.text.splitlines()) == 13
    for name in ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"):
        monkeypatch.setenv(name, "LTAI5tExampleExample")
    for name in ("HUAWEICLOUD_SDK_AK", "HUAWEICLOUD_SDK_SK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert f"`{name}`" in prose(README)
        monkeypatch.setenv(name, "EXAMPLEEXAMPLEEXAMPL")
    path = tmp_path / "config.yaml"
    path.write_text(block.text, encoding="utf-8")
    assert main([f"--config.file={path}", "--config.check"]) == 0, capsys.readouterr().err
    assert {each["platform"] for each in yaml.safe_load(block.text)["providers"]} == installed_platforms().keys()


def test_five_metrics_have_a_sample_each() -> None:
    table = TEXT.partition("\n## Five metrics\n")[2].partition("\n```")[0]
    named = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert len(named) == 5
    assert set(named) <= {family.name for family in FAMILIES}
    shown = [line.partition("{")[0] for command in _samples() for line in command.shown if line != "..."]
    assert sorted(set(shown)) == sorted(named)


def test_the_demo_prints_the_samples(tmp_path: Path) -> None:
    """The series, the values of single jobs and the capacities are the same in every demo."""
    shown = [line for command in _samples() for line in command.shown if line != "..."]
    with session(tmp_path) as reader:
        reader.type(Command(_samples()[0].block, "trainfleet-exporter demo"))

        def page() -> str:
            return httpx.get(f"{reader.url}/metrics", trust_env=False).text

        def is_there() -> bool:
            lines = page().splitlines()
            counts = {line.rpartition(" ")[0] for line in lines if line.startswith("trainfleet_jobs{")}
            return {line.rpartition(" ")[0] if line.startswith("trainfleet_jobs{") else line for line in shown} <= {
                *lines,
                *counts,
            }

        eventually(is_there, what="the samples")
        for command in _samples():
            reader.type(command)
        lines = page().splitlines()
    series = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines}
    for line in shown:
        labels, _, value = line.rpartition(" ")
        assert labels in series, line
        assert labels.startswith("trainfleet_jobs{") or series[labels] == value, line
