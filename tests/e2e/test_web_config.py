"""The daemon behind a web config file, as whole processes: Prometheus by mutual TLS and a password, and who is refused.

One Prometheus has a job for each way to come: the right one, and one for each thing that may be wrong with it.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest

from tests.e2e.processes import COMMAND, ExporterProcess, eventually, running_cloud, running_exporter, running_server
from tests.support.certificates import Authority
from tests.support.ports import held_port
from tests.support.programs import need
from tests.web.secured import write
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_simulator import Simulator

EXAMPLE = Path(__file__).parents[2] / "deploy" / "web-config.example.yaml"
PASSWORD = "open-sesame"
NEW_PASSWORD = "open-barley"
UNAUTHORIZED = "HTTP status 401"  # in Prometheus's words; the bare number may be in an address's port


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    with running_cloud(seed=1, clouds=CLOUDS) as (_, address):
        yield address


class Site:
    """A folder with both configs, certificates, and everybody who may come or not."""

    def __init__(self, folder: Path, cloud: str) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.server = self.authority.issue("server")
        self.clients = {
            "prometheus": self.authority.issue("prometheus", host="prometheus.test"),
            "other": self.authority.issue("other", host="other.test"),
            "stranger": Authority(folder, "strange").issue("client", host="prometheus.test"),
        }
        self.config = folder / "config.yaml"
        self.config.write_text(Simulator(clouds=CLOUDS).config_yaml(cloud), encoding="utf-8")
        self.web = folder / "web.yaml"
        self.write(PASSWORD)

    def write(self, password: str) -> None:
        """The web config: mutual TLS for one name, and one user."""
        cert, key = (path.name for path in self.server)
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        write(
            self.web,
            f"tls_server_config:\n  cert_file: {cert}\n  key_file: {key}\n"
            "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: authority.pem\n"
            f"  client_allowed_sans: [prometheus.test]\nbasic_auth_users:\n  prom: {hashed}\n",
        )

    @property
    def flags(self) -> list[str]:
        return [f"--config.file={self.config}", f"--web.config.file={self.web}"]

    def context(self, client: str = "prometheus") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if client:
            context.load_cert_chain(*map(str, self.clients[client]))
        return context

    def job(self, name: str, target: str, *, client: str = "prometheus", password: str = PASSWORD) -> dict[str, Any]:
        """A scrape job of Prometheus's."""
        tls = {"ca_file": str(self.authority.file)}
        if client:
            cert, key = self.clients[client]
            tls |= {"cert_file": str(cert), "key_file": str(key)}
        login = {"basic_auth": {"username": "prom", "password": password}} if password else {}
        targets = [{"targets": [target]}]
        return {"job_name": name, "scheme": "https", "tls_config": tls, "static_configs": targets, **login}


@pytest.fixture
def site(tmp_path: Path, cloud: str) -> Site:
    return Site(tmp_path, cloud)


@contextmanager
def _running(site: Site) -> Iterator[tuple[ExporterProcess, str]]:
    """The daemon, and its address."""
    with running_exporter(site.flags, site.folder / "exporter.log") as exporter:
        yield exporter, exporter.url.removeprefix("http://")


