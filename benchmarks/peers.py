"""Ours next to other programs: scrapes of nginx, Pushgateway and prometheus-client, and lists by the vendor's SDK."""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import held_port

from benchmarks import rig
from benchmarks.report import Check, Found, Table, megabytes, milliseconds, number, spread
from benchmarks.rig import Failed, Page, Scrape, Scraper, child, get, running

_SDK = "alibabacloud_pai_dlc20201203"
_LARGEST = 8_000
_ROUNDS = {8: 501, 80: 201, 800: 101, _LARGEST: 31}
"""By the number of jobs. The largest page has a million series."""
_PODS = 8
_WARM_UPS = 2
_LISTED, _SHORT_LISTED, _LIST_ROUNDS = 10_000, 1_000, 7
"""Jobs of the lists, and how often each client reads them."""
_TIMES_FASTER = 1.3
_MEMORY_SHARE = 0.4
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
_METHOD = (
    "All servers hold the same samples and run at the same time. Cells show medians (10th to 90th percentile).",
    (
        "In each round, one reader scrapes each server once, in a new order, after one or two scrapes to warm up. The"
        " reader scrapes Pushgateway only in every third round, and prometheus-client in every fifteenth."
    ),
    (
        "`times ours` is the median ratio of a scrape to our scrape in the same round, to the last byte. For "
        "Pushgateway and prometheus-client, it is the ratio to our median."
    ),
    "CPU time covers all processes of a server, user and system, over its scrapes.",
    (
        "nginx sends a plain and a gzipped file. nginx runs with sendfile off, because it sends files faster over "
        "loopback without sendfile. The memory of nginx does not include the files, because the kernel caches them."
    ),
)
_COLUMNS = (
    *("server", "scrapes", "head, ms", "last byte, ms", "times ours", "CPU a scrape, ms", "resident, MiB"),
    "body",
)


@dataclass(slots=True)
class _Server:
    """A scraped server: its port, its processes, and its scrapes by round.

    It is scraped once in `every` rounds. Three scrapes of ten seconds are as good as thirty of one second.
    """

    name: str
    port: int
    pids: list[int]
    every: int = 1
    scrapes: dict[int, Scrape] = field(default_factory=dict)
    cpu: float = 0.0

    def seconds(self) -> list[float]:
        return [scrape.whole for scrape in self.scrapes.values()]

    def relative_to(self, other: _Server) -> list[float]:
        """Return ratios of scrapes to the other's in the same rounds, or to its median if one of them has fewer
        scrapes."""
        if self.every != other.every:
            middle = statistics.median(other.seconds())
            return [seconds / middle for seconds in self.seconds()]
        return [own / others for own, others in zip(self.seconds(), other.seconds(), strict=True)]


@contextmanager
def _nginx(page: Page) -> Iterator[_Server]:
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
            yield _Server("nginx", port, [process.pid, *map(int, workers.split())])


@contextmanager
def _pushgateway(page: Page) -> Iterator[_Server]:
    """Run Pushgateway, and push the samples of the page to it."""
    with tempfile.TemporaryDirectory() as folder, held_port() as port:
        # Without a file: with Debian's default, it would start with the samples of an earlier run.
        command = ["prometheus-pushgateway", f"--web.listen-address=127.0.0.1:{port}", "--persistence.file="]
        with running(command, log=Path(folder, "log")) as process:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/-/ready", process)
            get(f"{url}/metrics/job/benchmark", page.of_clouds(), timeout=_PUSH_SECONDS, method="PUT")
            yield _Server("Pushgateway", port, [process.pid], every=3)


