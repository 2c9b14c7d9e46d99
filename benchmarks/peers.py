"""Servers for comparison with ours. Each is a separate process with the page that ours serves."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import held_port

from benchmarks.rig import DrivenExporter, Failed, Page, child, get, running

NGINX, PUSHGATEWAY = "nginx", "prometheus-pushgateway"
"""Names of programs."""
NGINX_FILES = "nginx, static files"
_START_SECONDS = 60.0
_RETRY_SECONDS = 0.05
_PUSH_SECONDS = 600.0
# Debian's own config, except for the log, the number of requests on a connection, and sendfile: without it, nginx sends
# a large file over loopback in a fifth less time.
_NGINX_CONFIG = """\
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


@dataclass(frozen=True, slots=True)
class Server:
    """A scraped server: its name, its port on the loopback address, and its processes."""

    name: str
    port: int
    pids: list[int]


def ours(process: DrivenExporter) -> Server:
    """Return our exporter as one of the servers."""
    return Server("trainfleet-exporter", process.port, [process.pid])


def missing(*programs: str) -> list[str]:
    """Return the programs that this machine does not have."""
    return [program for program in programs if shutil.which(program) is None]


def left_out(programs: Sequence[str]) -> list[str]:
    """Return notes about missing programs."""
    return [f"{program}: not on this machine, left out." for program in programs]


@contextmanager
def nginx(page: Page) -> Iterator[Server]:
    """Run nginx with the plain page and the gzip body as two files. It compresses nothing itself."""
    with tempfile.TemporaryDirectory() as name, held_port() as port:
        folder = Path(name)
        folder.chmod(0o755)  # if root starts it, its workers run as another user
        pages = folder / "pages"
        pages.mkdir()
        (pages / "metrics").write_bytes(page.plain)
        (pages / "metrics.gz").write_bytes(page.gzip)
        config, log = folder / "nginx.conf", folder / "nginx.log"
        config.write_text(_NGINX_CONFIG.format(folder=folder, port=port), encoding="utf-8")
        with running([NGINX, "-p", name, "-c", str(config), "-e", str(log)], log=log) as process:
            wait_for(f"http://127.0.0.1:{port}/metrics", process)
            workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
            yield Server(NGINX_FILES, port, [process.pid, *map(int, workers.split())])


@contextmanager
def pushgateway(page: Page) -> Iterator[Server]:
    """Run Pushgateway, and push the samples of the page to it."""
    with tempfile.TemporaryDirectory() as folder, held_port() as port:
        # Without a file: with Debian's default, it would start with the samples of an earlier run.
        command = [PUSHGATEWAY, f"--web.listen-address=127.0.0.1:{port}", "--persistence.file="]
        with running(command, log=Path(folder, "log")) as process:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/-/ready", process)
            push = urllib.request.Request(f"{url}/metrics/job/benchmark", page.of_clouds(), method="PUT")  # noqa: S310 - http
            with urllib.request.urlopen(push, timeout=_PUSH_SECONDS):  # noqa: S310 - http
                pass
            yield Server("Pushgateway", port, [process.pid])


@contextmanager
def prometheus_client(page: Page) -> Iterator[Server]:
    """Run prometheus-client's own server, with a gauge for each sample."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.txt")
        path.write_bytes(page.of_clouds())
        with child("client_server", path) as process:
            yield Server("prometheus-client", process.port, [process.pid])


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    """Wait until a started server responds. Raises Failed if it ends, or takes a minute."""
    latest = time.monotonic() + _START_SECONDS
    while True:
        try:
            get(url)
            return
        except (urllib.error.URLError, ConnectionError) as error:
            if process.poll() is not None or time.monotonic() > latest:
                raise Failed(f"{url}: {error}") from None
            time.sleep(_RETRY_SECONDS)
