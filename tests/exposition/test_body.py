"""Bodies: gzip equals plain in both formats, telemetry stands before the end, nothing is deflated twice."""

from __future__ import annotations

import asyncio
import gzip
import io
import subprocess
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from tests.support.programs import need
from trainfleet_exporter.exposition import snapshot as snapshot_module
from trainfleet_exporter.exposition.board import Board
from trainfleet_exporter.exposition.body import body
from trainfleet_exporter.exposition.formats import Format
from trainfleet_exporter.exposition.piece import PIECE_LIMIT, Piece
from trainfleet_exporter.exposition.render import Renderer, RenderSettings
from trainfleet_exporter.exposition.snapshot import Deflated
from trainfleet_exporter.families import FAMILIES

from .examples import EXAMPLES
from .reading import parse_openmetrics

OWN = b"# HELP own x\n# TYPE own gauge\nown 1\n"
FAMILY = FAMILIES[1].name


def get(board: Board, fmt: Format, *, zipped: bool, extra: bytes = OWN) -> bytes:
    return b"".join(asyncio.run(body(board.snapshot(), fmt, gzip=zipped, extra=extra)))


def example_board() -> Board:
    board = Board()
    renderer = Renderer(RenderSettings())
    for name, found in EXAMPLES.items():
        board.put(name, renderer.render("p", found))
    return board


class Deflations:
    """Counts what is handed to zlib."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = zlib.compressobj

        def counting(*args: Any) -> Any:
            self.count += 1
            return real(*args)

        monkeypatch.setattr(zlib, "compressobj", counting)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("extra", [b"", OWN])
def test_gzip_equals_plain(fmt: Format, extra: bytes) -> None:
    for board in (Board(), example_board()):
        plain = get(board, fmt, zipped=False, extra=extra)
        zipped = get(board, fmt, zipped=True, extra=extra)
        assert gzip.decompress(zipped) == plain
        assert plain.endswith(extra + fmt.end)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=400)), max_size=15), st.sampled_from(Format))
def test_gzip_equals_plain_whatever_is_put(sequence: list[tuple[int, bytes]], fmt: Format) -> None:
    board = Board(limit=500)
    for part, text in sequence:
        board.put(part, {FAMILY: [text]})
        reader = gzip.GzipFile(fileobj=io.BytesIO(get(board, fmt, zipped=True)))
        assert reader.read() == get(board, fmt, zipped=False)


@pytest.mark.parametrize("fmt", Format)
def test_gzip_command_accepts_it(fmt: Format) -> None:
    command = need("gzip")
    board = example_board()
    board.put("large", {FAMILY: [(b"x" * 99 + b"\n") * (PIECE_LIMIT // 100)] * 2})
    zipped = get(board, fmt, zipped=True)
    subprocess.run([command, "-t"], input=zipped, check=True, capture_output=True)
    plain = subprocess.run([command, "-dc"], input=zipped, check=True, capture_output=True).stdout
    assert plain == get(board, fmt, zipped=False)


def test_it_is_one_gzip_member() -> None:
    inflater = zlib.decompressobj(31)
    plain = inflater.decompress(get(example_board(), Format.TEXT, zipped=True))
    assert inflater.eof
    assert inflater.unused_data == b""
    assert plain == get(example_board(), Format.TEXT, zipped=False)


def test_only_the_changed_chunk_is_deflated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    deflations = Deflations(monkeypatch)
    board = Board(limit=1000)
    for part in range(100):
        board.put(part, {FAMILY: [b"%099d\n" % part]})
    get(board, Format.TEXT, zipped=True)
    assert deflations.taken() == 10 + 1 + 1  # chunks, head, telemetry
    get(board, Format.TEXT, zipped=True)
    assert deflations.taken() == 1  # telemetry is made at each scrape
    board.put(55, {FAMILY: [b"%099d\n" % 1055]})
    get(board, Format.TEXT, zipped=True)
    assert deflations.taken() == 1 + 1
    get(board, Format.OPENMETRICS, zipped=True)
    assert deflations.taken() == 1 + 1  # the head of the other format; samples are shared
    board.put(55, {FAMILY: [b"%099d\n" % 1055]})
    get(board, Format.TEXT, zipped=True)
    assert deflations.taken() == 1  # the same samples again are no change


def test_scrapes_at_once_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    board = example_board()
    deflations = Deflations(monkeypatch)
    joined: list[Deflated] = []
    join = snapshot_module._joined

    def watched(parts: list[Piece]) -> Deflated:
        joined.append(join(parts))
        return joined[-1]

    monkeypatch.setattr(snapshot_module, "_joined", watched)

    async def scrape_together() -> list[list[bytes]]:
        snapshot = board.snapshot()
        return await asyncio.gather(*[body(snapshot, Format.TEXT, gzip=True, extra=b"") for _ in range(5)])

    bodies = asyncio.run(scrape_together())
    assert all(found == bodies[0] for found in bodies)
    families = b"".join(board.snapshot().pieces(Format.TEXT)).count(b"# TYPE ")
    assert len(joined) == 1
    assert deflations.taken() == 2 * families + 5  # each head and each chunk once, each scrape's end


def test_a_scrape_that_gives_up_does_not_harm_the_next() -> None:
    board = example_board()

    async def run() -> bytes:
        snapshot = board.snapshot()
        gone = asyncio.create_task(body(snapshot, Format.TEXT, gzip=True, extra=b""))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return b"".join(await body(snapshot, Format.TEXT, gzip=True, extra=b""))

    assert gzip.decompress(asyncio.run(run())) == get(board, Format.TEXT, zipped=False, extra=b"")


def test_telemetry_of_prometheus_client_stands_before_the_end() -> None:
    registry = CollectorRegistry()
    Counter("own_polls", "Polls.", registry=registry).inc()
    board = example_board()
    own: bytes = generate_openmetrics(registry)
    page = get(board, Format.OPENMETRICS, zipped=False, extra=own)
    assert page.count(b"# EOF\n") == 1
    names = {family.name for family in parse_openmetrics(page.decode())}
    assert {"own_polls", "trainfleet_job_restarts"} <= names
    assert b"own_polls_total 1.0\n" in get(board, Format.TEXT, zipped=False, extra=generate_text(registry))


def test_an_empty_page_has_its_end_only() -> None:
    assert get(Board(), Format.TEXT, zipped=False, extra=b"") == b""
    assert get(Board(), Format.OPENMETRICS, zipped=False, extra=b"") == b"# EOF\n"
    assert gzip.decompress(get(Board(), Format.TEXT, zipped=True, extra=b"")) == b""


def test_promtool_finds_nothing_wrong() -> None:
    command = need("promtool")
    page = get(example_board(), Format.TEXT, zipped=False)
    found = subprocess.run([command, "check", "metrics"], input=page, check=False, capture_output=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
