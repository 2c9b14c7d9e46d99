"""Columns of readings as the objects of the model that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainfleet_exporter.model import DeviceUsage, JobUsage, PodUsage, Readings, UsageValues


def objects(columns: Iterable[Any]) -> list[Any]:
    """An object for each reading, class by class; what is no column stays what it is."""
    found: list[Any] = []
    for column in columns:
        if not isinstance(column, Readings):
            found.append(column)
            continue
        make: Any = column.of
        for subject, value in zip(column.subjects, column.values, strict=True):
            if column.of is DeviceUsage:
                found.append(make(*subject.keys, **{column.field: value}))
                continue
            assert column.of in (JobUsage, PodUsage)
            given: dict[str, Any] = {column.field.removeprefix("values."): value}
            found.append(make(*subject.keys, UsageValues(accelerator=column.accelerator, **given)))
    return found
