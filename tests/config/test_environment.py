"""`${NAME}` in texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.config.environment import expand

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "1"),
        ("x${A}y${B}z", "x1y${A}z"),
        ("$$", "$"),
        ("$$$$", "$$"),
        ("$${A}", "${A}"),
        ("$$${A}", "$1"),
        ("$A and a$", "$A and a$"),
        ("${A}}", "1}"),
        ("${EMPTY}", ""),
    ],
)
def test_expands(text: str, expanded: str) -> None:
    # A value is not expanded again: what B holds stays as it is.
    expansion = expand(text, {"A": "1", "B": "${A}", "EMPTY": ""})
    assert (expansion.text, expansion.unset, expansion.malformed) == (expanded, (), False)


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A", "${A-b}", "${ A }", "${A:-x}", "${${A}}", "${É}"])
def test_a_broken_reference_is_malformed(text: str) -> None:
    assert expand(text, {"A": "1"}).malformed


def test_every_unset_variable_is_named_once_in_order() -> None:
    assert expand("${B}${A}${C}${B}", {"C": "1"}).unset == ("B", "A")


def test_only_what_came_from_the_environment_counts_as_used() -> None:
    assert expand("a${A}", {"A": ""}).used
    assert not expand("$${A} $", {"A": "1"}).used


def test_an_expansion_does_not_show_its_text() -> None:
    assert "hunter2" not in repr(expand("hunter2", {}))


@given(st.text())
def test_any_text_can_be_written_with_doubled_dollars(text: str) -> None:
    expansion = expand(text.replace("$", "$$"), {})
    assert (expansion.text, expansion.used, expansion.unset, expansion.malformed) == (text, False, (), False)


@given(st.dictionaries(NAMES, st.text()), st.lists(st.tuples(st.text(st.characters(exclude_characters="$")), NAMES)))
def test_a_text_is_the_sum_of_its_parts(environ: dict[str, str], parts: list[tuple[str, str]]) -> None:
    expansion = expand("".join(f"{text}${{{name}}}" for text, name in parts), environ)
    assert expansion.text == "".join(text + environ.get(name, "") for text, name in parts)
    assert set(expansion.unset) == {name for _, name in parts} - environ.keys()
    assert not expansion.malformed


@given(st.text("${}Aa_1"))
def test_nothing_makes_it_fail(text: str) -> None:
    expansion = expand(text, {"A": "value"})
    assert expansion.malformed or "${" not in expansion.text or "$$" in text
