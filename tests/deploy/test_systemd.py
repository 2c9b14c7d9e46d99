"""deploy/systemd: the unit is valid and hardened, and the daemon runs with its flags and credentials."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import COMMAND, eventually, running_cloud, running_exporter
from tests.support.programs import need
from trainfleet_exporter.cli import main

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
UNIT = FOLDER / "trainfleet-exporter.service"
CONFIG = (FOLDER / "config.yaml").read_text(encoding="utf-8")
_HIGHEST = 1.5


def _settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)


def _credentials() -> dict[str, str]:
    """Return the files of the credentials by their names in the config."""
    return {name: path for name, _, path in (given.partition(":") for given in _settings("LoadCredential"))}


def test_systemd_takes_it(tmp_path: Path) -> None:
    analyze = need("systemd-analyze")
    (command,) = _settings("ExecStart")
    copy = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    copy.write_text(text.replace(command, f'"{sys.executable}"'), encoding="utf-8")  # the command is not installed here
    done = subprocess.run([analyze, "verify", copy], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])
    copy.write_text(text.replace("WatchdogSec=", "WatchdocSec="), encoding="utf-8")
    assert "WatchdocSec" in subprocess.run([analyze, "verify", copy], capture_output=True, text=True).stderr


def test_it_is_hardened() -> None:
    analyze = need("systemd-analyze")
    done = subprocess.run([analyze, "security", "--offline=true", "--no-pager", UNIT], capture_output=True, text=True)
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert exposure, done.stderr
    assert float(exposure[1]) <= _HIGHEST


def test_the_example_config_uses_every_credential_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    credentials = _credentials()
    assert set(re.findall(r"\$\{CREDENTIALS_DIRECTORY\}/(\S+)", CONFIG)) == credentials.keys()
    assert {Path(path).name for path in credentials.values()} == credentials.keys()
    for name in credentials:
        (tmp_path / name).write_text(f"key-{name}\n", encoding="utf-8")
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert main([f"--config.file={config}", "--config.check"]) == 0
    (tmp_path / next(iter(credentials))).unlink()
    assert main([f"--config.file={config}", "--config.check"]) == 2
    assert "key-" not in "".join(capsys.readouterr())


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


@pytest.mark.long
def test_the_daemon_works_as_the_unit_starts_it(tmp_path: Path, manager: socket.socket) -> None:
    """The clouds accept keys from systemd credentials, and the daemon sends the messages of Type=notify."""
    assert _settings("Type") == ["notify"]
    (watchdog,) = _settings("WatchdogSec")
    _, *flags = shlex.split(_settings("ExecStart")[0])
    assert flags == ["--config.file=/etc/trainfleet-exporter/config.yaml"]
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    environ = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": str(int(watchdog) * 1_000_000),
        "CREDENTIALS_DIRECTORY": str(credentials),
    }
    with running_cloud(seed=1, clouds=("pai", "modelarts")) as (simulator, url):  # the clouds of the unit
        text = re.sub("1[05]s|20s", "60s", simulator.config_yaml(url)).replace("8s", "50s")  # for a busy machine
        text = _with_credentials(text, credentials)
        config = tmp_path / "config.yaml"
        config.write_text(text, encoding="utf-8")
        with running_exporter(
            [f"--config.file={config}"], tmp_path / "log", command=COMMAND, environ=environ
        ) as exporter:
            assert manager.recv(4096).startswith(b"READY=1\nSTATUS=2 provider(s), ")
            assert manager.recv(4096).startswith(b"WATCHDOG=1")
            exporter.wait_until_ready()
            for name in ("trainfleet_provider_up", "trainfleet_exporter_collector_success"):
                eventually(lambda name=name: set(exporter.samples(name).values()) == {1}, what=name)  # type: ignore[misc]
            (kill, number, *_) = shlex.split(_settings("ExecReload")[0])
            assert (kill, number) == ("/bin/kill", "-HUP")
            exporter.process.send_signal(signal.SIGHUP)
            eventually(lambda: b"RELOADING=1" in manager.recv(4096), what="the reload to be told")
            eventually(lambda: b"READY=1" in manager.recv(4096), what="the end of the reload")
            assert exporter.end(signal=signal.SIGTERM) == 0
            eventually(lambda: b"STOPPING=1" in manager.recv(4096), what="the end to be told")


def _with_credentials(text: str, folder: Path) -> str:
    """Return the config with each key in a file of the folder, named as in the example config."""
    platform = ""
    lines = []
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key.strip() == "platform":
            platform = value.partition("_")[0]
        if key.strip() in {"access_key_id", "access_key_secret", "access_key", "secret_key"}:
            name = f"{platform}-{key.strip().replace('_', '-')}"
            (folder / name).write_text(value + "\n", encoding="utf-8")
            line = f"{key}_file: ${{CREDENTIALS_DIRECTORY}}/{name}"  # noqa: PLW2901 - replaces the line
        lines.append(line)
    assert {path.name for path in folder.iterdir()} == _credentials().keys()
    return "\n".join(lines) + "\n"


def test_a_bad_config_is_not_tried_again(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("nonsense: 1\n", encoding="utf-8")
    assert _settings("RestartPreventExitStatus") == [str(main([f"--config.file={config}"]))]
