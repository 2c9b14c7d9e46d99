"""Servers that ours is measured beside, each with the very page that ours serves, in processes of their own."""

from __future__ import annotations

import http.client
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import held_port

from benchmarks.processes import Failed, ordered, running, with_children

_PATIENCE = 60.0
"""Seconds that a server has to begin in."""
_TURN = 0.05
_PUSH_TIMEOUT = 600.0
_OURSELVES = b"# HELP trainfleet_provider_up "
"""How the part of a page begins that the exporter tells about itself."""

_NGINX = """\
worker_processes auto;
daemon off;
pid {folder}/nginx.pid;
events {{ worker_connections 768; }}
http {{
  sendfile off;
  tcp_nopush on;
  access_log off;
  keepalive_requests 1000000;
  gzip_static on;
  types {{}}
  default_type "text/plain; version=0.0.4; charset=utf-8";
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}/pages; }}
}}
"""
"""As Debian's own config, but for the log; for how many requests a connection may bring; and for sendfile, without
which nginx sends a large file over loopback in a fifth less time."""


@dataclass(frozen=True, slots=True)
class Server:
    """What is scraped: where it listens, and the processes that it is."""

    name: str
    port: int
    pids: list[int]


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of ours, plain and gzip."""

    plain: bytes
    gzip: bytes

    def of_clouds(self) -> bytes:
        """The page without what the exporter tells about itself: samples that anybody may push."""
        return self.plain[: self.plain.index(_OURSELVES)]

    def series(self) -> int:
        """Number of sample lines."""
        return self.plain.count(b"\n") - self.plain.count(b"\n# ") - self.plain.startswith(b"# ")


def fetch(port: int, *, gzip: bool) -> bytes:
    """The body of one scrape as it is sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    try:
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"} if gzip else {})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise Failed(f"/metrics: {answer.status}")
        return answer.read()
    finally:
        connection.close()


def page(port: int) -> Page:
    """What our server sends now."""
    return Page(fetch(port, gzip=False), fetch(port, gzip=True))


def missing(*programs: str) -> list[str]:
    """Those of the programs that this machine does not have."""
    return [program for program in programs if shutil.which(program) is None]


@contextmanager
def nginx(found: Page, folder: Path) -> Iterator[Server]:
    """nginx, with the page and the gzip body as two files, neither of which it deflates itself."""
    pages = folder / "pages"
    pages.mkdir()
    (pages / "metrics").write_bytes(found.plain)
    (pages / "metrics.gz").write_bytes(found.gzip)
    folder.chmod(0o755)  # its workers run as somebody else where it is started by root
    with held_port() as port:
        config = folder / "nginx.conf"
        config.write_text(_NGINX.format(folder=folder, port=port), encoding="utf-8")
        log = folder / "nginx.log"
        with running(["nginx", "-p", str(folder), "-c", str(config), "-e", str(log)], log=log) as process:
            wait_for(f"http://127.0.0.1:{port}/metrics", process.poll)
            yield Server("nginx, static files", port, with_children(process.pid))


@contextmanager
def pushgateway(found: Page, folder: Path) -> Iterator[Server]:
    """Pushgateway, to which the samples of the page were pushed."""
    with held_port() as port:
        # Without a file: Debian's has one by default, and would begin with what was pushed by whoever ran it last.
        command = ["prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{port}", "--persistence.file="]
        with running(command, log=folder / "pushgateway.log") as process:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/-/ready", process.poll)
            push = urllib.request.Request(f"{url}/metrics/job/benchmark", found.of_clouds(), method="PUT")  # noqa: S310 - http
            with urllib.request.urlopen(push, timeout=_PUSH_TIMEOUT):  # noqa: S310 - http
                pass
            yield Server("Pushgateway", port, [process.pid])


@contextmanager
def prometheus_client(found: Page, folder: Path) -> Iterator[Server]:
    """prometheus-client's own server, with a gauge for each sample."""
    path = folder / "samples.txt"
    path.write_bytes(found.of_clouds())
    with ordered("benchmarks.client_server", str(path)) as program:
        yield Server("prometheus-client", program.port, [program.pid])


def wait_for(url: str, ended: Callable[[], int | None]) -> None:
    """Until a server that just began answers. Raises Failed where `ended` tells an exit code, or it takes too long."""
    latest = time.monotonic() + _PATIENCE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=_PATIENCE):  # noqa: S310 - http
                return
        except (urllib.error.URLError, ConnectionError) as error:
            if ended() is not None or time.monotonic() > latest:
                raise Failed(f"{url}: {error}") from None
            time.sleep(_TURN)
