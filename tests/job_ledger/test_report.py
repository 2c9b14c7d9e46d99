"""The command `report`: sums by hand, unknown is not zero, bad lines lose only themselves."""

from __future__ import annotations

import csv
import io
import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import time_machine

from tests.job_ledger.rig import END, ended, whole
from trainfleet_exporter import cli
from trainfleet_exporter.job_ledger.line import EndedJob, HeldAccelerators

COLUMNS = [
    *("by", "name", "jobs", "failed_jobs", "accelerator_hours", "lost_accelerator_hours", "idle_accelerator_hours"),
    *("queued_hours", "preparing_hours", "running_hours", "recovering_hours", "checking_hours", "finishing_hours"),
    *("accelerator_faults", "node_faults", "process_faults", "hang_faults", "degraded_faults", "preempted_faults"),
    *("other_faults", "median_wait_seconds", "longest_wait_seconds"),
]
THRESHOLDS = Path(__file__).parents[2] / "deploy/prometheus/thresholds.yaml"


class Printed(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> dict[tuple[str, str], dict[str, str]]:
        return {(row["by"], row["name"]): row for row in csv.DictReader(self.out.splitlines())}


Report = Callable[..., Printed]


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    """Write lines to a ledger and run the command on it, as CSV unless flags say otherwise."""

    def run(*jobs: EndedJob | bytes, flags: tuple[str, ...] = ("--format=csv",)) -> Printed:
        lines = [job if isinstance(job, bytes) else msgspec.json.encode(job) for job in jobs]
        (tmp_path / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        with time_machine.travel(END.timestamp(), tick=False):
            code = cli.main(["report", f"--ledger={tmp_path / 'ledger.jsonl'}", *flags])
        return Printed(code, *capsys.readouterr())

    return run


def test_sums_by_hand(report: Report) -> None:
    """Two jobs of alice: 8 GPUs as in the rig, and one that waited for 2 h and failed at once."""
    failed = whole("j2", status="failed", phase_seconds={"queued": 7200.0}, accelerator_hours=0.0, faults={})
    row = report(whole(), failed).rows["user", "alice"]
    assert list(row) == COLUMNS
    assert [float(row[name] or -1) for name in COLUMNS[2:]] == [
        *(2, 1, 72, 8 * 1.0, 8 * 8 * 0.25),
        *(3, 0.5, 8, 0.5, -1, -1),
        *(0, 1, 0, 0, 0, 0, 0),
        *(5400, 7200),
    ]


def test_groups_are_users_pools_and_labels(report: Report) -> None:
    jobs = (
        whole(),
        whole("j2", user_name="", user_id="42", pool_id="", labels={}),
        whole("j3", user_name="", pool_id="other", labels={"team": "llm", "project": "x"}, accelerator_hours=80.0),
    )
    assert {key: row["jobs"] for key, row in report(*jobs).rows.items()} == {
        ("all", ""): "3",
        ("user", ""): "1",  # most accelerator-hours first
        ("user", "42"): "1",
        ("user", "alice"): "1",
        ("pool", "other"): "1",
        ("pool", ""): "1",
        ("pool", "pool"): "1",
        ("label:project", ""): "2",
        ("label:project", "x"): "1",
        ("label:team", "llm"): "2",
        ("label:team", ""): "1",
    }
    assert [name for by, name in report(*jobs).rows if by == "pool"] == ["other", "", "pool"]


def test_unknown_is_empty_and_not_zero(report: Report) -> None:
    row = report(ended(status="failed")).rows["all", ""]
    assert {name for name, value in row.items() if value} == {"by", "jobs", "failed_jobs"}
    row = report(ended(phase_seconds={"running": 60.0}, faults={})).rows["all", ""]
    assert (row["running_hours"], row["queued_hours"], row["node_faults"]) == ("0.016667", "", "0")
    assert (row["lost_accelerator_hours"], row["longest_wait_seconds"]) == ("", "0.0")
    cpu_only = ended("cpu", phase_seconds={"running": 60.0}, accelerators=(HeldAccelerators("gpu", "", 0),))
    assert report(cpu_only).rows["all", ""]["lost_accelerator_hours"] == "0.0"
    assert report(whole(accelerator_use=None)).rows["all", ""]["idle_accelerator_hours"] == ""


def test_causes_of_a_newer_exporter_are_other(report: Report) -> None:
    assert report(whole(faults={"gremlins": 2, "other": 1})).rows["all", ""]["other_faults"] == "3"


def test_time_of_finishing_is_lost(report: Report) -> None:
    row = report(whole(phase_seconds={"running": 3600.0, "finishing": 900.0})).rows["all", ""]
    assert (row["lost_accelerator_hours"], row["finishing_hours"]) == ("2.0", "0.25")
    # Lines that have it say how much of these phases was held.
    assert report(whole(lost_seconds=450.0)).rows["all", ""]["lost_accelerator_hours"] == "1.0"


def test_names_that_the_terminal_cannot_show_are_escaped(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as terminal:
        terminal.setattr(sys, "stdout", io.TextIOWrapper(shown := io.BytesIO(), "latin-1"))
        assert report(ended("a", user_name="\u5f20\u4e09"), flags=()).code == 0
        assert b"\\u5f20\\u4e09" in shown.getvalue()


def test_days_cut_by_the_end(report: Report) -> None:
    before, unknown = END - timedelta(days=8), END - timedelta(days=1)
    jobs = (ended("a"), ended("b", ended=before), ended("c", ended=None, seen=unknown), ended("d", seen=before))
    assert report(*jobs).rows["all", ""]["jobs"] == "3"
    assert report(*jobs, flags=("--format=csv", "--days=9")).rows["all", ""]["jobs"] == "4"
    assert report(flags=()).out.startswith("0 jobs ended from 2025-12-26 12:00 to 2026-01-02 12:00 UTC.")


def test_the_last_line_of_each_life_of_an_id_counts(report: Report) -> None:
    lives = [END - timedelta(days=2), END - timedelta(days=1)]
    jobs = [ended("nightly", created=created, status="failed") for created in (*lives, lives[1])]
    again = ended("nightly", created=lives[1], status="succeeded")
    row = report(*jobs, again, ended("nightly", provider="q")).rows["all", ""]
    assert (row["jobs"], row["failed_jobs"]) == ("3", "1")
    early = ended("a", ended=END - timedelta(days=7.05))  # the last line has an end, which is too early
    assert report(ended("a", ended=None, seen=END - timedelta(days=6.9)), early).rows["all", ""]["jobs"] == "0"


def test_invalid_lines_are_named_and_the_rest_used(report: Report) -> None:
    negative = msgspec.json.encode(ended()).replace(b'"seen"', b'"held_seconds":-1,"seen"')
    no_zone = msgspec.json.encode(ended()).replace(b"Z", b"")
    bad = (b"{", b"[]", b'{"provider": "p", "job_id": "x"}', negative, b"\xff", no_zone)
    newer = msgspec.json.encode(whole()).replace(b'"provider"', b'"new_field":[1],"provider"')
    printed = report(*bad, newer, b"", b'{"torn')
    assert (printed.code, printed.rows["all", ""]["jobs"]) == (0, "1")
    assert printed.err.endswith("ledger.jsonl: skipped 7 invalid line(s): 1, 2, 3, 4, 5, 6, 9\n")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "No such file or directory"),
        ("pipe", "it could not be read within 0.1 seconds"),
        (".", "Is a directory"),
    ],
)
def test_an_unusable_ledger_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    monkeypatch.setattr("trainfleet_exporter.job_ledger.report.PIPE_SECONDS", 0.1)
    os.mkfifo(tmp_path / "pipe")  # without a writer
    assert cli.main(["report", f"--ledger={tmp_path / name}"]) == 1
    assert capsys.readouterr().err == (
        f"trainfleet-exporter: cannot read the ledger {tmp_path / name}: {reason}; --ledger takes "
        "the file that the exporter writes (its flag --ledger, or global.ledger_file)\n"
    )


