"""This object in, this text out. `UPDATE_GOLDEN=1 pytest tests/exposition/test_golden.py` rewrites the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from trainfleet_conformance.page import check as check_page
from trainfleet_conformance.page import check_both
from trainfleet_exporter.exposition import Format, PageStore, Renderer, RenderSettings
from trainfleet_exporter.families import FAMILIES

from .examples import EXAMPLES, JOB_LABELS

GOLDEN = Path(__file__).parent / "golden"


def page(fmt: Format, *names: str) -> bytes:
    """The page of the named examples, each put as a part of its own."""
    renderer = Renderer(RenderSettings(job_labels=JOB_LABELS))
    store = PageStore(FAMILIES)
    for name in names:
        store.put(name, renderer.render("pai-hangzhou", EXAMPLES[name]).lines)
    made = store.current().body(fmt, b"", gzip=False).joined()
    assert check_page(made.decode())
    return made


def check(name: str, made: bytes) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_bytes(made)
    assert made.decode() == path.read_bytes().decode()


@pytest.mark.parametrize("name", EXAMPLES)
def test_one_object_of_each_class(name: str) -> None:
    check(name, page(Format.TEXT, name))


def test_both_formats_parse_and_say_the_same() -> None:
    text, openmetrics = (page(fmt, *EXAMPLES).decode() for fmt in (Format.TEXT, Format.OPENMETRICS))
    assert check_both(text, openmetrics)
    by_text, by_openmetrics = list(parse_text(text)), list(parse_openmetrics(openmetrics))
    assert [family.name for family in by_text] == [f.name.removesuffix("_total") for f in FAMILIES]
    assert [(f.name, f.documentation, f.type, f.samples) for f in by_text] == [
        (f.name, f.documentation, f.type, f.samples) for f in by_openmetrics
    ]
    assert [(f.type, f.documentation) for f in by_text] == [(f.kind, f.help) for f in FAMILIES]


def test_golden_files_are_all_used() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(EXAMPLES)
