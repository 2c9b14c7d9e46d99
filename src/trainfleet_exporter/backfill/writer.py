"""A day as a file: OpenMetrics with timestamps, by family, series and time. A file is written completely or not at all.

https://prometheus.io/docs/prometheus/latest/storage/#backfilling-from-openmetrics-format
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from trainfleet_exporter.backfill.spool import SampleRun
from trainfleet_exporter.families import MetricFamily
from trainfleet_exporter.page.formats import Format, head
from trainfleet_exporter.page.text import format_value
from trainfleet_exporter.providers.history import seconds_after

_WRITE_BUFFER = 1024 * 1024


def write_day(path: Path, pieces: Iterable[SampleRun], families: Sequence[MetricFamily]) -> int:
    """Write or replace a file; return its number of samples. Raises OSError.

    The pieces are sorted by family, series and time. `families` is the table of their places. If samples share a series
    and a time, the first counts.
    """
    draft = path.with_name(f".{path.name}.part")
    samples = 0
    with draft.open("wb", buffering=_WRITE_BUFFER) as file:
        for lines, count in _lines(pieces, families):
            file.write(lines)
            samples += count
        file.write(Format.OPENMETRICS.end)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # keeps the new name after a loss of power
    finally:
        os.close(folder)
    return samples


def _lines(pieces: Iterable[SampleRun], families: Sequence[MetricFamily]) -> Iterator[tuple[bytes, int]]:
    place, series, last = -1, None, -1
    for piece in pieces:
        if piece.series.family != place:
            place = piece.series.family
            yield head(families[place], Format.OPENMETRICS), 0
        if piece.series != series:
            series, last = piece.series, -1
        begin = f"{families[place].name}{{{piece.series.labels}}} "
        lines = []
        for when, value in _samples(piece):
            if when > last:
                last = when
                lines.append(f"{begin}{value} {when}\n")
        yield "".join(lines).encode(), len(lines)


def _samples(piece: SampleRun) -> Iterator[tuple[int, str]]:
    if piece.points is None:
        if piece.start < piece.end:
            yield piece.start, piece.value
        for when in range(seconds_after(piece.start + 1, piece.step), piece.end, piece.step):
            yield when, piece.value
        return
    for when, number in zip(*piece.points, strict=True):
        yield when, format_value(number)