@contextmanager
def _prometheus_client(page: Page) -> Iterator[_Server]:
    """Run prometheus-client's own server, with a gauge for each sample."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.txt")
        path.write_bytes(page.of_clouds())
        with child("client_server", path) as process:
            yield _Server("prometheus-client", process.port, [process.pid], every=15)


_PEERS: Mapping[str, Callable[[Page], AbstractContextManager[_Server]]] = {
    "nginx": _nginx,
    "prometheus-pushgateway": _pushgateway,
    "python3": _prometheus_client,
}
"""By the program that each needs."""


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


def scrapes(short: bool, old: Path | None = None) -> Iterator[Found]:
    """Yield a table for each size and encoding, and the promises for the largest size. `short` omits the largest. `old`
    is another checkout, which is one of the servers."""
    for jobs, rounds in _ROUNDS.items():
        if short and jobs == _LARGEST:
            continue
        with ExitStack() as stack:
            checkouts = {"trainfleet-exporter": rig.ROOT, **({"before": old} if old else {})}
            exporters = stack.enter_context(rig.exporters(jobs, _PODS, list(checkouts.values())))
            for each in exporters:
                each.command("sweep")
            page = rig.page(exporters[0].port)
            present = [make for program, make in _PEERS.items() if shutil.which(program)]
            peers = [stack.enter_context(make(page)) for make in present]
            for gzip in (False, True):
                ours = [_Server(name, each.port, [each.pid]) for name, each in zip(checkouts, exporters, strict=True)]
                servers = [*ours, *(_Server(each.name, each.port, each.pids, each.every) for each in peers)]
                _measure(servers, rounds, gzip=gzip)
                yield _table(page, servers, gzip=gzip)
                if jobs == _LARGEST:
                    yield from _promises({server.name: server for server in servers}, gzip=gzip)


def _measure(servers: list[_Server], rounds: int, *, gzip: bool) -> None:
    with ExitStack() as stack:
        asked = [(one, stack.enter_context(Scraper(one.port, gzip=gzip))) for one in servers]
        for one, scraper in asked:
            for _ in range(min(_WARM_UPS, rounds // one.every)):
                scraper.scrape()
        before = [rig.cpu_seconds(one.pids) for one in servers]
        for turn in range(rounds):
            first = turn % len(asked)
            sequence = asked[first:] + asked[:first]
            for one, scraper in sequence[:: -1 if turn // len(asked) % 2 else 1]:
                if turn % one.every == 0:
                    one.scrapes[turn] = scraper.scrape()
        for one, used in zip(servers, before, strict=True):
            one.cpu = (rig.cpu_seconds(one.pids) - used) / len(one.scrapes)


def _table(page: Page, servers: list[_Server], *, gzip: bool) -> Table:
    table = Table(f"Scrape, {'gzip' if gzip else 'plain'}: {page.series():,} series", _COLUMNS)
    table.notes = [*_METHOD, *(f"{name} is missing, left out." for name in _PEERS if shutil.which(name) is None)]
    for one in servers:
        scrapes = list(one.scrapes.values())
        table.rows.append(
            (
                one.name,
                str(len(scrapes)),
                milliseconds([scrape.first for scrape in scrapes]),
                milliseconds(one.seconds()),
                "1" if one is servers[0] else spread(one.relative_to(servers[0])),
                number(one.cpu * 1e3),
                number(rig.resident(one.pids)),
                megabytes(scrapes[-1].size),
            )
        )
    return table


def _promises(servers: Mapping[str, _Server], *, gzip: bool) -> Iterator[Check]:
    ours = servers["trainfleet-exporter"]
    nginx, pushgateway = servers.get("nginx"), servers.get("Pushgateway")
    promise = "plain scrape of 1 M series <= 1.3 x nginx's"
    if gzip:
        promise = "gzip scrape of 1 M series <= 2 x nginx's ready-made file, or within 2 ms of it"
    if nginx is None:
        yield Check(promise, "nginx is missing", None)
    else:
        ratio = statistics.median(ours.relative_to(nginx))
        more = statistics.median(ours.seconds()) - statistics.median(nginx.seconds())
        kept = ratio <= 2 or more <= 0.002 if gzip else ratio <= 1.3
        yield Check(promise, f"{number(ratio)} x, {number(more * 1e3)} ms more", kept)
    if gzip:
        promise = f"resident memory with 1 M series <= {_MEMORY_SHARE} x Pushgateway's"
        share = None if pushgateway is None else rig.resident(ours.pids) / rig.resident(pushgateway.pids)
        yield Check(promise, _times(share), None if share is None else share <= _MEMORY_SHARE)
        return
    for name, server, least in (
        ("Pushgateway", pushgateway, 20),
        ("prometheus-client", servers.get("prometheus-client"), 150),
    ):
        ratio_of = None if server is None else statistics.median(server.relative_to(ours))
        promise = f"plain scrape of 1 M series >= {least} x faster than {name}'s"
        yield Check(promise, _times(ratio_of), None if ratio_of is None else ratio_of >= least)


def _times(ratio: float | None) -> str:
    return "not on this machine" if ratio is None else f"{number(ratio)} x"


def lists(*, short: bool) -> Iterator[Found]:
    """Yield a table of reading all jobs by ours and by the vendor's SDK, and the promise about both."""
    jobs = _SHORT_LISTED if short else _LISTED
    clients = {"ours": "ours: signed, decoded", "ours-rendered": "ours: also translated and rendered"}
    if importlib.util.find_spec(_SDK):
        clients["sdk"] = f"{_SDK}, async: signed, decoded"
    own, others = rig.two_cores()
    seconds: dict[str, list[float]] = {name: [] for name in clients}
    with child("cloud", f"--jobs={jobs}", core=others) as cloud, ExitStack() as stack:
        children = [stack.enter_context(child("list_client", name, cloud.url, core=own)) for name in clients]
        for turn in range(_LIST_ROUNDS + 1):
            for name, client in zip(clients, children, strict=True):
                answer = client.command("list")
                if answer["jobs"] != jobs:
                    raise Failed(f"{name}: {answer['jobs']} jobs of {jobs}")
                if turn:  # the first round warms up
                    seconds[name].append(answer["cpu"])
    table = Table(
        f"All {jobs:,} running jobs, in pages of 100",
        ("client", "CPU milliseconds", "times ours"),
        notes=[f"All read from one bare server in turn. Medians of {_LIST_ROUNDS} rounds (10th to 90th percentile)."],
    )
    ratios: list[float] = []
    for name, title in clients.items():
        ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds[name], strict=True)]
        table.rows.append((title, milliseconds(seconds[name]), spread(ratios)))
    ratio = statistics.median(ratios) if "sdk" in clients else None
    yield table
    promise = f"to read and decode jobs takes the vendor's SDK at least {_TIMES_FASTER} x our CPU"
    yield Check(promise, _times(ratio), None if ratio is None else ratio >= _TIMES_FASTER)
