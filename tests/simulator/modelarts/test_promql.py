"""The reader of queries: what it understands, and that it refuses everything else with its own words."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainfleet_simulator.modelarts.promql import Matcher, Query, Refused, read

SELECTOR = 'ma_container_cpu_util{container_name="modelarts-training"}'
TRAINING = (Matcher("container_name", "modelarts-training"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", Query("up")),
        (" up { } ", Query("up")),
        ("job:cpu:rate5m", Query("job:cpu:rate5m")),
        ("average", Query("average")),
        (SELECTOR, Query("ma_container_cpu_util", TRAINING)),
        ('m{a="1",b!="2",}', Query("m", (Matcher("a", "1"), Matcher("b", "2", negated=True)))),
        (r'm{a="q\"\\\n"}', Query("m", (Matcher("a", 'q"\\\n'),))),
        ('m{by="x"}', Query("m", (Matcher("by", "x"),))),
        ("last_over_time(m[10m])", Query("m", window=600)),
        ("last_over_time ( m [ 45s ] )", Query("m", window=45)),
        ("avg by (service_id) (m)", Query("m", aggregation="avg", by=("service_id",))),
        ("sum by()(m)", Query("m", aggregation="sum")),
        (
            f"max by (service_id, pod_name,) (last_over_time({SELECTOR}[1h]))",
            Query("ma_container_cpu_util", TRAINING, 3600, "max", ("service_id", "pod_name")),
        ),
        ("max\nby\t(a, a)\r\n(m)", Query("m", aggregation="max", by=("a",))),
    ],
)
def test_what_is_understood(text: str, expected: Query) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1",
        "m m",
        "m + m",
        "rate(m[5m])",
        "m[10m]",
        "m offset 5m",
        "avg(m)",
        "avg by service_id (m)",
        "avg by (service_id) m",
        "avg by (service_id) (m",
        "avg by (service_id) (avg by (a) (m))",
        "avg(m) by (service_id)",
        "avg without (a) (m)",
        "count by (a) (m)",
        "avg",
        "last_over_time(m)",
        "last_over_time(m[10])",
        "last_over_time(m[0m])",
        "last_over_time(m[2d])",
        "last_over_time(m[10m:1m])",
        "last_over_time(m[10m]",
        f"last_over_time(m[{'9' * 5000}m])",
        "last_over_time(m[١m])",
        '{__name__="m"}',
        'm{__name__="m"}',
        "m{",
        "m{a}",
        "m{a=b}",
        "m{a='b'}",
        'm{a="b" b="c"}',
        'm{a="b"',
        'm{a="b}',
        r'm{a="\x"}',
        "m{,}",
        'm{a=~"("}',
        'm{a=~"["}',
        'm{a=~"[z-a]"}',
        'm{a=~"[[a]]"}',
        'm{a=~"*a"}',
        'm{a=~"a**"}',
        'm{a=~"(a+)+"}',
        'm{a=~"(a|b)*"}',
        'm{a=~"(?=a)"}',
        'm{a=~"a{3}"}',
        r'm{a=~"(a)\\1"}',
        'm{a=~".*.*.*.*"}',
        'm{a=~"é"}',
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        read(text)


@pytest.mark.parametrize(
    ("query", "value", "fits"),
    [
        ('m{a="x"}', "x", True),
        ('m{a="x"}', "xx", False),
        ('m{a=""}', "", True),
        ('m{a!=""}', "x", True),
        ('m{a!=""}', "", False),
        ('m{a=~"worker-0|worker-1"}', "worker-1", True),
        ('m{a=~"worker-0|worker-1"}', "worker-10", False),
        (r'm{a=~"worker-\\d+"}', "worker-10", True),
        ('m{a=~"worker"}', "worker-1", False),
        ('m{a=~".+"}', "", False),
        ('m{a=~".*"}', "", True),
        ('m{a!~"worker-.*"}', "server-0", True),
        ('m{a=~"(train|infer)-[0-9a-f]?x"}', "infer-ex", True),
        (r'm{a=~"a\\.b"}', "axb", False),
    ],
)
def test_labels_are_compared_as_a_whole(query: str, value: str, fits: bool) -> None:
    (matcher,) = read(query).matchers
    assert matcher.fits(value) is fits


def test_a_refusal_says_where_and_repeats_nothing() -> None:
    with pytest.raises(Refused) as caught:
        read('m{secret="planted",}}')
    assert str(caught.value) == "at character 21: the end of the query is wanted"


words = r"""
avg by max last_over_time __name__ m 10m 0 999999999 a-z
 (a|b) [a-z] [z-a] [[ ( ) { } [ ] = =~ != !~ " ' \ , * + ? . | ^ $ é
"""
fragments = st.sampled_from([*words.split(), " ", "\n", "\ud800"])


@given(st.one_of(st.text(), st.lists(fragments, max_size=40).map("".join)))
def test_reading_raises_nothing_but_its_own_refusal(text: str) -> None:
    try:
        found = read(text)
    except Refused:
        return
    assert re.search(r"[a-zA-Z_:]", found.metric)
    assert found.window is None or 0 < found.window <= 86400


@given(st.one_of(st.text(max_size=60), st.lists(fragments, max_size=40).map("".join)))
@example("(" * 3000 + "a" + ")" * 3000)
def test_expressions_raise_nothing_but_the_refusal(expression: str) -> None:
    quoted = expression.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    try:
        (matcher,) = read(f'm{{a=~"{quoted}"}}').matchers
    except Refused:
        return
    assert matcher.value == expression
    assert matcher.fits("worker-0" * 8) in {True, False}


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"avg", "sum", "max", "by", "last_over_time"}
)


@given(
    metric=names,
    labels=st.lists(st.tuples(names, st.text()), max_size=4),
    window=st.one_of(st.none(), st.integers(1, 86400)),
    aggregation=st.sampled_from(["", "avg", "sum", "max"]),
    by=st.lists(names, unique=True, max_size=4),
)
def test_what_is_written_down_is_read_back(
    metric: str, labels: list[tuple[str, str]], window: int | None, aggregation: str, by: list[str]
) -> None:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    compared = ", ".join(f'{label}="{quoted(value)}"' for label, value in labels)
    text = f"{metric}{{{compared}}}"
    if window is not None:
        text = f"last_over_time({text}[{window}s])"
    if aggregation:
        text = f"{aggregation} by ({', '.join(by)}) ({text})"
    matchers = tuple(Matcher(label, value) for label, value in labels)
    assert read(text) == Query(metric, matchers, window, aggregation, tuple(by) if aggregation else ())
