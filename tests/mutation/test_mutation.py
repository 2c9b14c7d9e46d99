"""The mistakes that `make mutate` tries, and how it judges a run of tests."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mutation.explained import explained
from mutation.forked import Broken, fate_of, file_of, garbage_told
from mutation.operators import mutants
from mutation.targets import TARGETS

ROOT = Path(__file__).parent.parent.parent


def changes(source: str) -> list[str]:
    return [mutant.name.partition(": ")[2] for mutant in mutants(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a = b < c", ["a = b < c → a = b <= c", "a = b < c → a = b >= c"]),
        ("a = b and c", ["a = b and c → a = b or c", "a = b and c → a = c", "a = b and c → a = b"]),
        ("a = min(b, c)", ["a = min(b, c) → a = max(b, c)"]),
        ("a = math.floor(b)", ["a = math.floor(b) → a = math.ceil(b)"]),
        ("a = not b", ["a = not b → a = b"]),
        ("a = 1", ["a = 1 → a = 2"]),
        ("a = [b for b in c if b]", ["a = [b for b in c if b] → a = [b for b in c]"]),
        ("if a:\n    b()", ["if a → if not a", "without b()"]),
        ("with a:\n    b()", ["without with a", "without b()"]),
        ("log.info('for people')", ["without log.info('for people')"]),
        ("a.b = c", ["without a.b = c"]),
        ('"""For people."""', []),
        ("a: str | None", []),
        ("assert a > 0", []),
    ],
)
def test_what_is_tried(source: str, expected: list[str]) -> None:
    assert changes(source) == expected


def test_a_name_says_where_and_stays_when_lines_move() -> None:
    source = "class A:\n    def b(self):\n        c()\n        c()\n        return 1\n"
    names = ["A.b: without c()", "A.b: without c() (2)", "A.b: return 1 → return None", "A.b: return 1 → return 2"]
    assert [mutant.name for mutant in mutants(source)] == names
    assert [mutant.name for mutant in mutants("# a comment\n" + source)] == names


def test_each_has_its_own_mistake_and_no_other() -> None:
    results = []
    for mutant in mutants("a = 1\nb = 2\n"):
        found: dict[str, int] = {}
        exec(mutant.compiled("one.py"), found)
        results.append((found["a"], found["b"]))
    assert results == [(2, 2), (1, 3)]


def test_a_test_counts_where_it_runs_the_function() -> None:
    (first, *_, last) = mutants("a = 1\ndef b(\n    c=2\n):\n    def d():\n        e()\n    d()\n")
    assert (first.line, first.lines) == (1, range(1, 2))
    assert (last.line, last.lines) == (7, range(5, 8))


def test_every_explanation_is_of_a_mutant_that_there_is() -> None:
    reasons = explained()
    for target in TARGETS:
        names = {mutant.name for mutant in mutants(file_of(target).read_text())}
        assert reasons.pop(target.module, {}).keys() <= names
    assert not reasons


@pytest.mark.parametrize(
    ("code", "fate"),
    [(0, "survived"), (1, "killed"), (2, "killed"), (-signal.SIGSEGV, "killed"), (-signal.SIGALRM, "timed out")],
)
def test_what_a_run_says(code: int, fate: str) -> None:
    assert fate_of(code) == fate


@pytest.mark.parametrize("code", [int(pytest.ExitCode.USAGE_ERROR), int(pytest.ExitCode.NO_TESTS_COLLECTED), 70, None])
def test_what_says_nothing_of_a_mutant_counts_for_nothing(code: int | None) -> None:
    with pytest.raises(Broken):
        fate_of(code)


@pytest.mark.parametrize("collected", [1, 2])
def test_a_run_whose_garbage_complains_has_failed(collected: int) -> None:
    found = [pytest.PytestUnraisableExceptionWarning("a coroutine was never awaited") for _ in range(collected)]

    def run() -> int:
        raise found[0] if collected == 1 else ExceptionGroup("as pytest raises several", found)

    assert garbage_told(run) == pytest.ExitCode.TESTS_FAILED
    assert garbage_told(lambda: 0) == 0
    with pytest.raises(ZeroDivisionError):
        garbage_told(lambda: 1 // 0)


@pytest.mark.long
def test_a_mistake_that_is_noticed_and_one_that_cannot_be() -> None:
    command = [sys.executable, "-m", "mutation", "negotiation", "--only", "^_exactness: return 5", "--jobs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "| negotiation: `page/negotiation.py` | 2 | 1 | 0 | 1 | 50.0 % |" in done.stdout
    assert done.returncode == 0, done.stderr


def test_what_is_explained_twice_is_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "explained.toml"
    file.write_text('[["a.py"]]\nwhy = "x"\nmutants = ["b", "b"]\n')
    with pytest.raises(ValueError, match="explained twice: b"):
        explained(file)