def test_a_ledger_may_come_through_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    writing = (tmp_path / "pipe").write_bytes
    threading.Thread(target=writing, args=(msgspec.json.encode(whole()),), daemon=True).start()
    assert cli.main(["report", f"--ledger={tmp_path / 'pipe'}", "--days=9999"]) == 0
    assert capsys.readouterr().out.startswith("1 jobs ended")


def test_cost_is_at_the_prices_of_the_rules(report: Report) -> None:
    """8 GPUs at 52.0 for 9 h, and 4 of an unpriced model."""
    new = whole("j2", user_name="bob", accelerators=(HeldAccelerators("gpu", "NEW", 4),), accelerator_hours=36.0)
    jobs, flags = (whole(), new, ended("j3", user_name="carol")), (f"--prices={THRESHOLDS}",)
    rows = report(*jobs, flags=("--format=csv", *flags)).rows
    assert list(rows["all", ""]) == [*COLUMNS, "cost", "unpriced_accelerator_hours", "currency"]
    assert {
        name: list(row.values())[-3:] for (by, name), row in rows.items() if by != "pool" and "label" not in by
    } == {
        "": ["3744.0", "36.0", "CNY"],
        "alice": ["3744.0", "0.0", "CNY"],
        "bob": ["", "36.0", "CNY"],
        "carol": ["", "", "CNY"],
    }
    text = report(*jobs, flags=flags).out
    assert "\nCost: prices in CNY. Without a price: 36.0 accelerator-hours.\n" in text
    assert max(map(len, text.splitlines())) <= 120
    costs = [line.split()[0::11] for line in text.splitlines() if line.startswith(("user", "alice", "bob"))]
    assert costs == [["user", "cost"], ["alice", "3,744.0"], ["bob", "-"]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("prices: {GU8T: dear}\n", ":1: prices.GU8T: found no price; allowed: a number from 0, such as 52.0"),
        ("prices: {GU8T: -1}\n", ":1: prices.GU8T: found no price; allowed: a number from 0, such as 52.0"),
        ("prices: {GU8T: .nan}\n", ":1: prices.GU8T: found no price; allowed: a number from 0, such as 52.0"),
        ("currency: CNY\n", ":1: prices: required, but missing; allowed: the price of an hour by accelerator model"),
        ("prices: {}\ncurrency: [CNY]\n", ":2: currency: found no text; allowed: a currency such as CNY"),
    ],
)
def test_invalid_prices_are_refused(report: Report, tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    assert report(whole(), flags=(f"--prices={path}",)) == (2, "", f"{path}{fault}\n")
    path.unlink()
    assert "cannot read the prices" in report(whole(), flags=(f"--prices={path}",)).err


def test_text_is_readable_in_120_columns(report: Report) -> None:
    long = whole("j2", user_name="a user with a name that is\nvery long", accelerator_hours=12345678.0)
    lines = report(whole(), long, ended("j3"), flags=()).out.splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[:3] == [
        "3 jobs ended from 2025-12-26 12:00 to 2026-01-02 12:00 UTC.",
        "Hours of jobs by phase: queued 2.0, preparing 1.0, running 16.0, recovering 1.0.",
        "Faults by cause: node 2.",
    ]
    head = next(line for line in lines if line.startswith("user "))
    assert head.split()[:5] == ["user", "jobs", "failed", "acc-hours", "lost"]
    assert {len(line) for line in lines if line.startswith(("user ", "alice ", "pool ", "llm "))} == {len(head)}
    alice = next(line for line in lines if line.startswith("alice"))
    assert alice.split() == ["alice", "1", "0", "72.0", "8.0", "16.0", "8.0", "1.0", "1h00m", "1h00m", "1"]
    unnamed = next(line for line in lines if line.startswith("(no name)"))
    assert unnamed.split()[2:] == ["1", "0", "-", "-", "-", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("name", "cell"),
    [("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@A1", "'@A1"), ("\t=1", "\\t=1"), ("\r=1", "\\r=1")],
)
def test_no_text_cell_of_csv_is_a_formula(report: Report, tmp_path: Path, name: str, cell: str) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text('prices: {GU8T: 1}\ncurrency: "=1+1"\n', encoding="utf-8")
    rows = report(
        whole(user_name=name, pool_id=name, labels={name: name}), flags=("--format=csv", f"--prices={prices}")
    ).rows
    assert {(by, name) for by, name in rows if by != "all"} == {
        ("user", cell),
        ("pool", cell),
        (f"label:{name}" if name.isprintable() else f"label:{cell}", cell),
    }
    assert {row["currency"] for row in rows.values()} == {"'=1+1"}
    assert all(float(row["accelerator_hours"]) > 0 for row in rows.values())
