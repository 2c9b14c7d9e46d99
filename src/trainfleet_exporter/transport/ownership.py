"""Which process keeps a file: one at a time, as long as it lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Ownership:
    """The right to write a file, had by whoever comes first, until `release` or the end of the process.

    It is a lock on a file beside it, because the file itself is replaced whole. Where that cannot be made, nobody is
    kept out: what writes the file will say why it cannot.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        self.had = True
        """Whether it is ours."""
        try:
            beside = path.with_name(f".{path.name}.lock")
            self._descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.had = False
            self.release()
        except OSError:
            self.release()

    def release(self) -> None:
        """Give it up. More than once does no harm."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
