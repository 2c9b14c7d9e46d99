"""Accelerator-seconds of the last 24 hours: what the phases of jobs have grown while they were polled."""

from __future__ import annotations

from trainfleet_exporter.model import Accelerators, HeldTime, Job, Phase, PhaseTime, Status
from trainfleet_exporter.providers.jobs.held_time import HeldTimes
from trainfleet_exporter.providers.jobs.histories import JobHistories
from trainfleet_exporter.providers.jobs.history import Interval, Records
from trainfleet_exporter.providers.judging import ServerClock

BEGAN = 1_760_000_400.0
"""A full hour."""
HOUR = 3600


def _job(count: float = 8, job_id: str = "j") -> Job:
    return Job(job_id=job_id, status=Status.RUNNING, accelerators=(Accelerators("gpu", "A100", count),))


def _add(times: HeldTimes, now: float, job: Job | None = None, **phases: float) -> None:
    by_phase: dict[Phase, float] = phases  # type: ignore[assignment]
    times.add(job or _job(), [PhaseTime(phase, seconds) for phase, seconds in by_phase.items()], BEGAN + now)


def test_only_what_is_added_after_the_first_reading_counts() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    _add(times, 60, queued=500, preparing=100, running=9000)
    assert times.total(BEGAN + 60) is None
    _add(times, 120, queued=500, preparing=100, recovering=15, running=9045)
    assert times.total(BEGAN + 120) == HeldTime(BEGAN, 8 * 60, 8 * 45)


def test_jobs_count_by_their_accelerators() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    for now in (0, 60):
        _add(times, now, _job(8, "a"), running=now)
        _add(times, now, _job(2, "b"), queued=10, checking=now)
        _add(times, now, _job(0, "c"), running=now)
        _add(times, now, _job(4, "d"), queued=now)
    assert times.total(BEGAN + 60) == HeldTime(BEGAN, 600, 480)


def test_late_record_moves_time_out_of_running() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    _add(times, 0, running=10)
    _add(times, 60, running=70)
    _add(times, 120, running=50, recovering=80)
    assert times.total(BEGAN + 120) == HeldTime(BEGAN, 8 * 120, 8 * 40)


def test_history_that_shrinks_takes_no_counted_time() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    _add(times, 0, queued=300, running=10)
    _add(times, 60, queued=300, running=70)
    _add(times, 120, running=40)  # trimmed
    _add(times, 180, queued=5)  # another job of this name
    _add(times, 240, queued=5, running=60)
    assert times.total(BEGAN + 240) == HeldTime(BEGAN, 8 * 120, 8 * 120)


def test_late_record_moves_held_time_into_the_queue() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    _add(times, 0, running=10)
    _add(times, 60, running=70)
    _add(times, 120, running=50, queued=80)
    assert times.total(BEGAN + 120) == HeldTime(BEGAN, 8 * 40, 8 * 40)


def test_what_is_older_than_a_day_is_forgotten() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    for hour in range(31):
        _add(times, hour * HOUR, running=hour * HOUR / 2, preparing=hour * HOUR / 2)
        times.keep_only({"j"}, BEGAN + hour * HOUR)
    assert times.total(BEGAN + 30 * HOUR) == HeldTime(BEGAN + 7 * HOUR, 8 * 24 * HOUR, 8 * 12 * HOUR)


def test_job_that_comes_back_is_not_counted_for_its_absence() -> None:
    times = HeldTimes(ServerClock(started=BEGAN))
    _add(times, 0, running=0)
    times.keep_only(set(), BEGAN)
    _add(times, 600, running=600)
    assert times.total(BEGAN + 600) is None


def test_histories_show_it_over_all_jobs() -> None:
    histories = JobHistories(ServerClock(started=BEGAN))
    histories.note("j", Records(intervals=(Interval("running", BEGAN - 100, None),)))
    histories.count(_job(), since=BEGAN)
    for now in (10, 70):
        list(histories.objects(_job(), BEGAN + now))
    assert histories.fleet(BEGAN + 70) == [HeldTime(BEGAN, 480, 480)]
