"""Runs of tests in forked processes: each imports our code anew, with or without a mistake in one module of it."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import settings

from mutation.operators import Mutant
from mutation.targets import Target

_OURS = ("trainfleet_exporter", "tests", "mutation", "conftest", "__main__", "__mp_main__")
_FORK = multiprocessing.get_context("fork")
_MEMORY = 4 << 30
"""Bytes of address space that a run may take: some mistakes gather things for ever."""
_START = 60.0
"""Seconds in which the tests have to be imported."""
_LEAST, _TIMES = 5.0, 5.0
"""Seconds that a test may always take, and how many times as long as without a mistake."""
_ONCE_MORE = 4.0
"""How many times as long what took too long may take, when it is tried once more and by itself."""
_CRASHED = 70
"""The exit code of a run that came to nothing, by a fault of this runner."""
_DOUBTFUL = (-signal.SIGALRM, _CRASHED)
"""The exit codes of runs that are tried once more."""
_NOTICED = frozenset(
    map(int, (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR))
)
"""The exit codes of tests that fail, or cannot be imported."""
_OPTIONS = (
    "-x",
    "-q",
    "--assert=plain",  # which takes less time, and nobody reads why a test failed
    "-m",
    "not long",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",  # libraries are imported before the fork
    "--hypothesis-profile=mutation",
)

# Few examples, and the same in each run, so that a survivor is one again the next time.
settings.register_profile("mutation", max_examples=10, deadline=None, derandomize=True, database=None)


@dataclass(slots=True)
class Sound:
    """A run without a mistake."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test took."""
    runs: dict[int, list[str]] = field(default_factory=dict)
    """By line, the tests that run it; an empty name is its import."""
    libraries: list[str] = field(default_factory=list)

    def concerned(self, lines: range) -> dict[str, float]:
        """The tests that run one of the lines, with the seconds that they take."""
        names = {name for line in lines for name in self.runs.get(line, ())}
        if "" in names:
            names = {name for found in self.runs.values() for name in found}
        return {name: self.seconds[name] for name in names if name in self.seconds}


class Broken(Exception):
    """Tests fail, or cannot be run, without any mistake."""


def file_of(target: Target) -> Path:
    """The source of a module, found without importing it."""
    package = find_spec("trainfleet_exporter")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / target.module


@contextmanager
def compiled_once() -> Iterator[None]:
    """Have what runs import compiled by the first of them alone, whatever the environment says of that."""
    before = sys.dont_write_bytecode, sys.pycache_prefix
    with tempfile.TemporaryDirectory() as folder:
        sys.dont_write_bytecode, sys.pycache_prefix = False, folder
        try:
            yield
        finally:
            sys.dont_write_bytecode, sys.pycache_prefix = before


def measure(target: Target) -> Sound:
    """Run a module's tests without a mistake; what they import is imported here, for the runs to come."""
    with tempfile.TemporaryFile() as output:
        ours, theirs = _FORK.Pipe(duplex=False)
        measuring = _FORK.Process(
            target=_in_child, args=(output.fileno(), lambda: _measure(target, theirs)), daemon=True
        )
        measuring.start()
        theirs.close()
        with suppress(EOFError):
            sound: Sound = ours.recv()
        measuring.join()
        if measuring.exitcode:
            output.seek(0)
            raise Broken(f"the tests of {target.module} fail as it is:\n{output.read().decode(errors='replace')}")
    for name in sound.libraries:
        with suppress(Exception):  # some are only there while others are imported
            importlib.import_module(name)
    return sound


def judged(target: Target, found: Sequence[Mutant], sound: Sound, jobs: int) -> Iterator[tuple[Mutant, str]]:
    """Each mutant with what became of it: `killed`, `timed out` or `survived`; several are run at a time.

    Broken where the tests do not pass in just such a run without a mistake.
    """
    file = file_of(target)
    sound_code = compile(file.read_text(encoding="utf-8"), str(file), "exec")
    if (fate := _alone(_trying(target, lambda: sound_code, sound.seconds))) != "survived":
        raise Broken(f"{target.module} without a mistake: {fate}")
    running: dict[int, tuple[ForkProcess, Mutant]] = {}
    waiting = iter(found)
    late: list[Mutant] = []
    with Path(os.devnull).open("wb") as nowhere:
        while True:
            for mutant in waiting:
                tests = sound.concerned(mutant.lines)
                if not tests:
                    yield mutant, "survived"
                    continue
                process = _started(nowhere.fileno(), _trying(target, _code(target, mutant), tests))
                running[process.sentinel] = process, mutant
                if len(running) >= jobs:
                    break
            if not running:
                break
            for sentinel in wait(list(running)):
                assert isinstance(sentinel, int)
                process, mutant = running.pop(sentinel)
                process.join()
                if process.exitcode in _DOUBTFUL:
                    late.append(mutant)
                else:
                    yield mutant, fate_of(process.exitcode)
    for mutant in late:  # maybe only because of the others
        tests = sound.concerned(mutant.lines)
        try:
            yield mutant, _alone(_trying(target, _code(target, mutant), tests, _ONCE_MORE))
        except Broken as error:
            raise Broken(f"{target.module}: {mutant.name}: {error}") from None


