"""Beginning and ending, as whole processes: clouds out of reach, signals in every state, a machine that denies.

The states are real ones: clients that do not read, clouds that do not answer, a log without a reader, a file system
that is read-only, no file descriptor left.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.processes import COMMAND, ExporterProcess, eventually, running_cloud, running_exporter
from tests.support.ports import held_port
from tests.support.readonly import on_read_only
from trainfleet_exporter.app.demo import CLOUDS
from trainfleet_simulator import Simulator

WITHIN = 5.0
"""Seconds in which a stop has to be over."""
HANGING_RESOLVER = """
import socket, sys, time
def getaddrinfo(host, *args, real=socket.getaddrinfo, **kwargs):
    if host == "hanging.test":
        time.sleep(60)
    return real(host, *args, **kwargs)
socket.getaddrinfo = getaddrinfo
from trainfleet_exporter.__main__ import main
sys.exit(main())
"""


BROKEN_POLLS = """
import os, sys, threading, time
from trainfleet_exporter.polling.poll_thread import PollThread
def die():
    raise SystemExit("Authorization: Bearer abcdefgh12345678abcd")
def hang():
    os.unlink(sys.argv[1].partition("=")[2] + ".trouble")
    time.sleep(60)
def wait(polls):
    while not os.path.exists(sys.argv[1].partition("=")[2] + ".trouble"):
        time.sleep(0.02)
    polls.post({trouble})
def begin(polls, died, real=PollThread.__init__):
    real(polls, died)
    threading.Thread(target=wait, args=[polls], daemon=True).start()
PollThread.__init__ = begin
from trainfleet_exporter.__main__ import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def cloud() -> Iterator[tuple[Simulator, str]]:
    with running_cloud(seed=1, clouds=CLOUDS) as found:
        yield found


@pytest.fixture
def hole() -> Iterator[str]:
    """The address of a cloud that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _config(folder: Path, url: str, *, ledger_file: str = "", more: str = "") -> str:
    """The flag for a config that polls the simulated clouds at this address."""
    text = Simulator(clouds=CLOUDS).config_yaml(url)
    if ledger_file:
        text = text.replace("  poll_timeout: 8s\n", f"  poll_timeout: 8s\n  ledger_file: {ledger_file}\n")
    path = folder / "config.yaml"
    path.write_text(text + more, encoding="utf-8")
    return f"--config.file={path}"


def _ends_well(exporter: ExporterProcess, number: int = signal.SIGTERM) -> None:
    """It stops in time, else it could not log that it stopped; and it logs nothing unexpected."""
    assert exporter.end(signal=number, within=WITHIN) == 0, exporter.log
    assert exporter.log.rstrip().endswith("msg=stopped")
    assert "Traceback" not in exporter.log
    assert "Exception" not in exporter.log
    assert exporter.process.stdout is not None
    assert exporter.process.stdout.read() == b""


def _connect(exporter: ExporterProcess) -> socket.socket:
    host, _, port = exporter.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)))


@pytest.fixture
def large_cloud() -> Iterator[str]:
    """The address of a cloud of which a few pages are more than any buffer of the kernel's holds (4 MiB by default)."""
    with running_cloud(seed=1, clouds=CLOUDS, population=200) as (_, url):
        yield url


@contextmanager
def _slow_client(exporter: ExporterProcess) -> Iterator[None]:
    """A client that requests far more than fits into any buffer, and reads a byte at a time."""
    stopped = threading.Event()
    eventually(lambda: 4 * len(exporter.metrics().content) > 8 << 20, what="as much as may be asked for ahead")

    def read(sock: socket.socket) -> None:
        while not stopped.wait(0.05) and sock.recv(1):
            pass

    with _connect(exporter) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n" * 200)
        assert sock.recv(1)
        thread = threading.Thread(target=read, args=(sock,))
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def test_a_signal_in_the_first_moment(tmp_path: Path, hole: str) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*COMMAND, _config(tmp_path, hole), "--web.listen-address=127.0.0.1:0"], stderr=stream, stdout=stream
        )
    with process:
        eventually(lambda: _catches(process.pid, signal.SIGTERM), what="the handler")
        process.terminate()
        assert process.wait(WITHIN) == 0
    assert log.read_text(encoding="utf-8").rstrip().endswith("msg=stopped")
    assert "Traceback" not in log.read_text(encoding="utf-8")


def _catches(pid: int, number: int) -> bool:
    return number in _signals(pid, "SigCgt")


def _is_ready_for(pid: int, number: int) -> bool:
    return number in _signals(pid, "SigCgt") | _signals(pid, "SigIgn")


