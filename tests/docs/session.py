"""A terminal session that types the commands of a page. It replaces ports, because tests share a machine."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.docs.commands import Command
from tests.docs.pages import ROOT, blocks
from tests.e2e.processes import PATIENCE, eventually
from tests.support.accounts import ACCOUNTS
from tests.support.ports import held_port
from tests.support.programs import need

_PROGRAMS = ("amtool", "curl", "openssl", "promtool")
_SIMULATED = {account.platform: account for account in ACCOUNTS.values()}
_KEYS = [pair for cloud in ("pai", "modelarts") for pair in ACCOUNTS[cloud].keys.items()]
_PLACEHOLDERS = {f"YOUR_{name.upper()}": key for name, key in _KEYS}


class Session:
    """A shell in a folder that looks like a checkout. It keeps its environment and background processes."""

    def __init__(self, folder: Path, *, exporter: int, simulator: int) -> None:
        """Create the folders. The ports `exporter` and `simulator` replace those of the pages."""
        self._exporter, self._simulator = exporter, simulator
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._logs = folder
        checkout, home, programs = folder / "checkout", folder / "home", folder / "programs"
        self._machine = folder / "machine"
        for each in (checkout, home, programs, self._machine):
            each.mkdir()
        sudo = programs / "sudo"
        sudo.write_text('#!/bin/sh\nexec env "$@"\n')
        sudo.chmod(0o755)
        for path in ROOT.iterdir():
            (checkout / path.name).symlink_to(path)
        self._state, self._place = folder / "environment", folder / "place"
        self._state.write_text("")
        self._place.write_text(f"{checkout}\n")
        # Without the accounts and proxies of this machine. `make test` runs the example's other tests.
        search = f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}"
        self._environ = {"HOME": str(home), "PATH": search, "PYTEST_ADDOPTS": "-k contract"}

    @property
    def url(self) -> str:
        """The URL of the exporter."""
        return f"http://127.0.0.1:{self._exporter}"

    def type(self, command: Command) -> None:
        """Run a command and compare its output with the page."""
        if "--config.file=config.yaml" in command.text:
            self._have_config(command.block.page)
        match command.kind:
            case "make":
                self._make(command)
            case "daemon":
                self._start(command)
            case "run":
                self._run(command)
            case "not here":
                pass
            case _:
                raise AssertionError(f"{command.block}: what is {command.text!r}?")

    def close(self) -> None:
        """End the background processes."""
        for port in list(self._running):
            self._end(port)

    def _make(self, command: Command) -> None:
        """Check that make knows the target, and run only `demo`. Other targets run this test or take minutes."""
        target = command.words[1]
        # Its own environment, because make must not notice that these tests run in `make test`.
        answer = subprocess.run(["make", "-n", target], cwd=ROOT, env=self._environ, capture_output=True, text=True)
        assert answer.returncode == 0, f"{command.block}: {answer.stderr}"
        last = answer.stdout.strip().splitlines()[-1]
        if target == "demo":
            self._start(Command(command.block, last))

    def _run(self, command: Command) -> None:
        program = command.words[0]
        if program in _PROGRAMS:
            need(program)
        if program == "python":  # without --check it would write into the checkout
            assert command.words[1:] == ["-m", "deploy.generator"], f"{command.block}: {command.text}"
            command = Command(command.block, f"{command.text} --check", command.shown)
        if program == "curl" and self._exporter not in self._running:
            self._start(Command(command.block, "trainfleet-exporter demo"))
        after = f"status=$?\nexport -p > {self._state}\npwd > {self._place}\nexit $status"
        answer = subprocess.run(
            self._shell(f"{self._readdressed(command.text)}\n{after}"),
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert answer.returncode == 0, f"{command.block}: {command.text}\n{answer.stdout}{answer.stderr}"
        compare(command, answer.stdout)
        if command.words[:2] == ["cp", "config.example.yaml"]:
            self._fill_in(self._here / command.words[2])
        elif command.words[:3] == ["python3", "-m", "venv"]:
            self._share_libraries()
        elif command.words[0] == "install" and command.words[-1].endswith("config.yaml"):
            self._settle(self._machine / "etc" / "trainfleet-exporter" / "config.yaml")

    @property
    def _here(self) -> Path:
        return Path(self._place.read_text().strip())

    def _share_libraries(self) -> None:
        """Let new virtual environments use the libraries of this one, so that pip needs no index."""
        for folder in (self._machine / "opt", Path(self._environ["HOME"])):
            for libraries in folder.glob("*/lib/python3.*/site-packages"):
                (libraries / "shared.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")

    def _settle(self, path: Path) -> None:
        """Point an installed config at the simulated clouds. Its keys stay in files."""
        state = self._machine / "var" / "lib" / "trainfleet-exporter"
        state.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text(encoding="utf-8").replace("/var/lib/trainfleet-exporter", str(state)), "utf-8")
        self._fill_in(path, keys=False)

    def _have_config(self, page: Path) -> None:
        """Write the config.yaml of the page, or the example if the page has none."""
        path = self._here / "config.yaml"
        if not path.exists():
            shown = [block.text for block in blocks(page, "yaml") if "providers" in yaml.safe_load(block.text)]
            text = shown[0] if shown else (ROOT / "config.example.yaml").read_text(encoding="utf-8")
            path.write_text(text, encoding="utf-8")
            self._fill_in(path)

    def _fill_in(self, path: Path, *, keys: bool = True) -> None:
        """Set the endpoints, limits and keys of the simulated clouds."""
        if self._simulator not in self._running:  # a reader with a cloud account does not start it
            self._serve(self._simulator, f"trainfleet-exporter simulate --listen=127.0.0.1:{self._simulator}", "/truth")
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        limits: dict[str, dict[str, Any]] = {}
        for provider in config["providers"]:
            simulated = _SIMULATED[provider["platform"]]
            if keys:
                provider["credentials"] = dict(simulated.keys)
            provider["endpoints"] = dict.fromkeys(simulated.apis, f"http://127.0.0.1:{self._simulator}")
            provider.update(simulated.more)
            account = provider.get("account", provider["name"])  # its providers must have the same limits
            limits.setdefault(account, provider.get("limits", {}) | {"requests_per_second": 1000, "concurrency": 32})
            provider["limits"] = dict(limits[account])
        path.write_text(yaml.safe_dump(config), encoding="utf-8")

    def _start(self, command: Command) -> None:
        """Start a daemon in the background and wait until it answers."""
        text = command.text.partition(" #")[0]
        if "simulate" in command.words:
            self._serve(self._simulator, self._readdressed(text), "/truth")
        else:
            text = re.sub(r" --web\.listen-address=\S+", "", text)
            text = f"{self._readdressed(text)} --web.listen-address=127.0.0.1:{self._exporter}"
            self._serve(self._exporter, text, "/-/ready")
        if "demo" in command.words:  # its jobs that are polled one by one come after the others
            page, idle = f"http://127.0.0.1:{self._exporter}/metrics", re.compile(r'_ratio{provider="sim-pai.* 0\n')
            eventually(lambda: idle.search(httpx.get(page, trust_env=False).text), what="idle jobs of PAI")

    def _serve(self, port: int, text: str, page: str) -> None:
        self._end(port)
        log = self._logs / f"{port}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(self._shell(f"exec {text}"), env=self._environ, stdout=stream, stderr=stream)
        self._running[port] = process

        scheme, ready = ("https", 401) if "--web.config.file" in text else ("http", 200)

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            answer = httpx.get(f"{scheme}://127.0.0.1:{port}{page}", trust_env=False, verify=False)
            return answer.status_code == ready

        eventually(answers, what=text)

    def _shell(self, script: str) -> list[str]:
        return ["bash", "-c", f'. {self._state}\ncd "$(cat {self._place})"\n{script}']

    def _end(self, port: int) -> None:
        process = self._running.pop(port, None)
        if process is not None:
            process.terminate()
            assert process.wait(PATIENCE) == 0

    def _readdressed(self, text: str) -> str:
        text = text.replace("localhost:10075", f"127.0.0.1:{self._exporter}")
        text = text.replace("127.0.0.1:10076", f"127.0.0.1:{self._simulator}")
        text = re.sub(r"(?<![\w.~/-])/(?=(?:etc|opt|var)/)", f"{self._machine}/", text)
        text = re.sub(r"\bYOUR_\w+", lambda found: _PLACEHOLDERS.get(found[0], found[0]), text)
        return re.sub(r"\bpip (install|wheel) ", r"pip \1 -q --no-index --no-build-isolation ", text)


@contextlib.contextmanager
def session(folder: Path) -> Iterator[Session]:
    """Open a session with its own ports, and close it at the end."""
    with held_port() as exporter, held_port() as simulator:
        found = Session(folder, exporter=exporter, simulator=simulator)
        with contextlib.closing(found):
            yield found


_VARYING = re.compile(r"[\w.,:/-]*\d[\w.,:/-]*")
_ANY_OF_THEM = r"\S*\d\S*"


def compare(command: Command, printed: str) -> None:
    """Check that a command printed the lines of the page and no others, in any order.

    `...` stands for any text. A word with a digit stands for any such word, because figures, ids and times vary.
    """
    lines = [line.rstrip() for line in printed.splitlines()]
    assert not command.shown or "..." in command.shown or len(lines) == len(command.shown), (
        f"{command.block}: the page shows {len(command.shown)} line(s) of\n{printed}"
    )
    for shown in command.shown:
        if shown == "...":
            continue
        parts = [re.escape(part) for part in _VARYING.split(shown)]
        pattern = _ANY_OF_THEM.join(re.sub(r"(\\ )+", r"\\s+", part) for part in parts).replace(r"\.\.\.", ".*")
        found = any(re.fullmatch(pattern, line) for line in lines)
        assert found, f"{command.block}: no line like {shown!r} in\n{printed}"
