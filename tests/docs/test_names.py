"""All names on pages exist, such as those of metrics, flags and files."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from deploy.generator import docs_metrics

from tests.docs.commands import commands
from tests.docs.pages import DOCUMENTS, ROOT, name_of, prose, spans
from trainfleet_exporter import cli
from trainfleet_exporter.config.schema import Config, Section, is_secret
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.providers.registry import installed_platforms

_RULES = [
    rule
    for path in (ROOT / "deploy" / "prometheus" / "rules").glob("*.yaml")
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
RECORDS = {rule["record"] for rule in _RULES if "record" in rule}
ALERTS = {rule["alert"] for rule in _RULES if "alert" in rule}
METRICS = {family.name for family in FAMILIES} | {
    name for metric in docs_metrics.own_metrics() for name in (metric.name, *(sample.name for sample in metric.samples))
}
REMOVED = {
    "TrainfleetApiBudgetRunningOut",
    "TrainfleetApiBudgetSpent",
    "TrainfleetJobStuck",
    "global.state_file",
    "trainfleet_exporter_api_budget_remaining_calls",
}
"""Names of earlier versions. Only the pages about upgrades may have them."""
UPGRADES = {"CHANGELOG.md", "docs/upgrade.md"}
PACKAGES = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
_FILES = re.compile(r"(?:docs|deploy|tests|src|benchmarks|requirements)/[\w./*-]+")
_ON_PAGE = pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)


def _whole(pattern: str) -> re.Pattern[str]:
    """Return a pattern for a name in which `*` stands for any part."""
    return re.compile(re.escape(pattern).replace(r"\*", "[a-z_]+"))


def _unknown(named: set[str], known: set[str], page: Path | None = None) -> list[str]:
    """Return the names that are not known. `page` has them."""
    gone = REMOVED if page is not None and name_of(page) in UPGRADES else set()
    return sorted(name for name in named - gone if not any(_whole(name).fullmatch(one) for one in known))


@_ON_PAGE
def test_metrics(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w:./-])trainfleet_[a-z_*]+", text))
    named -= PACKAGES | {"trainfleet_lantern", "trainfleet_", "trainfleet_alerts"}  # packages, the prefix, a tag
    assert _unknown(named, METRICS, page) == []


@_ON_PAGE
def test_records(page: Path) -> None:
    named = set(re.findall(r"(?<![\w:])[a-z_]+:trainfleet_[a-z_]+:[a-z_0-9]+", page.read_text(encoding="utf-8")))
    assert _unknown(named, RECORDS) == []


@_ON_PAGE
def test_alerts(page: Path) -> None:
    named = set(re.findall(r"(?<![\w/])Trainfleet[A-Z]\w+", page.read_text(encoding="utf-8")))
    assert _unknown(named, ALERTS, page) == []


def _help(main: Callable[[list[str]], object], *arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main([*arguments, "--help"])
    return printed.getvalue()


_HELP = [_help(cli.main), *(_help(cli.main, command) for command in cli.cli.commands)]
FLAGS = set(re.findall(r"--[a-z][a-z.-]*[a-z]", " ".join(_HELP)))


@_ON_PAGE
def test_flags(page: Path) -> None:
    """Flags with a dot are always the exporter's. Other flags are its own only in its commands."""
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--(?:config|web|log)\.[a-z.-]+[a-z]", text))
    ours = [command.text for command in commands(page) if command.words[:1] == ["trainfleet-exporter"]]
    ours += [span for span in spans(page) if re.match(r"(?:\S+/)?trainfleet-exporter ", span)]
    for command in ours:
        named |= set(re.findall(r"--[a-z][a-z.-]+", command))
    assert named <= FLAGS, named - FLAGS


@_ON_PAGE
def test_make_targets(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z]+)", page.read_text(encoding="utf-8")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def _keys(section: type[Section], above: str) -> Iterator[str]:
    """Yield the path of every key below a section, such as `limits.concurrency`."""
    hints = get_type_hints(section, include_extras=True)
    for name, field in section.model_fields.items():
        key = above + (field.alias or name)
        yield key
        if is_secret(field):
            yield f"{key}_file"
        for inner in _sections_in(hints[name]):
            yield from _keys(inner, f"{key}.")


def _sections_in(hint: Any) -> Iterator[type[Section]]:
    if isinstance(hint, type) and issubclass(hint, Section):
        yield hint
    for part in get_args(hint):
        yield from _sections_in(part)


_MODELS: tuple[type[Section], ...] = (Config, *(platform.config for platform in installed_platforms().values()))
_PATHS = {path for model in _MODELS for path in _keys(model, "")}
KEYS = {path.split(".", start)[-1] for path in _PATHS for start in range(path.count(".") + 1)}
KEYS |= {f"limits.monthly_calls.{api}" for platform in installed_platforms().values() for api in platform.config.apis}
_BEGINNINGS = sorted({key.split(".")[0] for key in KEYS if "." in key})


@_ON_PAGE
def test_config_keys(page: Path) -> None:
    """Code with a dot that begins with the name of a section is a config key."""
    form = re.compile(rf"(?:{'|'.join(_BEGINNINGS)})(?:\.\w+)+")
    named = {span for span in spans(page) if form.fullmatch(span) and not span.endswith((".py", ".md", ".yaml"))}
    assert _unknown(named, KEYS, page) == []


@_ON_PAGE
def test_files(page: Path) -> None:
    for span in spans(page):
        if _FILES.fullmatch(span):
            assert list(ROOT.glob(span.rstrip("/"))), span


@_ON_PAGE
def test_links_and_their_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        found = page.parent / path if path else page
        assert found.exists(), target
        if anchor:
            assert anchor in _anchors(found), target


def _anchors(page: Path) -> set[str]:
    """Return the anchors of headings: lower case, without punctuation, with hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("folder", ["docs", "docs/evidence"])
def test_every_page_is_in_the_index(folder: str) -> None:
    index = (ROOT / folder / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / folder).glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, page.name


def test_removed_names_are_gone() -> None:
    assert sorted(REMOVED & (METRICS | ALERTS | KEYS)) == []
