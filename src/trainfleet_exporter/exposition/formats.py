"""The two formats of an exposition page, and the choice of format and coding by RFC 9110, sections 12.4 and 12.5.

Sample lines are the same bytes in both formats; heads and the page's end differ. The exporter never rejects a scrape: a
client that accepts neither format gets the text format, as from the official exporters.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

_WEIGHT = re.compile(r"0(\.\d*)?|1(\.0*)?")


class Format(Enum):
    """A format of /metrics; the value is its Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @property
    def content_type(self) -> str:
        return self.value

    @property
    def end(self) -> bytes:
        """The end of a page."""
        return b"# EOF\n" if self is Format.OPENMETRICS else b""


def head(name: str, text: str, kind: str, fmt: Format) -> bytes:
    """HELP and TYPE lines of a family. In OpenMetrics a counter is named without its `_total`, and quotes in HELP are
    escaped too."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    if fmt is Format.OPENMETRICS:
        text = text.replace('"', '\\"')
        if kind == "counter":
            name = name.removesuffix("_total")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode()


class _Range(NamedTuple):
    """One element of an Accept or Accept-Encoding header, in lower case."""

    name: str
    params: dict[str, str]
    weight: float


def choose(accept: str) -> Format:
    """Return the format with the highest weight. Of equal ones, return the more exactly named one, then the text
    format.

    OpenMetrics is served as 1.0.0 to clients that accept 1.x or name no version. Offers of other versions (0.0.1, which
    Prometheus sends as a fallback) and of other types (protobuf) are ignored, and so is the `escaping` parameter.
    """
    ranges = _parse(accept)
    text = _best(ranges, Format.TEXT)
    openmetrics = _best(ranges, Format.OPENMETRICS)
    return Format.OPENMETRICS if openmetrics[0] > 0 and openmetrics > text else Format.TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the client gives gzip at least the weight of no coding. No header means no gzip."""
    weights: dict[str, float] = {}
    for coding in _parse(accept_encoding):
        name = "gzip" if coding.name == "x-gzip" else coding.name
        weights[name] = max(coding.weight, weights.get(name, 0.0))
    gzip = weights.get("gzip", weights.get("*", 0.0))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _best(ranges: list[_Range], fmt: Format) -> tuple[float, int]:
    """Weight of a format, and how exactly the range that gives it names the format. The most exact range decides, so
    that `text/plain;q=0, */*` excludes the text format."""
    naming = [(exactness, found.weight) for found in ranges if (exactness := _exactness(found, fmt))]
    exactness, weight = max(naming, default=(0, 0.0))
    return weight, exactness


def _exactness(found: _Range, fmt: Format) -> int:
    """Return how exactly a media range names the format; 0 if it does not."""
    full = fmt.content_type.split(";")[0]
    if found.name != full:
        return {"*/*": 1, full.split("/")[0] + "/*": 2}.get(found.name, 0)
    if found.params.get("charset", "utf-8") != "utf-8":
        return 0
    version = found.params.get("version")
    if version is None:
        return 3
    if version == ("1.0.0" if fmt is Format.OPENMETRICS else "0.0.4"):
        return 5
    return 4 if fmt is Format.OPENMETRICS and version.partition(".")[0] == "1" else 0


def _parse(header: str) -> list[_Range]:
    """Elements of the header. A weight that is not one is ignored; what follows a weight is an extension (RFC 7231)
    and ignored too."""
    found = []
    for element in header.lower().split(","):
        name, *fields = (field.strip() for field in element.split(";"))
        params: dict[str, str] = {}
        weight = 1.0
        for field in fields:
            key, _, value = (word.strip() for word in field.partition("="))
            if key == "q":
                if _WEIGHT.fullmatch(value):
                    weight = float(value)
                break
            params[key] = value.strip('"')
        found.append(_Range(name, params, weight))
    return found
