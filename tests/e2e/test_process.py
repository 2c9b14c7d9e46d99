"""The whole process over real HTTP against the simulated cloud."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.e2e.processes import COMMAND, ExporterProcess, eventually, running_cloud, running_exporter
from tests.support.programs import need
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.families.usage import PROFILING
from trainfleet_exporter.model import JobFaults, NodeFaults, PodExit, PoolWaits
from trainfleet_exporter.providers.alibaba_pai.metrics import POOL_FAMILIES
from trainfleet_simulator import Simulator

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
# No metric that is known feeds these: they are there for usage.metrics of the config.
ON_REQUEST = {f"trainfleet_{family.suffix}" for family in POOL_FAMILIES if not family.names}
# Off by default (usage.profiling).
PROFILED = {
    family.name for family in FAMILIES if family.name.endswith(tuple(f"_{name.suffix}" for name in PROFILING.values()))
}
# Begin with the first fault, start, queue or end that this process sees. The phases of jobs are there at once.
LATER = {family.name for family in FAMILIES if family.of in {JobFaults, NodeFaults, PodExit, PoolWaits}}
LATER |= {"trainfleet_job_pending_reason"}
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


def test_promtool_has_nothing_to_say(exporter: ExporterProcess) -> None:
    promtool = need("promtool")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=exporter.metrics().content, capture_output=True, timeout=60
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


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
