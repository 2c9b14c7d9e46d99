"""The record of a lease, and the operations of a place that stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Record:
    """A lease as it was read or written."""

    holder: str = ""
    """The identity of the exporter that polls; empty if the lease was released, or never held."""
    term: int = 0
    """How many times exporters have begun to hold it; 0 if the record is new."""
    version: str = ""
    """Different after each write; empty if there is no record."""


class LeaseStore(Protocol):
    """The store of a lease. Calls may take any time. The caller limits it by cancelling them."""

    async def read(self) -> Record:
        """Read the record. LeaseUnavailable if that is not possible."""
        ...

    async def create(self) -> None:
        """Make a record without a holder, if there is none. LeaseConflict if there is one."""
        ...

    async def write(self, seen: Record, holder: str, term: int) -> Record:
        """Replace the record `seen` and return the new one. LeaseConflict if it is another one by now.

        After LeaseUnavailable, or if the call is cancelled, it may have been replaced or may still be.
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...
