"""The two formats of an exposition page. Sample lines are the same bytes in both; heads and the page's end differ."""

from __future__ import annotations

from enum import Enum


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
