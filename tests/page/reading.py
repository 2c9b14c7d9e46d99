"""A reader of exposition pages: see trainfleet_conformance.page."""

from trainfleet_conformance.page import (
    Sample,
    joined,
    lines_by_family,
    parse_openmetrics,
    parse_text,
    sample,
    samples,
    total,
)

__all__ = ["Sample", "joined", "lines_by_family", "parse_openmetrics", "parse_text", "sample", "samples", "total"]
