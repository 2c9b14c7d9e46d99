"""A reader of exposition pages: see trainfleet_conformance.page."""

from __future__ import annotations

from trainfleet_conformance.page import (
    Sample,
    check,
    check_both,
    joined,
    parse_openmetrics,
    parse_text,
    sample,
    samples,
    total,
)

__all__ = [
    "Sample",
    "check",
    "check_both",
    "joined",
    "lines_by_family",
    "parse_openmetrics",
    "parse_text",
    "sample",
    "samples",
    "total",
]


def lines_by_family(page: bytes) -> dict[str, list[bytes]]:
    """Group sample lines by the family in the HELP and TYPE lines before them. Fails if a family appears twice, has no
    samples, or has samples of another family."""
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
