"""Bodies: gzip equals plain in both formats, telemetry stands before the end, nothing is deflated twice."""

from __future__ import annotations

import gzip
import zlib

import pytest

from trainfleet_exporter.exposition import Format, PageStore, Renderer, RenderSettings, blocks
from trainfleet_exporter.families import FAMILIES

from .examples import EXAMPLES

OWN = b"# HELP own x\n# TYPE own gauge\nown 1\n"
FAMILY = FAMILIES[1].name


def get(page_store: PageStore, fmt: Format, *, zipped: bool, extra: bytes = OWN) -> bytes:
    body = page_store.current().body(fmt, extra, gzip=zipped)
    assert len(body.joined()) == body.size
    return body.joined()


def example_store() -> PageStore:
    store = PageStore()
    renderer = Renderer(RenderSettings())
    for name, found in EXAMPLES.items():
        store.put(name, renderer.render("p", found).lines)
    return store


@pytest.fixture(params=["isal", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compresses by one library or the other."""
    if request.param == "zlib":
        monkeypatch.setattr(blocks, "codec", zlib)
    return str(request.param)


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("extra", [b"", OWN])
@pytest.mark.usefixtures("library")
def test_gzip_equals_plain(fmt: Format, extra: bytes) -> None:
    for store in (PageStore(), example_store()):
        plain = get(store, fmt, zipped=False, extra=extra)
        zipped = get(store, fmt, zipped=True, extra=extra)
        assert gzip.decompress(zipped) == plain
        assert plain.endswith(extra + fmt.end)


def test_the_gzip_header_says_nothing_but_deflate() -> None:
    header = get(PageStore(), Format.TEXT, zipped=True)[:10]
    assert header == bytes.fromhex("1f8b 08 00 00000000 00 ff")  # no flags, no time, unknown system


def test_a_scrape_compresses_only_the_exporters_own_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    page = example_store().current()
    compressed: list[bytes] = []
    of = blocks.Block.of

    def watched(texts: tuple[bytes, ...], *, last: bool) -> blocks.Block:
        compressed.append(b"".join(texts))
        return of(texts, last=last)

    monkeypatch.setattr(blocks.Block, "of", watched)
    for fmt in Format:
        page.body(fmt, OWN, gzip=True)
        page.body(fmt, OWN, gzip=False)
    assert compressed == [OWN + fmt.end for fmt in Format]
