"""The things that one provider's bulk readings are of, each one object from its first reading to the end of its job."""

from __future__ import annotations

from collections.abc import Callable

from trainfleet_exporter.model import Subject


class Subjects:
    """The subjects of one class, by what names them."""

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

    def keep_if(self, alive: Callable[[str], bool]) -> None:
        """Forget the subjects of jobs (or pools) that are no more. Who still holds one may go on to use it."""
        gone = [keys for keys in self._known if not alive(keys[0])]
        for keys in gone:
            del self._known[keys]
