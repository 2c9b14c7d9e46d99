"""Ended jobs for tests of the ledger."""

from __future__ import annotations

from datetime import UTC, datetime

from trainfleet_exporter.job_ledger.line import AcceleratorUse, EndedJob, HeldAccelerators

END = datetime(2026, 1, 2, 12, tzinfo=UTC)


def ended(job_id: str = "j1", **given: object) -> EndedJob:
    """An ended job with the given fields."""
    return EndedJob(**{"provider": "p", "job_id": job_id, "seen": END, "ended": END} | given)  # type: ignore[arg-type]


def whole(job_id: str = "j1", **given: object) -> EndedJob:
    """A job of 8 GPUs with everything known: 1 h queued, 30 min preparing, 8 h running, 30 min recovering."""
    facts = {
        "user_name": "alice",
        "pool_id": "pool",
        "labels": {"team": "llm"},
        "status": "succeeded",
        "phase_seconds": {"queued": 3600.0, "preparing": 1800.0, "running": 28800.0, "recovering": 1800.0},
        "held_seconds": 32400.0,
        "accelerators": (HeldAccelerators("gpu", "GU8T", 8),),
        "accelerator_hours": 72.0,
        "accelerator_use": AcceleratorUse(0.75, 0.9, 28000),
        "faults": {"node": 1},
        "recoveries": 1,
        "recovery_seconds": 1800.0,
    }
    return ended(job_id, **facts | given)
