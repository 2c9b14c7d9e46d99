"""Accept headers of real clients, and the rules of RFC 9110 one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfleet_exporter.exposition.formats import Format, accepts_gzip, choose

# What scrape/scrape.go makes of config.ScrapeProtocols (names, then falling weights, then */*).
PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
OPENMETRICS = {
    "prometheus 2.5 to 2.42": (
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    ),
    "prometheus 3": (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
        "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
        "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    ),
    "prometheus 3, protobuf first, underscores": (
        f"{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,"
        "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=underscores;q=0.3,"
        "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
    ),
    "later minor version": "application/openmetrics-text;version=1.1.0,text/plain;q=0.9",
    "quoted, capitals, spaces": (
        ' Application/OpenMetrics-Text ; Version="1.0.0" ; Charset=UTF-8 ; Q=0.8 , text/plain;q=0.7 '
    ),
    "named before anything": "*/*,application/openmetrics-text",
    "text excluded": "text/plain;q=0,*/*;q=0.1",
    "malformed weight is no weight": "application/openmetrics-text;q=high,text/plain;q=0.9",
    "extension after the weight": "application/openmetrics-text;q=0.9;version=0.0.1,text/plain;q=0.5",
}
TEXT = {
    "none": "",
    "curl, python": "*/*",
    "firefox": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "prometheus 2 before openmetrics 1.0": (
        "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    ),
    "prometheus 1": f"{PROTOBUF};q=0.7,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
    "only an old openmetrics": "application/openmetrics-text;version=0.0.1",
    "a version that begins alike": "application/openmetrics-text;version=10.0.0",
    "nothing that we have": "image/png",
    "everything excluded": "*/*;q=0",
    "openmetrics excluded": "application/openmetrics-text;q=0,*/*",
    "openmetrics excluded, and nothing else named": "application/openmetrics-text;q=0",
    "text by its version": "application/openmetrics-text;q=0.5,text/plain;version=0.0.4",
    "text of any kind more welcome": "application/openmetrics-text;q=0.5,text/*;q=0.6",
    "another charset": "application/openmetrics-text;charset=utf-16,text/plain;q=0.1",
    "nonsense": "\x00\xff=;q,//",
}


@pytest.mark.parametrize("accept", OPENMETRICS.values(), ids=OPENMETRICS.keys())
def test_openmetrics_is_chosen(accept: str) -> None:
    assert choose(accept) is Format.OPENMETRICS


@pytest.mark.parametrize("accept", TEXT.values(), ids=TEXT.keys())
def test_text_is_chosen(accept: str) -> None:
    assert choose(accept) is Format.TEXT


@pytest.mark.parametrize("less", range(4))
def test_what_names_a_format_more_exactly_decides_its_weight(less: int) -> None:
    ranges = ["*/*", "application/*", "application/openmetrics-text"]
    ranges += [f"{ranges[-1]};version={version}" for version in ("1.1", "1.0.0")]
    for more in range(less + 1, len(ranges)):
        assert choose(f"text/plain;q=0.5,{ranges[less]},{ranges[more]};q=0.1") is Format.TEXT
        assert choose(f"text/plain;q=0.5,{ranges[less]};q=0.1,{ranges[more]}") is Format.OPENMETRICS


@pytest.mark.parametrize(
    ("accept_encoding", "accepted"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("*", True),
        ("deflate, gzip, br, zstd", True),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("gzip;q=0.5, identity", False),
    ],
)
def test_gzip(accept_encoding: str, accepted: bool) -> None:
    assert accepts_gzip(accept_encoding) is accepted


@given(st.text() | st.text(st.sampled_from('*/,;=q01. "\\gzip')))
def test_no_header_is_an_error(header: str) -> None:
    assert choose(header) in Format
    assert accepts_gzip(header) in (True, False)