def _signals(pid: int, mask: str) -> set[int]:
    found = re.search(rf"{mask}:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return {number for number in range(1, 64) if int(found[1], 16) >> (number - 1) & 1}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_clouds_hang(tmp_path: Path, hole: str, number: int) -> None:
    with running_exporter([_config(tmp_path, hole)], tmp_path / "log") as exporter:
        assert exporter.metrics().status_code == 200
        assert exporter.client.get("/-/ready").status_code == 503
        assert set(exporter.samples("trainfleet_provider_up").values()) == {0.0}
        _ends_well(exporter, number)


def test_a_signal_amid_all_kinds_of_clients(tmp_path: Path, large_cloud: str) -> None:
    """One that reads a byte at a time, some that wait for gzip, some that say nothing, one amid its head."""
    with ExitStack() as stack:
        exporter = stack.enter_context(running_exporter([_config(tmp_path, large_cloud)], tmp_path / "log"))
        exporter.wait_until_ready()
        stack.enter_context(_slow_client(exporter))
        for said in (
            [b"GET /metrics HTTP/1.1\r\nhost: x\r\naccept-encoding: gzip\r\n\r\n"] * 10 + [b""] * 10 + [b"GET /m"]
        ):
            stack.enter_context(_connect(exporter)).sendall(said)
        _ends_well(exporter)
        assert "closed connections at shutdown" in exporter.log


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(tmp_path: Path, large_cloud: str, second: int) -> None:
    with running_exporter([_config(tmp_path, large_cloud)], tmp_path / "log") as exporter:
        exporter.wait_until_ready()
        with _slow_client(exporter):  # which holds the stop up for two seconds
            exporter.process.send_signal(signal.SIGTERM)
            eventually(lambda: _is_refused(exporter), what="the stop to begin")
            assert exporter.process.poll() is None
            assert exporter.end(signal=second, within=2.0) == 1  # 0 if it were only a hanging stop that ends
    assert "msg=stopped" not in exporter.log


def _is_refused(exporter: ExporterProcess) -> bool:
    try:
        _connect(exporter).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_name_server_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGING_RESOLVER]
    config = _config(tmp_path, "https://hanging.test")
    with running_exporter([config], tmp_path / "log", command=command) as exporter:
        eventually(lambda: _threads(exporter) > 1, what="a name to be looked up")
        _ends_well(exporter)


def test_a_signal_of_a_library_harms_no_stop(tmp_path: Path, hole: str) -> None:
    library = "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: None)\n"
    command = [sys.executable, "-c", library + HANGING_RESOLVER]
    with running_exporter([_config(tmp_path, hole)], tmp_path / "log", command=command) as exporter:
        exporter.process.send_signal(signal.SIGUSR2)
        time.sleep(0.2)  # else both numbers may come at once
        _ends_well(exporter)


@contextmanager
def _broken_polls(folder: Path, url: str, trouble: str) -> Iterator[ExporterProcess]:
    """An exporter that has polled, and whose poll thread then gets into trouble."""
    command = [sys.executable, "-c", BROKEN_POLLS.format(trouble=trouble)]
    with running_exporter([_config(folder, url)], folder / "log", command=command) as exporter:
        exporter.wait_until_ready()
        (folder / "config.yaml.trouble").touch()
        yield exporter


def test_poll_thread_that_dies_ends_the_process(tmp_path: Path, cloud: tuple[Simulator, str]) -> None:
    with _broken_polls(tmp_path, cloud[1], "die") as exporter:
        assert exporter.process.wait(2 * WITHIN) == 1
        assert "the poll thread died; the exporter exits" in exporter.log
        assert "Traceback" in exporter.log
        assert "abcdefgh12345678" not in exporter.log


def test_poll_thread_that_hangs_delays_no_exit(tmp_path: Path, cloud: tuple[Simulator, str]) -> None:
    with _broken_polls(tmp_path, cloud[1], "hang") as exporter:
        eventually(lambda: not (tmp_path / "config.yaml.trouble").exists(), what="the poll thread to hang")
        assert exporter.metrics().status_code == 200
        assert exporter.end(signal=signal.SIGTERM, within=WITHIN) == 0
        assert "shutdown timed out" in exporter.log


def _threads(exporter: ExporterProcess) -> int:
    return len(os.listdir(f"/proc/{exporter.process.pid}/task"))  # noqa: PTH208 - no files


def test_log_without_a_reader_blocks_nothing(tmp_path: Path, hole: str) -> None:
    """Its reader went away, before much was said; stdout likewise."""
    reading, writing = os.pipe()
    with held_port() as port:
        process = subprocess.Popen(
            [*COMMAND, _config(tmp_path, hole), f"--web.listen-address=127.0.0.1:{port}", "--log.level=debug"],
            stderr=writing,
            stdout=writing,
        )
        os.close(writing)
        os.close(reading)
        _idles_and_ends_well(process, port)


