"""The whole process over real HTTP against the simulated cloud."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.e2e.processes import COMMAND, ExporterProcess, eventually, running_cloud, running_exporter
from tests.support.programs import need
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.families.table import HISTORY_FAMILIES
from trainfleet_exporter.families.usage import PROFILING
from trainfleet_exporter.providers.alibaba_pai.metrics import POOL_FAMILIES
from trainfleet_simulator import Fault, Simulator
from trainfleet_simulator.server import ACCESS_KEY_SECRET
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
# No metric that is known feeds these: they are there for usage.metrics of the config.
ON_REQUEST = {f"trainfleet_{family.suffix}" for family in POOL_FAMILIES if not family.names}
# Off by default (usage.profiling).
PROFILED = {
    family.name for family in FAMILIES if family.name.endswith(tuple(f"_{name.suffix}" for name in PROFILING.values()))
}
# Begin with the first fault, start, queue or end that this process sees. The phases of jobs are there at once.
LATER = {family.name for family in HISTORY_FAMILIES} - {"trainfleet_job_phase_seconds"}
EVERY_FAMILY = {family.name for family in FAMILIES} - ON_REQUEST - PROFILED - LATER


@pytest.fixture(scope="module")
def cloud() -> Iterator[tuple[Simulator, str]]:
    with running_cloud(seed=1, clouds=CLOUDS) as found:
        yield found


@pytest.fixture(scope="module")
def config_file(cloud: tuple[Simulator, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    simulator, url = cloud
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    path.write_text(simulator.config_yaml(url), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def exporter(config_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExporterProcess]:
    log = tmp_path_factory.mktemp("exporter") / "log"
    with running_exporter([f"--config.file={config_file}"], log) as found:
        found.wait_until_ready()
        yield found


def test_both_formats_carry_every_family(exporter: ExporterProcess) -> None:
    def families_are_there() -> bool:
        text = {sample.name for family in parse_text(exporter.metrics().text) for sample in family.samples}
        return text >= EVERY_FAMILY

    eventually(families_are_there, what=f"all of {len(EVERY_FAMILY)} families")
    answer = exporter.metrics(accept=OPENMETRICS)
    assert answer.headers["content-type"].startswith(OPENMETRICS.replace(";", "; "))
    names = {sample.name for family in parse_openmetrics(answer.text) for sample in family.samples}
    assert names >= EVERY_FAMILY


def test_gzip_equals_plain(exporter: ExporterProcess) -> None:
    # A poll may come between two scrapes: the fleet's lines must be equal in one of a few tries.
    def lines(body: bytes) -> list[bytes]:
        return [line for line in body.splitlines() if line.startswith(b"trainfleet_") and b"_exporter_" not in line]

    def equal() -> bool:
        with exporter.client.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            zipped = b"".join(answer.iter_raw())
        plain = exporter.client.get("/metrics", headers={"accept-encoding": "identity"}).content
        return lines(gzip.decompress(zipped)) == lines(plain)

    eventually(equal, what="two scrapes between polls")


def test_promtool_has_nothing_to_say(exporter: ExporterProcess) -> None:
    promtool = need("promtool")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=exporter.metrics().content, capture_output=True, timeout=60
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_pages(exporter: ExporterProcess) -> None:
    assert exporter.client.get("/-/healthy").status_code == 200
    config = exporter.client.get("/config").text
    assert "access_key_secret: <secret>" in config
    assert "sim-pai-hangzhou" in config


def test_secrets_reach_no_output(exporter: ExporterProcess) -> None:
    outputs = [exporter.log, *(exporter.client.get(path).text for path in ("/", "/metrics", "/config", "/-/ready"))]
    for secret in (ACCESS_KEY_SECRET, *PLANTED_SECRETS):
        assert not [output for output in outputs if secret in output]


def test_sigterm_during_a_poll(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    with running_cloud(seed=3) as (simulator, url):
        path.write_text(simulator.config_yaml(url), encoding="utf-8")
        simulator.faults.add(Fault(match={"operation": "ListJobs"}, delay=30.0))
        with running_exporter([f"--config.file={path}"], tmp_path / "log") as exporter:
            eventually(lambda: "/jobs" in exporter.client.get("/-/ready").text, what="a poll of jobs to hang")
            _end_in_time(exporter)


def _end_in_time(exporter: ExporterProcess) -> None:
    began = time.monotonic()
    assert exporter.end(signal=signal.SIGTERM) == 0
    assert time.monotonic() - began < 5
    assert "Traceback" not in exporter.log
    assert "msg=stopped" in exporter.log


def test_interrupt_ends_the_demo(tmp_path: Path) -> None:
    with running_exporter(["demo", "--log.level=info"], tmp_path / "log") as exporter:
        exporter.wait_until_ready()
        assert len(exporter.samples("trainfleet_jobs")) > 30
        assert exporter.end(signal=signal.SIGINT) == 0
        assert exporter.process.stdout is not None
        screen = exporter.process.stdout.read().decode()
        assert "Traceback" not in exporter.log + screen
    assert f"{exporter.url}/metrics" in screen
    assert "Every collector has polled" in screen


def test_one_workspace_fails_and_the_others_stay_fresh(tmp_path: Path) -> None:
    with running_cloud(seed=2) as (simulator, url):
        text = simulator.config_yaml(url).replace("poll_interval: 10s", "poll_interval: 2s")
        text = text.replace("poll_timeout: 8s", "poll_timeout: 1500ms").replace("1500ms", "1s")
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding="utf-8")
        with running_exporter([f"--config.file={path}"], tmp_path / "log") as exporter:
            exporter.wait_until_ready()

            def live_jobs(workspace: str) -> float | None:
                found = exporter.samples("trainfleet_jobs")
                values = [value for labels, value in found.items() if f'workspace_id="{workspace}"' in labels]
                return sum(values) if values else None

            broken, healthy = "12346", "12345"
            assert live_jobs(broken) is not None
            rule = {"match": {"operation": "ListJobs", "WorkspaceId": broken}, "status": 500}
            assert httpx.post(f"{url}/faults", json=[rule], trust_env=False).status_code == 200
            failed = "trainfleet_exporter_collector_parts_failed"
            eventually(
                lambda: any(
                    'collector="jobs"' in key and value == 1 for key, value in exporter.samples(failed).items()
                ),
                what="the failure to show",
            )
            assert live_jobs(broken) is not None  # its last good answer
            oldest = "trainfleet_exporter_collector_oldest_part_timestamp_seconds"
            eventually(
                lambda: (
                    not any(
                        f'workspace_id="{broken}"' in labels and 'status="running"' in labels
                        for labels in exporter.samples("trainfleet_jobs")
                    )
                ),
                what="the last good answer to go",
            )
            assert live_jobs(healthy) is not None
            ages = [value for labels, value in exporter.samples(oldest).items() if 'collector="jobs"' in labels]
            assert time.time() - ages[0] < 10
            assert exporter.metrics().status_code == 200
            assert httpx.post(f"{url}/faults", json=[], trust_env=False).status_code == 200
            eventually(
                lambda: any(
                    f'workspace_id="{broken}"' in labels and 'status="running"' in labels
                    for labels in exporter.samples("trainfleet_jobs")
                ),
                what="the workspace to come back",
            )


def test_once_prints_metrics_and_sets_its_exit_code(config_file: Path, tmp_path: Path) -> None:
    good = subprocess.run([*COMMAND, "once", f"--config.file={config_file}"], capture_output=True, timeout=60)
    assert good.returncode == 0, good.stderr
    names = {family.name for family in parse_text(good.stdout.decode())}
    assert {"trainfleet_jobs", "trainfleet_pod_info", "trainfleet_pool_info"} <= names
    bad_config = tmp_path / "bad.yaml"
    text = config_file.read_text(encoding="utf-8")
    bad_config.write_text(
        re.sub("(secret_key|access_key_secret|secret_access_key):", r"\1: wrong #", text),
        encoding="utf-8",
    )
    bad = subprocess.run([*COMMAND, "once", f"--config.file={bad_config}"], capture_output=True, timeout=60)
    assert bad.returncode == 1
    assert b"the signature was refused" in bad.stderr
    for name in (b"sim-pai-hangzhou", b"sim-modelarts-north4", b"sim-sagemaker-us-east-1"):
        assert b'trainfleet_provider_up{provider="%s"} 0.0' % name in bad.stdout


def test_a_taken_port_is_one_clear_line(config_file: Path, exporter: ExporterProcess) -> None:
    address = exporter.url.removeprefix("http://")
    second = subprocess.run(
        [*COMMAND, f"--config.file={config_file}", f"--web.listen-address={address}"], capture_output=True, timeout=60
    )
    assert second.returncode == 1
    assert second.stderr.decode().startswith(f"trainfleet-exporter: cannot listen on {address}: Address already in use")
    assert len(second.stderr.splitlines()) == 1


def test_simulate_prints_a_config_that_works(tmp_path: Path) -> None:
    with subprocess.Popen([*COMMAND, "simulate"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as simulate:
        assert simulate.stdout is not None
        printed = []
        for line in simulate.stdout:
            printed.append(line.decode())
            if not line.strip():
                break
        path = tmp_path / "config.yaml"
        path.write_text("".join(printed), encoding="utf-8")
        try:
            once = subprocess.run([*COMMAND, "once", f"--config.file={path}"], capture_output=True, timeout=60)
            simulate.send_signal(signal.SIGTERM)
            assert simulate.wait(10) == 0
            assert once.returncode == 0, once.stderr
        finally:
            simulate.kill()
