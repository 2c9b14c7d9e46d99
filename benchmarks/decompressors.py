"""Who can read our gzip body: Go's standard library, curl and Python, each compared with the plain page."""

from __future__ import annotations

import gzip
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers, processes
from benchmarks.report import Check, Found, Table

_SERIES = 100_000
_GO = Path(__file__).parent / "gunzip.go"
_TIMEOUT = 300.0
_METHOD = (
    "Each reads one gzip response (curl makes its own request). The result is compared with the plain page, without the "
    "exporter's own metrics, which differ in each scrape. Go reads it as one member, with nothing after it."
)


def run(*, short: bool = False) -> Iterator[Found]:
    """A table with a row for each, and what was promised."""
    del short  # it takes seconds
    lacking = peers.missing("go", "curl")
    with processes.ordered("benchmarks.server", str(_SERIES)) as ours:
        page = peers.page(ours.port)
        made = {"Python (gzip)": gzip.decompress(page.gzip)}
        if "curl" not in lacking:
            made["curl --compressed"] = _output(["curl", "-s", "--compressed", f"{ours.url}/metrics"])
    if "go" not in lacking:
        with tempfile.TemporaryDirectory() as folder:
            cache = {**os.environ, "GOCACHE": folder, "GOFLAGS": "", "GO111MODULE": "off"}
            made["Go (compress/gzip)"] = _output(["go", "run", str(_GO)], given=page.gzip, environment=cache)
    table = Table(f"Decompressors: {page.series():,} series", ("decompressor", "bytes", "equal to the plain page"))
    table.notes = [_METHOD, *(f"{program}: not on this machine, left out." for program in lacking)]
    expected = page.of_clouds()
    equal = {name: peers.Page(text, b"").of_clouds() == expected for name, text in made.items()}
    for name, text in made.items():
        table.rows.append((name, f"{len(text):,}", "yes" if equal[name] else "**no**"))
    yield table
    read = ", ".join(name for name, same in equal.items() if same)
    kept = None if lacking and all(equal.values()) else all(equal.values())
    yield Check("Go's, curl's and Python's decompressors accept the gzip body", f"equal by {read or 'none'}", kept)


def _output(command: list[str], *, given: bytes | None = None, environment: dict[str, str] | None = None) -> bytes:
    done = subprocess.run(  # noqa: S603 - commands of our own
        command, input=given, env=environment, capture_output=True, timeout=_TIMEOUT, check=False
    )
    if done.returncode:
        raise processes.Failed(f"{command[0]}: {done.stderr.decode(errors='replace')[:200]}")
    return done.stdout