@contextmanager
def _prometheus(jobs: list[dict[str, Any]], folder: Path) -> Iterator[httpx.Client]:
    program = need("prometheus")
    config, log = folder / "prometheus.yaml", folder / "prometheus.log"
    settings = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": jobs}
    config.write_text(json.dumps(settings), encoding="utf-8")  # which is YAML as well
    with held_port() as port:
        flags = [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
        command = [program, f"--config.file={config}", *flags]
        with running_server(command, port, log) as client:
            yield client


def _outcomes(prometheus: httpx.Client) -> dict[str, str]:
    """For each job how its last scrape ended: up, unauthorized, refused, or late (as on a busy machine)."""

    def outcome(target: Mapping[str, Any]) -> str:
        error = target["lastError"]
        reasons = {UNAUTHORIZED: "unauthorized", "deadline": "late"}
        failed = next((reason for words, reason in reasons.items() if words in error), "refused")
        return failed if target["health"] == "down" else str(target["health"])

    found = prometheus.get("/api/v1/targets").json()["data"]["activeTargets"]
    return {target["labels"]["job"]: outcome(target) for target in found}


def _get(site: Site, address: str, path: str = "/metrics", *, client: str = "prometheus", password: str = "") -> int:
    """The status of an answer to a connection of its own."""
    auth = httpx.BasicAuth("prom", password) if password else None
    return httpx.get(f"https://{address}{path}", verify=site.context(client), auth=auth, trust_env=False).status_code


def test_prometheus_by_mutual_tls_and_a_password(site: Site) -> None:
    with _running(site) as (exporter, target):
        jobs = [
            site.job("good", target),
            site.job("later", target, password=NEW_PASSWORD),
            site.job("no-certificate", target, client=""),
            site.job("wrong-name", target, client="other"),
            site.job("wrong-authority", target, client="stranger"),
            site.job("no-password", target, password=""),
            site.job("plain", target) | {"scheme": "http"},
        ]
        with _prometheus(jobs, site.folder) as prometheus:
            # None is kept waiting. Without the certificate, the password is not even read.
            wanted = dict.fromkeys(("later", "no-password"), "unauthorized") | {"good": "up"}
            wanted |= dict.fromkeys(("no-certificate", "wrong-name", "wrong-authority", "plain"), "refused")
            eventually(lambda: _outcomes(prometheus) == wanted, what=f"{wanted}")
            site.write(NEW_PASSWORD)
            wanted |= {"later": "up", "good": "unauthorized"}
            eventually(lambda: _outcomes(prometheus) == wanted, what=f"{wanted}")
        log = exporter.log
        assert exporter.end(signal=signal.SIGTERM) == 0
    assert "Traceback" not in log
    assert PASSWORD not in log
    assert "$2b$" not in log


def test_a_renewed_certificate_is_served_without_a_restart(site: Site) -> None:
    def shown(address: str) -> str:
        host, _, port = address.partition(":")
        with (
            socket.create_connection((host, int(port))) as plain,
            site.context().wrap_socket(plain, server_hostname=host) as connection,
        ):
            certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        return ssl.DER_cert_to_PEM_cert(certificate)

    with _running(site) as (exporter, address):
        before = site.server[0].read_text(encoding="utf-8")
        assert shown(address) == before
        for old, new in zip(site.server, site.authority.issue("renewed"), strict=True):
            new.replace(old)
        after = site.server[0].read_text(encoding="utf-8")
        eventually(lambda: shown(address) == after, what="the renewed certificate")
        assert "$2b$" not in exporter.log
        eventually(lambda: "web config reloaded" in exporter.log, what="that to be told")


def test_the_healthcheck_reaches_it(site: Site) -> None:
    with _running(site) as (_, address):
        cert, key = site.clients["prometheus"]
        trust = [f"--url=https://{address}/-/healthy", f"--tls.ca-file={site.authority.file}"]
        command = [*COMMAND, "healthcheck", *trust]
        found = subprocess.run([*command, f"--tls.cert-file={cert}", f"--tls.key-file={key}"], capture_output=True)
        assert (found.returncode, found.stderr) == (0, b"")
        assert subprocess.run(command, capture_output=True).returncode == 1


def test_promtool_takes_the_example_and_so_do_we(site: Site) -> None:
    promtool = need("promtool")
    shutil.copy(EXAMPLE, site.web)
    for name, file in zip(("tls.crt", "tls.key", "ca.crt"), (*site.server, site.authority.file), strict=True):
        shutil.copy(file, site.folder / name)
    checked = subprocess.run([promtool, "check", "web-config", str(site.web)], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr.strip()) == (0, f"{site.web} SUCCESS")
    checked = subprocess.run([*COMMAND, *site.flags, "--config.check"], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{site.web}: the web config is good\n" in checked.stdout
    # What is commented out there is good here, too.
    more = site.web.read_text(encoding="utf-8").replace("# client_", "client_").replace("# rate", "rate")
    site.web.write_text(more, encoding="utf-8")
    checked = subprocess.run([*COMMAND, *site.flags, "--config.check"], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
