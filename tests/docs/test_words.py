"""The texts that users read keep the rules of words.py. To test a new kind of text, add a function to `SOURCES`."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml
from deploy.generator import DEPLOY
from deploy.generator.docs_metrics import own_metrics

from tests.docs.pages import PAGES, ROOT, name_of, prose
from tests.docs.words import sentences, violations
from trainfleet_exporter import cli
from trainfleet_exporter.families import FAMILIES

Texts = Iterator[tuple[str, str]]
"""The place of each text, and the text as Markdown."""

_MORE_PAGES = ("CONTRIBUTING.md", "SECURITY.md", "deploy/kubernetes/chart/README.md", "examples/lantern/README.md")
_FROM_CODE = re.compile(r"<!-- (generated|measured|public)(?:: begin)? -->.*?<!-- (?:end of \1|\1: end) -->", re.DOTALL)
"""Tables that are made of HELP, docstrings or measurements."""
_TEMPLATE = ROOT / "src" / "trainfleet_exporter" / "web" / "status_page" / "page.html.jinja"
_COMMENTED = [
    ROOT / "config.example.yaml",
    *(DEPLOY / name for name in ("web-config.example.yaml", "alertmanager/alertmanager.yml", "systemd/config.yaml")),
    *(DEPLOY / name for name in ("prometheus/prometheus.yml", "prometheus/thresholds.yaml", "compose/compose.yaml")),
    DEPLOY / "kubernetes" / "chart" / "values.yaml",
    *(ROOT / name for name in ("Dockerfile", "Makefile", ".dockerignore", "pyproject.toml", ".ci/run")),
    *(DEPLOY / name for name in ("image/check.sh", "compose/prometheus.yml")),
    *(DEPLOY / "systemd" / name for name in ("trainfleet-exporter.service", "follow-keys.conf")),
    *sorted((DEPLOY / "kubernetes" / "chart" / "ci").glob("*.yaml")),
]
"""Files that users edit or read."""
_NOT_OURS = re.compile("process_|python_")
"""Families of prometheus-client."""


def _pages() -> Texts:
    for page in (*PAGES, *(ROOT / name for name in _MORE_PAGES)):
        text = _FROM_CODE.sub("", prose(page))
        if name_of(page) == "docs/rules.md":  # its rows are texts of `_rules`
            text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
        if name_of(page) != "docs/evidence/benchmarks.md":  # lists versions and machines
            yield name_of(page), text


def _help_of_families() -> Texts:
    for family in FAMILIES:
        yield family.name, family.help
    for metric in own_metrics():
        if not _NOT_OURS.match(metric.name):
            yield metric.name, metric.documentation


def _help_of_commands() -> Texts:
    for command in ("", *cli.cli.commands):
        yield command, _help_of(command)


def _help_of(command: str) -> str:
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setenv("COLUMNS", "1000")  # one line for each flag
        with contextlib.suppress(SystemExit):
            cli.main([*filter(None, [command]), "--help"])
    return _in_help(printed.getvalue())


def _in_help(text: str) -> str:
    """Return the sentences of a --help, and the last column of its tables."""
    _, _, text = text.partition("\n\n")  # removes the usage
    return re.sub(r"^ +(?:trainfleet-exporter (?:[a-z]+ )?(?:--\S+)? *|.*? {2,})", "\n\n", text, flags=re.MULTILINE)


def _alerts() -> Texts:
    for path in sorted((DEPLOY / "prometheus" / "rules").glob("*.yaml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                texts = rule.get("annotations", {})
                said = [key for key in texts if not key.endswith("_url")]
                yield from ((f"{rule['alert']} {key}", _in_alert(texts[key])) for key in said)


def _in_alert(text: str) -> str:
    """Return the text of a Go template. A value becomes a word, and each branch becomes a sentence."""
    text = re.sub(r"\{\{-? *(?:if|else|with|end)\b.*?\}\}", "\n\n", text)
    return re.sub(r"\{\{.*?\}\}", "VALUE", text)


def _rules() -> Texts:
    """The meanings of records and alerts, in the last column of docs/rules.md."""
    for row in re.findall(r"^\| (.*) \|$", (ROOT / "docs" / "rules.md").read_text(encoding="utf-8"), re.MULTILINE):
        first, *_, last = row.split(" | ")
        if not re.match("`trainfleet_", first):  # those rows are lists of links
            yield first, last


def _dashboards() -> Texts:
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        yield from ((path.stem, text) for text in _in_dashboard(json.loads(path.read_text(encoding="utf-8"))))


def _in_dashboard(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _in_dashboard(each)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("title", "description", "label", "displayName", "legendFormat") and isinstance(value, str):
                yield _in_alert(value)
            else:
                yield from _in_dashboard(value)


def _status_page() -> Texts:
    yield "page", _in_template(_TEMPLATE.read_text(encoding="utf-8"))


def _in_template(text: str) -> str:
    """Return the text of a template of the status page: between tags, and in strings of expressions."""
    text = re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)
    strings = re.findall(r'"([^"{}<>]*)"', text)
    text = re.sub(r"\{%.*?%\}|<[^>]*>", "\n\n", text, flags=re.DOTALL)
    return "\n\n".join((re.sub(r"\{\{.*?\}\}", "VALUE", text), *strings))


def _comments() -> Texts:
    for path in _COMMENTED:
        yield path.relative_to(ROOT).as_posix(), _in_comments(path.read_text(encoding="utf-8"))


def _in_comments(text: str) -> str:
    """Return the comments of YAML on their own lines and after values, without indented code."""
    found = []
    for line in text.splitlines():
        value, mark, comment = line.partition("#" if line.lstrip().startswith("#") else " # ")
        if mark and value.strip():
            found += ["", comment.strip(" .") + "."]
        else:
            found.append("" if comment.startswith("   ") else comment.strip())
    return "\n".join(found)


def _reference_of_config() -> Texts:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for table in re.findall(r"<!-- generated.*?<!-- (?:end of generated|generated: end) -->", text, re.DOTALL):
        yield "configuration.md", table


SOURCES: Mapping[str, Callable[[], Texts]] = {
    "pages": _pages,
    "help_of_families": _help_of_families,
    "help_of_commands": _help_of_commands,
    "alerts": _alerts,
    "rules": _rules,
    "dashboards": _dashboards,
    "status_page": _status_page,
    "comments": _comments,
    "reference_of_config": _reference_of_config,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_sentence_keeps_the_rules(kind: str) -> None:
    found = [(place, sentence) for place, text in SOURCES[kind]() for sentence in sentences(text)]
    assert len(found) > 80
    assert {each: faults for each in found if (faults := violations(each[1]))} == {}


@pytest.mark.parametrize("package", ["trainfleet_exporter", "trainfleet_simulator", "trainfleet_conformance"])
def test_the_source_avoids_the_words(package: str) -> None:
    """Docstrings, comments, names, errors and messages do not contain the words."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {fault}"
        for path in sorted((ROOT / "src" / package).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for fault in violations(line, words_only=True)
    ]
    assert found == []


def test_planted_sentences_are_found() -> None:
    planted = {
        "Nobody can tell what it was told.": ["avoid 'Nobody'", "avoid 'tell'", "avoid 'told'"],
        "It reads the file, the key, the certificate, and starts.": ["3 commas"],
        " ".join(["This", *["very"] * 23, "long", "sentence."]): ["26 words"],
    }
    page = "# Page\n\nA good sentence.\n\n" + "\n".join(planted)
    assert {sentence: faults for sentence in sentences(page) if (faults := violations(sentence))} == planted
