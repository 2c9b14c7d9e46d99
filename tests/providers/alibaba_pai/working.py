"""Sliced work, done without its pauses."""

from __future__ import annotations

from typing import TypeVar

from trainfleet_exporter.providers.alibaba_pai.columns import Sliced

T = TypeVar("T")


def at_once(work: Sliced[T]) -> T:
    """Do all of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