def test_log_and_output_are_closed(tmp_path: Path, hole: str) -> None:
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COMMAND, _config(tmp_path, hole)]
    with held_port() as port:
        _idles_and_ends_well(subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"]), port)


def _idles_and_ends_well(process: subprocess.Popen[bytes], port: int) -> None:
    with process, httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        eventually(lambda: client.get("/metrics").status_code == 200, what="an answer")
        eventually(lambda: _cpu_seconds(process.pid, during=0.3) < 0.1, what="it to have nothing to do")
        process.terminate()
        assert process.wait(WITHIN) == 0


def _cpu_seconds(pid: int, *, during: float) -> float:
    def used() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    time.sleep(during)
    return used() - before


@pytest.mark.parametrize(
    ("command", "number"), [("once", signal.SIGTERM), ("once", signal.SIGINT), ("diagnose", signal.SIGTERM)]
)
def test_a_command_that_is_cut_short(tmp_path: Path, hole: str, command: str, number: int) -> None:
    config = _config(tmp_path, hole)
    process = subprocess.Popen([*COMMAND, command, config], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        eventually(lambda: _sockets(process.pid) > 4, what="polls to hang")
        process.send_signal(number)
        reported, log = process.communicate(timeout=2 * WITHIN)
        assert process.returncode == 1
    last = log.decode().splitlines()[-1]
    assert last.startswith(("trainfleet-exporter: interrupted", "diagnose: interrupted"))
    assert b"Traceback" not in log
    assert (b"run it again to its end" in reported) == (command == "diagnose")  # it reports what it has seen


def _sockets(pid: int) -> int:
    with suppress(FileNotFoundError):  # one that was closed meanwhile
        return sum("socket:" in os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir())
    return 0


def test_once_ends_if_its_output_has_no_reader(tmp_path: Path, cloud: tuple[Simulator, str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "once", _config(tmp_path, cloud[1]), "--log.level=warn"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, log = process.communicate(timeout=60)
    assert (process.returncode, log) == (1, b"trainfleet-exporter: cannot write the output: its reader has closed it\n")


def test_a_read_only_file_system(tmp_path: Path, cloud: tuple[Simulator, str]) -> None:
    config = _config(tmp_path, cloud[1])
    command = on_read_only(COMMAND, tmp_path)
    # What measures coverage would write as well.
    environ = {"COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
    with running_exporter([config], tmp_path / "log", command=command, environ=environ) as exporter:
        exporter.wait_until_ready()
        assert set(exporter.samples("trainfleet_provider_up").values()) == {1.0}
        assert [line for line in exporter.log.splitlines() if "level=warn" in line or "level=error" in line] == []
        _ends_well(exporter)


def test_a_ledger_on_a_read_only_file_system(tmp_path: Path, hole: str) -> None:
    config = _config(tmp_path, hole, ledger_file="jobs.jsonl")
    environ = {**os.environ, "COVERAGE_PROCESS_START": "", "COVERAGE_PROCESS_CONFIG": ""}
    command = [*on_read_only(COMMAND, tmp_path), config, "--web.listen-address=127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, timeout=60, env=environ)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert 'global.ledger_file: found "jobs.jsonl"; allowed: a file in a folder that exists and is writable' in line
    assert not (tmp_path / "jobs.jsonl").exists()


@pytest.mark.parametrize("command", ["daemon", "demo", "once"])
def test_too_few_file_descriptors_to_start_with(tmp_path: Path, hole: str, command: str) -> None:
    arguments = {
        "daemon": [_config(tmp_path, hole), "--web.listen-address=127.0.0.1:0"],
        "demo": ["demo", "--web.listen-address=127.0.0.1:0"],
    }.get(command, [command, _config(tmp_path, hole)])
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 8; exec "$@"', "sh", *COMMAND, *arguments], capture_output=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == b"trainfleet-exporter: 8 file descriptors are too few; set `ulimit -n` to 32 or more\n"
    assert done.stdout == b""


def test_file_descriptors_run_out_while_it_runs(tmp_path: Path, cloud: tuple[Simulator, str]) -> None:
    with ExitStack() as stack:
        exporter = stack.enter_context(running_exporter([_config(tmp_path, cloud[1])], tmp_path / "log"))
        exporter.wait_until_ready()
        idle = stack.enter_context(ExitStack())
        pid = exporter.process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # About 25 of the open descriptors are connections to the cloud, which stay open while they are idle. With less
        # room, accepting the 200 connections by a roomful a second takes longer than the next client waits.
        opened = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (opened + 54, hard))
        for _ in range(200):
            idle.enter_context(_connect(exporter))
        eventually(lambda: "cannot accept connections" in exporter.log, what="descriptors to run out")
        assert _cpu_seconds(pid, during=2.5) < 1.0  # polls among it
        assert exporter.metrics().status_code == 200  # by a connection that it has already
        assert exporter.log.count("cannot accept connections") == 1
        idle.close()
        with httpx.Client(base_url=exporter.url, trust_env=False, timeout=60) as client:
            assert client.get("/metrics").status_code == 200
        eventually(lambda: "connections are accepted again" in exporter.log, what="the end of it to be told")
        assert exporter.log.count("cannot accept connections") == 1
        assert "Traceback" not in exporter.log
        _ends_well(exporter)


def _refusal(arguments: list[str]) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    return line


@pytest.mark.parametrize("command", ["daemon", "demo", "simulate"])
def test_where_it_cannot_listen_it_says_so_in_one_line(tmp_path: Path, hole: str, command: str) -> None:
    taken = hole.removeprefix("http://")
    flag = "--listen" if command == "simulate" else "--web.listen-address"
    first = {"daemon": [_config(tmp_path, hole)]}.get(command, [command])
    reported = _refusal([*first, f"{flag}={taken}"])
    assert f"cannot listen on {taken}: Address already in use" in reported
    assert flag in reported


def test_of_two_addresses_the_second_is_taken(tmp_path: Path, hole: str) -> None:
    taken = hole.removeprefix("http://")
    addresses = [f"--web.listen-address={address}" for address in ("127.0.0.1:0", taken)]
    assert f"cannot listen on {taken}: Address already in use" in _refusal([_config(tmp_path, hole), *addresses])


@pytest.mark.parametrize("signals", [1, 2])
@pytest.mark.parametrize("hang", ["hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2 * 10**9)", "open(sys.argv[1])"])
def test_hanging_call_delays_no_exit(tmp_path: Path, hang: str, signals: int) -> None:
    """Python's own handlers of signals never run here: the first call stays in C code, the second in the kernel."""
    os.mkfifo(tmp_path / "pipe")
    busy = (
        "import hashlib, sys\nfrom trainfleet_exporter.process.signals import Signals\n"
        f"with Signals():\n    print('busy', flush=True)\n    {hang}\n"
    )
    with subprocess.Popen([sys.executable, "-c", busy, tmp_path / "pipe"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"busy\n"
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            if signals == 2:
                eventually(lambda: signal.SIGTERM not in _signals(process.pid, "ShdPnd"), what="the first to be taken")
                assert process.poll() is None
                process.send_signal(signal.SIGTERM)
            assert process.wait(WITHIN) == 1
            assert time.monotonic() - began < (2 if signals == 2 else WITHIN)
        finally:
            process.kill()


def test_sighup_in_the_first_moments_does_no_harm(tmp_path: Path, hole: str) -> None:
    log = tmp_path / "log"
    command = [*COMMAND, _config(tmp_path, hole), "--web.listen-address=127.0.0.1:0"]
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        try:
            # Before our first line no handler is installed; from then on a signal comes every moment.
            eventually(lambda: _is_ready_for(process.pid, signal.SIGHUP), what="the entry point")

            def is_started_all_the_same() -> bool:
                process.send_signal(signal.SIGHUP)
                assert process.poll() is None
                return "msg=started" in log.read_text(encoding="utf-8")

            eventually(is_started_all_the_same, what="the daemon")
            process.send_signal(signal.SIGTERM)
            assert process.wait(WITHIN) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(("wrapper", "lives"), [([], False), (["nohup"], True)], ids=["terminal", "nohup"])
def test_closed_terminal_ends_once_but_not_under_nohup(
    tmp_path: Path, hole: str, wrapper: list[str], lives: bool
) -> None:
    command = [*wrapper, *COMMAND, "once", _config(tmp_path, hole)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        eventually(lambda: _sockets(process.pid) > 4, what="polls to hang")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)  # which comes second
        process.communicate(timeout=2 * WITHIN)
        assert process.returncode == (1 if lives else -signal.SIGHUP)


@pytest.mark.parametrize("arguments", [["once"], ["--config.check"]], ids=lambda words: words[0])
def test_a_full_disk_behind_the_output(tmp_path: Path, cloud: tuple[Simulator, str], arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [*COMMAND, *arguments, _config(tmp_path, cloud[1]), "--log.level=error"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert done.stderr == b"trainfleet-exporter: cannot write the output: No space left on device\n"
