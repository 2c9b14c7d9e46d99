"""Tags as labels: only the wanted, legal names, clashes numbered as kube-state-metrics numbers them."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.page.tag_labels import tag_labels


def test_only_wanted_tags_sorted_by_their_names() -> None:
    assert tag_labels({"b": "2", "a": "1", "c": "3"}, {"a", "b", "z"}) == [("label_a", "1"), ("label_b", "2")]


def test_what_a_label_name_cannot_hold_becomes_an_underscore() -> None:
    assert tag_labels({"app.io/Team": "x", "9": "y"}, {"app.io/Team", "9"}) == [
        ("label_9", "y"),
        ("label_app_io_Team", "x"),
    ]


def test_clashing_names_are_all_numbered_from_one() -> None:
    tags = {"a.b": "dot", "a-b": "dash", "a_b": "line", "c": "alone"}
    assert tag_labels(tags, set(tags)) == [
        ("label_a_b_conflict1", "dash"),
        ("label_a_b_conflict2", "dot"),
        ("label_a_b_conflict3", "line"),
        ("label_c", "alone"),
    ]


def test_a_number_that_a_tag_really_has_is_passed_over() -> None:
    tags = {"a.b": "dot", "a-b": "dash", "a_b_conflict1": "real"}
    assert tag_labels(tags, set(tags)) == [
        ("label_a_b_conflict2", "dash"),
        ("label_a_b_conflict3", "dot"),
        ("label_a_b_conflict1", "real"),
    ]


def test_unwanted_tags_make_no_clash() -> None:
    assert tag_labels({"a.b": "dot", "a-b": "dash"}, {"a.b"}) == [("label_a_b", "dot")]


@given(st.dictionaries(st.text(st.sampled_from("ab_.-1é")), st.text()))
def test_names_are_always_legal_and_unique(tags: dict[str, str]) -> None:
    labels = tag_labels(tags, tags)
    names = [name for name, _ in labels]
    assert len(set(names)) == len(names) == len(tags)
    assert all(re.fullmatch(r"label_[a-zA-Z0-9_]*", name) for name in names)
    assert [value for _, value in labels] == [tags[tag] for tag in sorted(tags)]
