"""The kept inputs of each fuzz target: one zip archive a target, the same bytes for the same inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

FOLDER = Path(__file__).parent / "corpus"
_UNDATED = (1980, 1, 1, 0, 0, 0)


def read_inputs(target: str) -> dict[str, bytes]:
    """Return the inputs of a target by name. A target without an archive has none."""
    path = FOLDER / f"{target}.zip"
    if not path.exists():
        return {}
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_inputs(target: str, inputs: Iterable[bytes]) -> None:
    """Replace the archive of a target. Each input is named by its hash, so that none is kept twice."""
    named = {hashlib.sha256(data).hexdigest()[:16]: data for data in inputs}
    FOLDER.mkdir(exist_ok=True)
    with ZipFile(FOLDER / f"{target}.zip", "w") as archive:
        for name in sorted(named):
            archive.writestr(ZipInfo(name, _UNDATED), named[name], ZIP_DEFLATED)
