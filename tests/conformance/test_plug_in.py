"""The example by its own folder: installed by pip, found by its entry point, checked and diagnosed by processes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from anyio.from_thread import start_blocking_portal
from starlette.types import ASGIApp

from pretend_lantern import PretendLantern
from tests.conformance.deliberate import EXAMPLE, ROOT
from trainfleet_simulator.listener import Listener

TOKEN = "lantern-token-of-this-test"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip has installed the example into, from the example's own."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps"]
    command = [*pip, "--no-build-isolation", "--target", str(target), str(EXAMPLE)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    return target


@contextlib.asynccontextmanager
async def _served(app: ASGIApp) -> AsyncIterator[str]:
    """The app's address."""
    listener = Listener(app)
    try:
        yield listener.url
    finally:
        await listener.aclose()


def _config(folder: Path, url: str) -> Path:
    provider = {"name": "lantern-north", "platform": "lantern", "region": "north-1", "credentials": {"token": TOKEN}}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"providers": [{**provider, "endpoints": {"lantern": url}}]}), encoding="utf-8")
    return path


def _exporter(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # -P: what is in the working folder must not stand in for what is installed.
    path = os.pathsep.join((str(installed), str(ROOT / "src")))
    environ = {**os.environ, "PYTHONPATH": path, "LANTERN_TOKEN": TOKEN}
    command = [sys.executable, "-P", "-m", "trainfleet_exporter", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)


def test_its_config_is_checked(installed: Path) -> None:
    answer = _exporter(installed, f"--config.file={EXAMPLE / 'config.yaml'}", "--config.check")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "the config is good: 1 provider(s)" in answer.stdout


def test_a_key_that_it_does_not_know_is_told_as_any_other(installed: Path, tmp_path: Path) -> None:
    path = _config(tmp_path, "http://127.0.0.1:1")
    path.write_text(path.read_text(encoding="utf-8").replace("token: ", "tokn: "), encoding="utf-8")
    answer = _exporter(installed, f"--config.file={path}", "--config.check")
    assert answer.returncode == 2
    assert "providers[0].credentials.tokn: " in answer.stderr
    assert TOKEN not in answer.stderr


def test_it_is_diagnosed(installed: Path, tmp_path: Path) -> None:
    served = _served(PretendLantern(jobs=20, token=TOKEN).app)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(served) as url:
        path = _config(tmp_path, url)
        shown = _exporter(installed, "diagnose", f"--config.file={path}")
        diagnosed = _exporter(installed, "diagnose", "--json", f"--config.file={path}")
        once = _exporter(installed, "once", f"--config.file={path}")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "lantern-north: lantern in north-1\n  credentials from: token of the config\n" in shown.stdout
    (report,) = json.loads(diagnosed.stdout)["providers"]
    assert (report["platform"], report["success"], report["problems"]) == ("lantern", True, [])
    assert report["series"]["trainfleet_job_info"] == 20
    assert {collector["collector"] for collector in report["collectors"]} == {
        "workspaces",
        "jobs",
        "job_counts",
        "usage",
        "pools",
    }
    assert once.returncode == 0
    assert 'trainfleet_provider_info{provider="lantern-north",platform="lantern",region="north-1"' in once.stdout
    assert TOKEN not in shown.stdout + shown.stderr + diagnosed.stdout + diagnosed.stderr + once.stdout + once.stderr
