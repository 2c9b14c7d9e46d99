"""A reader of exposition pages: see trainfleet_exporter.testing.reading."""

from trainfleet_exporter.testing.reading import (
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