def fate_of(code: int | None) -> str:
    """What a run's exit code says of its mutant. Broken where it says nothing of it."""
    if code == pytest.ExitCode.OK:
        return "survived"
    if code == -signal.SIGALRM:
        return "timed out"
    if code in _NOTICED or (code is not None and code < 0):  # a crash of the interpreter is noticed, too
        return "killed"
    raise Broken(f"a run of tests ended with {code}, which says nothing of its mutant")


def _alone(run: Callable[[], int]) -> str:
    with tempfile.TemporaryFile() as output:
        process = _started(output.fileno(), run)
        process.join()
        try:
            return fate_of(process.exitcode)
        except Broken as error:
            output.seek(0)
            raise Broken(f"{error}:\n{output.read().decode(errors='replace')}") from None


def _started(output: int, run: Callable[[], int]) -> ForkProcess:
    process = _FORK.Process(target=_in_child, args=(output, run), daemon=True)
    process.start()
    return process


def _code(target: Target, mutant: Mutant) -> Callable[[], Any]:
    return lambda: mutant.compiled(str(file_of(target)))


def _in_child(output: int, run: Callable[[], int]) -> None:
    os.setpgid(0, 0)  # an interrupt is for the parent
    os.dup2(output, 1)
    os.dup2(output, 2)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    _allow(_START)
    try:
        code = run()
    except BaseException:  # noqa: BLE001 - whatever it is, no test has told it
        traceback.print_exc()
        code = _CRASHED
    sys.stdout.flush()
    os._exit(code)  # threads of a test that a mistake left behind are not waited for


def _allow(seconds: float) -> None:
    """Have the process killed after so many seconds from now."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _trying(
    target: Target, code_of: Callable[[], Any], tests: Mapping[str, float], patience: float = 1.0
) -> Callable[[], int]:
    def run() -> int:
        sys.meta_path.insert(0, _Finder(target.dotted, str(file_of(target)), code_of()))
        files = Counter(name.partition("::")[0] for name in tests)
        for name, _ in files.most_common():  # which fails in most cases, and then the rest need not be imported
            _allow(_START)
            arguments, chosen = [*_OPTIONS, "--tb=no", name], _Chosen(tests, patience)
            code = garbage_told(partial(pytest.main, arguments, plugins=[chosen]))
            if code != pytest.ExitCode.OK:
                return int(code)
        return 0

    return run


def garbage_told(run: Callable[[], int]) -> int:
    """The exit code of a run of tests, whose garbage (a coroutine that nobody awaited) fails it, as on a command line.

    pytest raises what is found of it when all tests have ended, whether they had failed or not.
    """
    code = int(pytest.ExitCode.TESTS_FAILED)
    try:
        code = run()
    except* pytest.PytestUnraisableExceptionWarning:
        pass
    return code


def _measure(target: Target, answers: Connection) -> int:
    _allow(0)
    file = str(file_of(target))
    measured = coverage.Coverage(data_file=None, config_file=False, include=[file])
    measuring = _Measuring(measured)
    measured.start()
    code = int(pytest.main([*_OPTIONS, *target.tests], plugins=[measuring]))
    measured.stop()
    runs = measured.get_data().contexts_by_lineno(file)
    libraries = [name for name in sys.modules if name.partition(".")[0] not in _OURS]
    answers.send(Sound(dict(measuring.seconds), runs, libraries))
    return code


class _Measuring:
    """Notes of each test how long it takes and, by its name as coverage's context, which lines it runs."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._measured = measured

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self._measured.switch_context(item.nodeid)
        result = yield
        self._measured.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration


class _Chosen:
    """Runs some tests only, the quick ones first, each for a limited time."""

    def __init__(self, seconds: Mapping[str, float], patience: float) -> None:
        self._seconds = seconds
        self._patience = patience

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._seconds), key=lambda item: self._seconds[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        _allow((_LEAST + _TIMES * self._seconds[item.nodeid]) * self._patience)
        result = yield
        _allow(_START)
        return result


class _Finder(MetaPathFinder):
    """Finds the module with the mistake in place of the one without."""

    def __init__(self, name: str, file: str, code: Any) -> None:
        self._name = name
        self._file = file
        self._code = code

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return spec_from_file_location(fullname, self._file, loader=_Loader(fullname, self._file, self._code))


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: str, code: Any) -> None:
        super().__init__(name, file)
        self._code = code

    def get_code(self, fullname: str) -> Any:
        return self._code
