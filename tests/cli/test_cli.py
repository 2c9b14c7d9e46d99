"""Flags, exit codes and messages, without a cloud."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import trainfleet_exporter
from trainfleet_exporter.cli import cli, main
from trainfleet_exporter.process import files

ROOT = Path(__file__).parents[2]
PIPES = "credentials: {access_key_id: id, access_key_secret_file: pipe}, http: {ca_file: pipe}"
READABLE = "allowed: a readable YAML file\n"
EXAMPLE = ROOT / "config.example.yaml"


@pytest.fixture(autouse=True)
def _hangups_as_they_were() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The example config with something in the place of each placeholder."""
    path = tmp_path / "config.yaml"
    text = EXAMPLE.read_text(encoding="utf-8")
    path.write_text(re.sub(r"YOUR_\w+", "0123456789abcdef" * 2, text), encoding="utf-8")
    return path


def test_the_filled_in_example_is_good(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--config.file={example}", "--config.check"]) == 0
    assert "the config is good: 3 provider(s)" in capsys.readouterr().out


def test_the_untouched_example_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--config.file={EXAMPLE}", "--config.check"]) == 2
    assert 'found the placeholder "YOUR_ACCESS_KEY_ID"' in capsys.readouterr().err


def test_a_secret_in_a_named_pipe_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "config.yaml"
    path.write_text(
        f"providers: [{{name: a, platform: alibaba_pai, region: cn-hangzhou, {PIPES}}}]\n", encoding="utf-8"
    )
    assert main([f"--config.file={path}", "--config.check"]) == 2
    pipe = "found a file that cannot be used (it is not a regular file); allowed: a readable file of one line"
    authority = 'found "pipe"; allowed: a readable file of PEM certificates (it is not a regular file)'
    assert capsys.readouterr().err.splitlines() == [
        f"{path}:1: providers[0].credentials.access_key_secret_file: {pipe}",
        f"{path}:1: providers[0].http.ca_file: {authority}",
    ]


def test_a_config_in_a_pipe_is_read_within_a_time(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "PIPE_SECONDS", 0.05)
    os.mkfifo(pipe := tmp_path / "pipe")
    assert main([f"--config.file={pipe}", "--config.check"]) == 2
    reason = "it could not be read within 0.05 seconds"
    assert capsys.readouterr().err == f"{pipe}: found a file that cannot be read ({reason}); {READABLE}"
    os.mkfifo(prices := tmp_path / "prices")
    assert main(["report", f"--ledger={example}", f"--prices={prices}"]) == 1
    assert f"cannot read the prices {prices}: {reason}; --prices takes" in capsys.readouterr().err
    monkeypatch.undo()
    late = threading.Timer(0.1, pipe.write_bytes, [example.read_bytes()])  # which ends the first read, and the second
    late.start()
    os.mkfifo(other := tmp_path / "other")
    threading.Thread(target=other.write_bytes, args=[example.read_bytes()]).start()
    assert main([f"--config.file={other}", "--config.check"]) == 0
    late.join()


def test_check_warns_of_patterns_for_ascii_only(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = example.read_text(encoding="utf-8")
    names = r"""    jobs: {exclude: {name: ['[\pL\pN]+', '\\w', '\w+-\d']}}"""
    before, platform, after = text.partition("    platform: alibaba_pai")
    example.write_text(f"{before}{names}\n{platform}{after}", encoding="utf-8")
    assert main([f"--config.file={example}", "--config.check"]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "ASCII characters only" in line]
    assert len(warned) == 1  # the second pattern has a backslash and a letter
    assert "w+-" in warned[0]
    assert warned[0].count("found=") == 1


def test_no_arguments_print_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main(["-h"]) == 0
    assert capsys.readouterr().err == ""
    assert main([]) == 2  # as official exporters that lack a required flag
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Usage: trainfleet-exporter")
    assert all(re.search(rf"^  {command} +[A-Z]", printed.err, re.MULTILINE) for command in cli.commands)


@pytest.mark.parametrize(
    "arguments",
    [
        ["once", "--config.file", "no.yaml", "--log.level=debug"],
        ["--config.file", "no.yaml", "once", "--log.level=debug"],
        ["--log.level=DEBUG", "--config.file=no.yaml", "once"],
        ["--log.level", "debug", "--shard", "0", "once", "--config.file=no.yaml"],
    ],
)
def test_flags_stand_before_and_after_a_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("no.yaml: found a file that cannot be read")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [["--version"], ["once", "--version"], ["--config.file", "x", "--version"]])
def test_version_imports_nothing_slow(arguments: list[str]) -> None:
    script = (
        f"import sys; sys.argv[1:] = {arguments}\n"
        "from trainfleet_exporter.__main__ import main\n"
        "code = main(); print(code, *sorted(name.partition('.')[0] for name in sys.modules))"
    )
    version, rest = _run("-c", script).stdout.splitlines()
    assert re.fullmatch(rf"trainfleet-exporter {trainfleet_exporter.__version__} \(Python 3\.\S+\)", version)
    code, *modules = rest.split()
    assert code == "0"
    assert {"asyncio", "click", "pydantic", "httpx", "aiohttp", "uvicorn", "yaml", "logging", "ssl", "re2"}.isdisjoint(
        modules
    )


_INTERRUPTED = """
import os, runpy, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[1:] = {arguments!r}
runpy.run_module("trainfleet_exporter", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("click", ["healthcheck"]),
        ("trainfleet_exporter.cli", ["demo"]),
        ("trainfleet_exporter.web.server", ["--config.file=no.yaml"]),
    ],
)
def test_ctrl_c_during_the_imports_prints_nothing(name: str, arguments: list[str]) -> None:
    ended = _run("-c", _INTERRUPTED.format(name=name, arguments=arguments))
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_during_a_health_check_prints_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        command = [sys.executable, "-m", "trainfleet_exporter", "healthcheck", f"--url={url}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            asking, _ = silent.accept()
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30) == (b"", b"")
            asking.close()
    assert process.returncode == -signal.SIGINT


def test_a_shard_is_named_by_its_number_or_its_pod(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported: dict[str, list[str]] = {}
    for form in ("{}", "exporter-{}", "trainfleet-exporter-{}"):
        for ordinal in range(9):
            flags = [f"--shard={form.format(ordinal)}", "--total-shards=9"]
            assert main([f"--config.file={example}", "--config.check", *flags]) == 0
            reported.setdefault(form, []).append(capsys.readouterr().out)
    assert len(set(map(tuple, reported.values()))) == 1
    assert len(set(reported["{}"])) > 1  # two providers, nine shards


def test_nothing_names_this_machine_or_an_index() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    words = [b"/wo" + b"rk/", b"/ro" + b"ot/", b"py" + b"pi.org", b"pythonhost" + b"ed.org", b"--index" + b"-url http"]
    for name in filter(None, tracked):
        path = ROOT / name.decode()
        if path.is_file():
            content = path.read_bytes()
            assert not [word for word in words if word in content], name
