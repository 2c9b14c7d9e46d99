"""A line of the ledger: what is not known is left out, and a known zero is 0."""

from __future__ import annotations

import json

import msgspec

from trainfleet_exporter.job_ledger import ended_job
from trainfleet_exporter.job_ledger.line import AcceleratorUse, EndedJob
from trainfleet_exporter.model import Accelerators, FaultCount, Job, JobEnd, PhaseTime, ProviderFacts, Status

FACTS = ProviderFacts("alibaba_pai", "cn-hangzhou")
T = 1_767_348_000.0


def _line(end: JobEnd, use: AcceleratorUse | None = None) -> dict[str, object]:
    found: dict[str, object] = json.loads(msgspec.json.encode(ended_job("p", FACTS, end, use, job_labels=["team"])))
    assert msgspec.json.decode(msgspec.json.encode(found), type=EndedJob).job_id == end.job.job_id
    return found


def test_whole_line() -> None:
    job = Job(
        job_id="j",
        name="llm",
        workspace_id="1",
        pool_id="pool",
        user_id="42",
        user_name="alice",
        status=Status.FAILED,
        created=T,
        submitted=T + 1,
        started=T + 10.5,
        finished=T + 3610.5,
        accelerators=(Accelerators("gpu", "GU8T", 8.0),),
        tags=(("team", "llm"), ("secret-plan", "no")),
    )
    end = JobEnd(
        job=job,
        seen=T + 3660,
        phases=(PhaseTime("queued", 10.5), PhaseTime("running", 3600.0)),
        held=3600.0,
        faults=(FaultCount("node", "x", 1), FaultCount("node", "y", 2), FaultCount("hang", "", 1)),
        recoveries=0,
        recovery_seconds=0.0,
    )
    assert _line(end, AcceleratorUse(0.5, 0.75, 3000.0)) == {
        "provider": "p",
        "platform": "alibaba_pai",
        "region": "cn-hangzhou",
        "workspace_id": "1",
        "job_id": "j",
        "job_name": "llm",
        "user_id": "42",
        "user_name": "alice",
        "pool_id": "pool",
        "labels": {"team": "llm"},
        "status": "failed",
        "created": "2026-01-02T10:00:00Z",
        "queued": "2026-01-02T10:00:01Z",
        "started": "2026-01-02T10:00:10.500000Z",
        "ended": "2026-01-02T11:00:10.500000Z",
        "seen": "2026-01-02T11:01:00Z",
        "phase_seconds": {"queued": 10.5, "running": 3600.0},
        "held_seconds": 3600.0,
        "accelerators": [{"kind": "gpu", "model": "GU8T", "count": 8.0}],
        "accelerator_hours": 8.0,
        "accelerator_use": {"mean": 0.5, "peak": 0.75, "seen_seconds": 3000.0},
        "faults": {"node": 3, "hang": 1},
        "recoveries": 0,
        "recovery_seconds": 0.0,
    }


def test_what_is_not_known_is_left_out() -> None:
    assert _line(JobEnd(job=Job(job_id="j", status=Status.STOPPED, finished=1e30), seen=T)) == {
        "provider": "p",
        "platform": "alibaba_pai",
        "region": "cn-hangzhou",
        "job_id": "j",
        "status": "stopped",
        "seen": "2026-01-02T10:00:00Z",
    }
