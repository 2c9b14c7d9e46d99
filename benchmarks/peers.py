"""Servers that serve the samples of a page, to compare ours with: nginx, Pushgateway and prometheus-client."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import held_port

from benchmarks.rig import Failed, Page, child, get, running

NGINX, PUSHGATEWAY, CLIENT = "nginx", "Pushgateway", "prometheus-client"
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
class Peer:
    """A server with /metrics: its port and its processes."""

    port: int
    pids: list[int]


@contextmanager
def peers(page: Page) -> Iterator[dict[str, Peer]]:
    """Run the servers whose programs are installed."""
    made = {NGINX: (_nginx, "nginx"), PUSHGATEWAY: (_pushgateway, "prometheus-pushgateway"), CLIENT: (_client, "")}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(run(page))
            for name, (run, program) in made.items()
            if not program or shutil.which(program)
        }


@contextmanager
def _nginx(page: Page) -> Iterator[Peer]:
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
        with running(["nginx", "-p", name, "-c", str(config), "-e", str(log)], log=log) as process:
            wait_for(f"http://127.0.0.1:{port}/metrics", process)
            workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
            yield Peer(port, [process.pid, *map(int, workers.split())])


@contextmanager
def _pushgateway(page: Page) -> Iterator[Peer]:
    """Run Pushgateway, and push the samples of the page to it."""
    with tempfile.TemporaryDirectory() as folder, held_port() as port:
        # Without a file: with Debian's default, it would start with the samples of an earlier run.
        command = ["prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{port}", "--persistence.file="]
        with running(command, log=Path(folder, "log")) as process:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/-/ready", process)
            get(f"{url}/metrics/job/benchmark", page.of_clouds(), timeout=_PUSH_SECONDS, method="PUT")
            yield Peer(port, [process.pid])


@contextmanager
def _client(page: Page) -> Iterator[Peer]:
    """Run prometheus-client's own server, with a gauge for each sample."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.txt")
        path.write_bytes(page.of_clouds())
        with child("client_server", path) as process:
            yield Peer(process.port, [process.pid])


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
