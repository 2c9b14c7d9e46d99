"""The report: sums by hand, unknown is not zero, bad lines lose only themselves."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import time_machine

from tests.job_ledger.rig import END, ended, whole
from trainfleet_exporter import cli
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.job_ledger.line import EndedJob, HeldAccelerators
from trainfleet_exporter.job_ledger.report import ReportRow, as_csv, as_text, read_ledger, report_rows

WEEK = timedelta(days=7)
COLUMNS = (
    "by,name,jobs,failed_jobs,accelerator_hours,lost_accelerator_hours,idle_accelerator_hours,queued_hours,"
    "preparing_hours,running_hours,recovering_hours,checking_hours,finishing_hours,accelerator_faults,node_faults,"
    "process_faults,hang_faults,degraded_faults,preempted_faults,other_faults,median_wait_seconds,longest_wait_seconds"
)


def _table(*jobs: EndedJob) -> dict[tuple[str, str], dict[str, str]]:
    rows = csv.DictReader(io.StringIO(as_csv(report_rows(jobs))))
    return {(row["by"], row["name"]): row for row in rows}


def _write(path: Path, *jobs: EndedJob | bytes) -> None:
    lines = [job if isinstance(job, bytes) else msgspec.json.encode(job) for job in jobs]
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def test_sums_by_hand() -> None:
    """Two jobs of alice: 8 GPUs as in the rig, and one that waited for 2 h and failed at once."""
    failed = whole("j2", status="failed", phase_seconds={"queued": 7200.0}, accelerator_hours=0.0, faults={})
    row = _table(whole(), failed)["user", "alice"]
    assert list(row) == COLUMNS.split(",")
    assert (row["jobs"], row["failed_jobs"]) == ("2", "1")
    assert float(row["accelerator_hours"]) == 72
    assert float(row["lost_accelerator_hours"]) == 8 * 1.0
    assert float(row["idle_accelerator_hours"]) == 8 * 8 * 0.25
    assert [float(row[f"{phase}_hours"]) for phase in ("queued", "preparing", "running", "recovering")] == [
        3,
        0.5,
        8,
        0.5,
    ]
    assert (row["node_faults"], row["hang_faults"]) == ("1", "0")
    assert (float(row["median_wait_seconds"]), float(row["longest_wait_seconds"])) == (5400, 7200)


def test_groups_are_users_pools_and_labels() -> None:
    jobs = (
        whole(),
        whole("j2", user_name="", user_id="42", pool_id="", labels={}),
        whole("j3", user_name="", pool_id="other", labels={"team": "llm", "project": "x"}),
    )
    table = _table(*jobs)
    assert {key: row["jobs"] for key, row in table.items()} == {
        ("all", ""): "3",
        ("user", "alice"): "1",
        ("user", "42"): "1",
        ("user", ""): "1",
        ("pool", "pool"): "1",
        ("pool", ""): "1",
        ("pool", "other"): "1",
        ("label:project", ""): "2",
        ("label:project", "x"): "1",
        ("label:team", "llm"): "2",
        ("label:team", ""): "1",
    }


def test_most_accelerator_hours_come_first() -> None:
    jobs = [whole(f"j{hours}", user_name=f"u{hours}", accelerator_hours=float(hours)) for hours in (1, 30, 7)]
    assert [row.name for row in report_rows(jobs) if row.by == "user"] == ["u30", "u7", "u1"]


def test_what_is_not_known_is_empty_and_not_zero() -> None:
    row = _table(ended(status="failed"))["all", ""]
    assert {name for name, value in row.items() if value == ""} == set(COLUMNS.split(",")) - {
        "by",
        "jobs",
        "failed_jobs",
    }
    row = _table(ended(phase_seconds={"running": 60.0}, faults={}))["all", ""]
    assert (row["running_hours"], row["queued_hours"], row["node_faults"]) == ("0.016667", "", "0")
    assert (row["lost_accelerator_hours"], row["longest_wait_seconds"]) == ("", "0.0")


def test_accelerators_without_use_are_not_idle() -> None:
    cpu_only = ended("cpu", phase_seconds={"running": 60.0}, accelerators=(HeldAccelerators("gpu", "", 0),))
    assert _table(cpu_only)["all", ""]["lost_accelerator_hours"] == "0.0"
    assert _table(whole(accelerator_use=None))["all", ""]["idle_accelerator_hours"] == ""


def test_causes_of_a_newer_exporter_are_other() -> None:
    assert _table(whole(faults={"gremlins": 2, "other": 1}))["all", ""]["other_faults"] == "3"


def test_no_jobs_make_a_report() -> None:
    assert list(_table()) == [("all", "")]
    text = as_text(report_rows([]), END - WEEK, END)
    assert text.startswith("0 jobs ended from 2025-12-26 12:00 to 2026-01-02 12:00 UTC.")


def test_days_cut_by_the_end(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    before, unknown = END - timedelta(days=8), END - timedelta(days=1)
    _write(path, ended("a"), ended("b", ended=before), ended("c", ended=None, seen=unknown), ended("d", seen=before))
    jobs, invalid = read_ledger(path, END - WEEK)
    assert ([job.job_id for job in jobs], invalid) == (["a", "c", "d"], [])


def test_an_id_that_is_used_again_is_a_new_job(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    lives = [END - timedelta(days=2), END - timedelta(days=1)]
    _write(path, *(ended("nightly", created=created) for created in (*lives, lives[1])))
    jobs, _ = read_ledger(path, END - WEEK)
    assert [job.created for job in jobs] == lives


def test_time_of_finishing_is_lost() -> None:
    job = whole(phase_seconds={"running": 3600.0, "finishing": 900.0})
    row = _table(job)["all", ""]
    held = sum(each.count for each in job.accelerators)
    assert (float(row["lost_accelerator_hours"]), row["finishing_hours"]) == (held / 4, "0.25")


def test_the_latest_line_of_a_job_counts(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    _write(path, whole(status="failed"), whole("j2"), whole(provider="q"), whole(status="succeeded"))
    jobs, _ = read_ledger(path, END - WEEK)
    assert [(job.provider, job.job_id, job.status) for job in jobs] == [
        ("p", "j1", "succeeded"),
        ("p", "j2", "succeeded"),
        ("q", "j1", "succeeded"),
    ]


def test_invalid_lines_are_named_and_the_rest_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ledger.jsonl"
    negative = msgspec.json.encode(ended()).replace(b'"seen"', b'"held_seconds":-1,"seen"')
    no_zone = msgspec.json.encode(ended()).replace(b"Z", b"")
    bad = (b"{", b"[]", b'{"provider": "p", "job_id": "x"}', negative, b"\xff", no_zone)
    newer = msgspec.json.encode(whole()).replace(b'"provider"', b'"new_field":[1],"provider"')
    _write(path, *bad, newer, b"", b'{"torn')
    assert read_ledger(path, END - WEEK) == ([whole()], [1, 2, 3, 4, 5, 6, 9])
    with time_machine.travel(END.timestamp(), tick=False):
        assert cli.main(["report", f"--ledger={path}"]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"report: {path}: skipped 7 invalid line(s): 1, 2, 3, 4, 5, 6, 9\n"
    assert printed.out.startswith("1 jobs ended ")


def test_a_missing_ledger_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StartError):
        read_ledger(tmp_path / "none", END)
    assert cli.main(["report", f"--ledger={tmp_path / 'none'}"]) == 1
    assert capsys.readouterr().err == (
        f"trainfleet-exporter: cannot read the ledger {tmp_path / 'none'}: No such file or directory; --ledger takes "
        "the file that the exporter writes (its flag --ledger, or global.ledger_file)\n"
    )


def test_text_is_readable_in_120_columns() -> None:
    long = whole("j2", user_name="a user with a name that is\nvery long", accelerator_hours=12345678.0)
    text = as_text(report_rows([whole(), long, ended("j3")]), END - WEEK, END)
    lines = text.splitlines()
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
    nobody = next(line for line in lines if line.startswith("(no name)"))
    assert nobody.split()[2:] == ["1", "0", "-", "-", "-", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("name", "cell"),
    [("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@A1", "'@A1"), ("\t=1", "\\t=1"), ("\r=1", "\\r=1")],
)
def test_no_text_cell_of_csv_is_a_formula(name: str, cell: str) -> None:
    job = whole(user_name=name, pool_id=name, labels={name: name})
    table = _table(job)
    assert {(by, name) for by, name in table if by != "all"} == {
        ("user", cell),
        ("pool", cell),
        (f"label:{name}" if name.isprintable() else f"label:{cell}", cell),
    }
    assert all(float(row["accelerator_hours"]) > 0 for row in table.values())


def test_negative_numbers_of_csv_stay_numbers() -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv([ReportRow("user", "alice", idle_hours=-1.5)])))
    assert (row["name"], row["idle_accelerator_hours"]) == ("alice", "-1.5")
