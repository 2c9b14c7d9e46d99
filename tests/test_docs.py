"""The documents against the code: what they name exists, and what exists and matters is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trainfleet_exporter import cli
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.providers.registry import installed_platforms
from trainfleet_exporter.telemetry import CollectorState, Telemetry

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
COLLECTORS = (ROOT / "docs" / "collectors.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "config.example.yaml")]


def _own_names() -> set[str]:
    telemetry = Telemetry()
    telemetry.watch(CollectorState("p", "c", 60.0))
    telemetry.attempt("p", api="a", operation="o", outcome="ok", seconds=0.1)
    return {sample for family in telemetry.registry.collect() for sample in (family.name, family.name + "_total")}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_metric_that_is_named_exists(path: Path) -> None:
    names = {family.name for family in FAMILIES} | _own_names()
    for name in re.findall(r"trainfleet_[a-z_*]+", path.read_text(encoding="utf-8")):
        if name in {"trainfleet_exporter", "trainfleet_"}:  # the package
            continue
        pattern = re.compile(re.escape(name).replace(r"\*", "[a-z_]+"))
        assert any(pattern.fullmatch(known) for known in names), f"{path.name} names {name}"


def test_every_flag_of_the_daemon_is_on_its_page_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    daemon_s, _, _ = capsys.readouterr().out.partition("\ncommands:")
    flags = set(re.findall(r"--[a-z][a-z.-]+", daemon_s))
    assert flags == set(re.findall(r"^\| `(--[a-z.-]+)`", COMMAND_LINE, re.MULTILINE))


def test_every_collector_is_documented_with_its_cost() -> None:
    for platform in installed_platforms().values():
        collectors = platform.config.model_fields["collectors"].default
        for name in type(collectors).model_fields:
            assert re.search(rf"^\| `{name}`[^|]*\|[^|]+\| \d+ .*\|.*\|$", COLLECTORS, re.MULTILINE), name


def test_the_readme_s_first_commands_are_make_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^make ([a-z]+)", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    for target in [*commands, "lint", "bench", "lock"]:
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE)


def test_ci_runs_the_readme_s_tests_and_the_long_ones() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("\nmake test\nmake test-long\n")


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda path: path.name)
def test_links_lead_to_what_is_there(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_tests_that_security_md_names_are_there() -> None:
    named = re.findall(r"`(tests/[\w/.]+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
