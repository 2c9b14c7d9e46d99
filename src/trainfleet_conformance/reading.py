"""A small reader of exposition pages, independent of the code under test and strict about what it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

_NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
_SAMPLE = re.compile(rf"({_NAME})\{{({_LABEL}(?:,{_LABEL})*)\}} (\S+)")
_ESCAPED = re.compile(r"\\(.)")

Sample = tuple[str, dict[str, str], float]


def sample(line: str) -> Sample:
    """Name, labels and value of one sample line without its newline."""
    match = _SAMPLE.fullmatch(line)
    assert match, f"not a sample line: {line!r}"
    found = re.findall(_LABEL, match[2])
    labels = {name: _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], text) for name, text in found}
    assert len(labels) == len(found), f"a label twice: {line!r}"
    return match[1], labels, float(match[match.lastindex or 0])


def samples(page: bytes) -> list[Sample]:
    """All samples of a page; comment lines are passed over."""
    text = page.decode()
    assert not text or text.endswith("\n")
    return [sample(line) for line in text.split("\n")[:-1] if not line.startswith("#")]


def parse_text(page: str) -> list[Metric]:
    """What prometheus-client reads in a page of the text format."""
    return list(text_families(page))


def parse_openmetrics(page: str) -> list[Metric]:
    """What prometheus-client reads in an OpenMetrics page."""
    return list(openmetrics_families(page))


def joined(rendered: dict[str, list[bytes]]) -> bytes:
    """Rendered samples as one run of lines."""
    return b"".join(piece for pieces in rendered.values() for piece in pieces)


def lines_by_family(page: bytes) -> dict[str, list[bytes]]:
    """Sample lines under the name of the family whose head they follow. Fails if a head comes twice, is empty, or a
    sample stands under another family's head."""
    found: dict[str, list[bytes]] = {}
    family = ""
    for line in page.split(b"\n")[:-1]:
        if line.startswith(b"# TYPE "):
            family = line.split(b" ")[2].decode()
            assert family not in found, f"two heads of {family}"
            found[family] = []
        elif not line.startswith(b"#"):
            assert line.split(b"{")[0].decode() in (family, family + "_total")
            found[family].append(line)
    assert all(found.values()), "a head without samples"
    return found


def total(texts: Iterable[bytes]) -> int:
    return sum(map(len, texts))
