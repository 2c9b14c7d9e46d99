"""The gzipped answer as others read it: curl, gzip, and Python, whole and with nothing after its end.

What they read is compared with what the page store shows. Go's reader is Prometheus's (test_prometheus.py).
"""

from __future__ import annotations

import gzip
import socket
import subprocess
import zlib
from collections.abc import Callable, Iterator

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from tests.support.programs import need
from trainfleet_exporter.exposition import Format, PageStore, Renderer, RenderSettings
from trainfleet_exporter.exposition.blocks import CHUNK_BYTES
from trainfleet_exporter.model import Job
from trainfleet_exporter.telemetry import Telemetry
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.listeners import listen
from trainfleet_exporter.web.pages import Pages
from trainfleet_exporter.web.server import WebServer

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
ACCEPTED = {Format.TEXT: "text/plain", Format.OPENMETRICS: OPENMETRICS}
Read = Callable[[str, str], bytes]


@pytest.fixture(scope="module")
def page_store() -> PageStore:
    """A page of some 5 MB, of which some families are small."""
    store, renderer = PageStore(), Renderer(RenderSettings())
    for part in range(5):
        jobs = [Job(job_id=f"j{part}-{n}", name=f"größe {n}", duration=n / 7) for n in range(part * 1000, 4000)]
        store.put(part, renderer.render("p", jobs).lines)
    assert store.current().body(Format.TEXT, b"", gzip=False).size > 2 * CHUNK_BYTES
    return store


@pytest.fixture(scope="module")
def url(page_store: PageStore) -> Iterator[str]:
    """Where it is served, from a thread."""
    sockets: list[socket.socket] = listen("127.0.0.1:0")
    telemetry = Telemetry()
    page_store.standing = telemetry.standing
    pages = Pages(page_store=page_store, telemetry=telemetry)
    with start_blocking_portal() as portal:
        server = WebServer(make_app(pages), sockets)
        portal.call(server.start)
        yield f"http://{server.addresses[0]}/metrics"
        portal.call(server.stop)


def raw(url: str, accept: str) -> bytes:
    """The answer as it is on the wire."""
    with httpx.stream("GET", url, headers={"accept": accept, "accept-encoding": "gzip"}, trust_env=False) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        found = b"".join(answer.iter_raw())
    assert len(found) == int(answer.headers["content-length"])
    return found


def by_curl(url: str, accept: str) -> bytes:
    command = [need("curl"), "--silent", "--show-error", "--fail", "--compressed", "--noproxy", "*"]
    asked = ["--header", f"Accept: {accept}", "--header", "Accept-Encoding: gzip", url]
    return subprocess.run([*command, *asked], check=True, capture_output=True).stdout


def by_gzip_command(url: str, accept: str) -> bytes:
    done = subprocess.run([need("gzip"), "-dc"], input=raw(url, accept), check=True, capture_output=True)
    assert done.stderr == b""  # as of bytes after its end
    return done.stdout


def by_httpx(url: str, accept: str) -> bytes:
    answer = httpx.get(url, headers={"accept": accept, "accept-encoding": "gzip"}, trust_env=False)
    return answer.raise_for_status().content


def by_gzip_module(url: str, accept: str) -> bytes:
    return gzip.decompress(raw(url, accept))


def by_zlib(url: str, accept: str) -> bytes:
    inflater = zlib.decompressobj(31)
    found = inflater.decompress(raw(url, accept))
    assert inflater.eof
    assert inflater.unused_data == b""
    return found


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("read", [by_curl, by_gzip_command, by_httpx, by_gzip_module, by_zlib])
def test_it_is_read_whole(read: Read, fmt: Format, url: str, page_store: PageStore) -> None:
    shown = page_store.current().body(fmt, b"", gzip=False).joined().removesuffix(fmt.end)
    found = read(url, ACCEPTED[fmt])
    own = found.removeprefix(shown)
    assert len(own) == len(found) - len(shown)
    assert own.startswith(b"# HELP ")
    assert own.endswith(fmt.end or b"\n")
