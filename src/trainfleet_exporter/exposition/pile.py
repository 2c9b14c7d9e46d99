"""The lines of one family while they are rendered, packed into pieces as they come."""

from __future__ import annotations

from trainfleet_exporter.exposition.piece import PIECE_LIMIT


class Pile:
    """Takes lines, and gives them back in pieces of at most 1 MB that end with a line (a single longer line apart)."""

    __slots__ = ("_packed", "_pieces", "_size", "lines")

    def __init__(self) -> None:
        self.lines: list[str] = []
        """What has come since it was last packed."""
        self._packed: list[bytes] = []
        self._size = 0
        self._pieces: list[bytes] = []

    def pack(self) -> None:
        """Turns the lines at hand into bytes. Called once a slice, so that no slice ends in one long join."""
        data = "".join(self.lines).encode()
        self.lines.clear()
        if self._size + len(data) > PIECE_LIMIT:
            self._close()
        start = 0
        while len(data) - start > PIECE_LIMIT:
            end = data.rfind(b"\n", start, start + PIECE_LIMIT) + 1
            if not end:  # one line longer than a piece: it cannot be cut
                end = data.index(b"\n", start) + 1
            self._pieces.append(data[start:end])
            start = end
        self._packed.append(data[start:] if start else data)
        self._size += len(data) - start

    def finish(self) -> list[bytes]:
        """All pieces."""
        self._close()
        return self._pieces

    def _close(self) -> None:
        if self._size:
            self._pieces.append(b"".join(self._packed))
        self._packed = []
        self._size = 0
