"""Whose turn it is: where not all parts of a sweep fit into one poll, all of them are read in turn."""

from __future__ import annotations

from collections.abc import Iterable


class Turns:
    """Remembers when each part of one sweep was last read."""

    def __init__(self) -> None:
        self._poll = 0
        self._read: dict[str, int] = {}
        """By part, the number of the poll that read it last."""

    def order(self, keys: Iterable[str]) -> list[str]:
        """The parts of a poll that begins now, those first that were not read for longest; others are forgotten."""
        self._poll += 1
        wanted = list(keys)
        self._read = {key: self._read[key] for key in wanted if key in self._read}
        return sorted(wanted, key=lambda key: self._read.get(key, 0))

    def read(self, keys: Iterable[str]) -> None:
        """These were read in this poll."""
        self._read |= dict.fromkeys(keys, self._poll)

    def has_read(self, keys: Iterable[str]) -> bool:
        """Whether this poll has read all of these."""
        return all(self._read.get(key) == self._poll for key in keys)
