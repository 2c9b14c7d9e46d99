"""Where in a document the figures of a measurement stand."""

from __future__ import annotations

from pathlib import Path

_BEGIN, _END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def write_measured(document: Path, made: str) -> None:
    """Put what was measured in place of what was measured before."""
    text = document.read_text(encoding="utf-8")
    before, after = text.partition(_BEGIN)[0], text.partition(_END)[2]
    document.write_text(f"{before}{_BEGIN}\n{made}\n{_END}{after}", encoding="utf-8")
