"""The things that bulk readings are of, each one object for as long as whoever reads them keeps these."""

from __future__ import annotations

from trainfleet_exporter.model import Subject


class Subjects:
    """Subjects, by what names them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], Subject] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, keys: tuple[str, ...]) -> Subject:
        """The subject that is so called; a new one the first time."""
        found = self._known.get(keys)
        if found is None:
            found = self._known[keys] = Subject(keys)
        return found
