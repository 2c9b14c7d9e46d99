"""Bodies: gzip equals plain in both formats, telemetry stands before the end, nothing is deflated twice."""

from __future__ import annotations

import gzip
import subprocess
import zlib

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import generate_latest as generate_text
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests.support.programs import need
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.page import Format, PageStore, Renderer, RenderSettings, blocks, deflate, zlib_crc
from trainfleet_exporter.page.blocks import CHUNK_BYTES
from trainfleet_exporter.page.deflate import Deflater

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
        monkeypatch.setattr(deflate, "codec", zlib)
        monkeypatch.setattr(blocks, "crc32_combine", zlib_crc.crc32_combine)
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


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.usefixtures("library")
def test_gzip_command_accepts_it(fmt: Format) -> None:
    command = need("gzip")
    store = example_store()
    store.put("large", {FAMILY: [(b"x" * 99 + b"\n") * (CHUNK_BYTES // 100)] * 2})
    zipped = get(store, fmt, zipped=True)
    subprocess.run([command, "-t"], input=zipped, check=True, capture_output=True)
    plain = subprocess.run([command, "-dc"], input=zipped, check=True, capture_output=True).stdout
    assert plain == get(store, fmt, zipped=False)


def test_the_gzip_header_says_nothing_but_deflate() -> None:
    header = get(PageStore(), Format.TEXT, zipped=True)[:10]
    assert header == bytes.fromhex("1f8b 08 00 00000000 00 ff")  # no flags, no time, unknown system


def test_it_is_one_gzip_member() -> None:
    inflater = zlib.decompressobj(31)
    plain = inflater.decompress(get(example_store(), Format.TEXT, zipped=True))
    assert inflater.eof
    assert inflater.unused_data == b""
    assert plain == get(example_store(), Format.TEXT, zipped=False)


def test_a_scrape_compresses_only_the_exporters_own_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    page = example_store().current()
    compressed: list[bytes] = []
    add = Deflater.add

    def watched(deflater: Deflater, data: bytes) -> None:
        compressed.append(data)
        add(deflater, data)

    monkeypatch.setattr(Deflater, "add", watched)
    for fmt in Format:
        page.body(fmt, OWN, gzip=True)
        page.body(fmt, OWN, gzip=False)
    assert compressed == [OWN + fmt.end for fmt in Format]


def test_telemetry_of_prometheus_client_stands_before_the_end() -> None:
    registry = CollectorRegistry()
    Counter("own_polls", "Polls.", registry=registry).inc()
    store = example_store()
    own: bytes = generate_openmetrics(registry)
    page = get(store, Format.OPENMETRICS, zipped=False, extra=own)
    assert page.count(b"# EOF\n") == 1
    names = {family.name for family in parse_openmetrics(page.decode())}
    assert {"own_polls", "trainfleet_job_restarts"} <= names
    assert b"own_polls_total 1.0\n" in get(store, Format.TEXT, zipped=False, extra=generate_text(registry))


def test_promtool_finds_nothing_wrong() -> None:
    command = need("promtool")
    page = get(example_store(), Format.TEXT, zipped=False)
    found = subprocess.run([command, "check", "metrics"], input=page, check=False, capture_output=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
