"""The state file that a config names, and whether it is ours to write."""

from __future__ import annotations

import threading
from pathlib import Path

from trainfleet_exporter.transport import Ownership


class StateFile:
    """`global.state_file`, or that there is none. Opening it takes it into possession where nobody else has it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._ownership = None if path is None else Ownership(path)
        self.released = threading.Event()

    @property
    def owned(self) -> bool:
        """Whether we keep it, rather than only read it."""
        return self._ownership is None or self._ownership.had

    def is_at(self, path: Path | None) -> bool:
        """Whether it is the file of this path, perhaps by another name of its folder."""
        if path is None or self.path is None:
            return path is self.path
        return path.name == self.path.name and path.parent.resolve() == self.path.parent.resolve()

    def release(self) -> None:
        """Leave it to others. More than once does no harm."""
        if self._ownership is not None:
            self._ownership.release()
        self.released.set()
