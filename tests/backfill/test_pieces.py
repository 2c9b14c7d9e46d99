"""The pieces of a backfill, one by one: times, labels, wholes, records, files, progress."""

from __future__ import annotations

import io
import logging
import re
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backfill.rig import MIDNIGHT, samples
from tests.support.logs import lines_of
from trainfleet_exporter.backfill.command import label
from trainfleet_exporter.backfill.days import days, moment, name_of, shown
from trainfleet_exporter.backfill.progress import Progress
from trainfleet_exporter.backfill.series import PLACES, Namer, steady
from trainfleet_exporter.backfill.spool import Spool
from trainfleet_exporter.backfill.writer import write_day
from trainfleet_exporter.config import Global, Metrics
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.model import Accelerators, DeviceUsage, Job, JobUsage, PodUsage, Status, UsageSource
from trainfleet_exporter.providers.history import DAY, Life, Range, Spell, Track

DAY_ONE = Range(MIDNIGHT, MIDNIGHT + DAY)


def test_times_of_flags() -> None:
    assert moment("2026-01-02") == MIDNIGHT
    assert moment("2026-01-02T08:00:00+08:00") == MIDNIGHT
    assert moment("2026-01-02T00:00:00Z") == MIDNIGHT
    assert shown(MIDNIGHT) == "2026-01-02T00:00:00Z"
    for wrong in ("2026-01-02T00:00:00", "yesterday", "2026-13-01", ""):
        with pytest.raises(ValueError, match=r"zone|format|month"):
            moment(wrong)


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_days_are_of_one_piece(start: int, length: int) -> None:
    found = list(days(Range(start, start + length)))
    assert found[0].start == start
    assert found[-1].end == start + length
    assert all(before.end == after.start for before, after in pairwise(found))
    assert all(day.start // DAY == (day.end - 1) // DAY for day in found)
    assert len({name_of(day) for day in found}) == len(found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("instance", "allowed: name=value"),
        ("9a=b", "allowed: name=value"),
        ("__name__=b", "allowed: name=value"),
        ("provider=b", "a label that the exporter sets itself"),
        ("job_id=b", "a label that the exporter sets itself"),
        ("label_team=b", "a label that the exporter sets itself"),
    ],
)
def test_labels_of_flags(text: str, why: str) -> None:
    assert label("instance=a=b:10075") == ("instance", "a=b:10075")
    assert label("empty=") == ("empty", "")
    with pytest.raises(ValueError, match=why):
        label(text)


def _namer(*deny: str, labels: Sequence[str] = (), **more: str) -> Namer:
    return Namer('p"1', Global(metrics=Metrics(deny=deny, job_labels=tuple(labels))), more)


def _track(of: type, field: str, *keys: str, **facts: str) -> Track:
    return Track(of, field, keys, array("q"), array("d"), **facts)  # type: ignore[arg-type]  # kinds are texts


def test_series_have_the_names_and_labels_of_the_page() -> None:
    namer = _namer("trainfleet_pod_*", zone="a", instance="e\\1")
    first = 'instance="e\\\\1",zone="a",provider="p\\"1"'
    found = namer.of_track(_track(DeviceUsage, "utilization", "j", "p", "0", "npu"))
    assert found is not None
    assert found.labels == f'{first},job_id="j",pod_id="p",device="0",accelerator="npu"'
    found = namer.of_track(_track(JobUsage, "values.accelerator_utilization", "j", accelerator="npu"))
    assert found is not None
    assert found.labels == f'{first},job_id="j",accelerator="npu"'
    found = namer.of_track(_track(UsageSource, "source", "j", source="aom"))
    assert found is not None
    assert found.labels == f'{first},job_id="j",source="aom"'
    assert namer.of_track(_track(PodUsage, "values.cpu", "j", "p")) is None
    assert namer.of_track(_track(JobUsage, "values.cpu", "j" * 4097)) is None
    hostile = 'a"} b\nc\rd\u2028'
    ((name, series, value),) = [
        each for each in namer.of_objects([Job(job_id="j", name=hostile)]) if each[0] == "trainfleet_job_info"
    ]
    assert (name, value) == ("trainfleet_job_info", "1")
    assert series.labels.startswith(f'{first},job_id="j",job_name="a\\"}} b\\nc\rd\u2028",')


_JOB = Job(
    job_id="j",
    name="n",
    created=MIDNIGHT + 100.0,
    submitted=MIDNIGHT + 130.0,
    started=MIDNIGHT + 3600.0,
    accelerators=(Accelerators("gpu", "A", 8.0),),
    cpu_cores=4.0,
    tags=(("team", "x"),),
)


def _times(
    life: Life, family: str, *, retention: float = 600.0, day: Range = DAY_ONE, last: int | None = None
) -> list[tuple[int, int, str]]:
    namer = _namer(labels=["team"])
    found = steady(life, day, namer, step=60, retention=retention, last=last)
    place = PLACES[f"trainfleet_job_{family}"]
    return sorted(
        (each.within.start - MIDNIGHT, each.within.end - MIDNIGHT, each.value)
        for each in found
        if each.series.family == place
    )


def test_records_prove_a_life() -> None:
    life = Life(
        job=_JOB,
        until=MIDNIGHT + 7200.0,
        ended=MIDNIGHT + 7200.0,
        spells=(
            Spell(MIDNIGHT + 3600.0, MIDNIGHT + 7200.0, Status.RUNNING, "Running", True),
            Spell(MIDNIGHT + 7200.0, None, Status.FAILED, "Failed", False),
        ),
    )
    assert _times(life, "info") == [(100, 7801, "1")]
    assert _times(life, "labels") == [(100, 7801, "1")]
    assert _times(life, "requested_accelerators") == [(100, 7200, "8")]
    assert _times(life, "submitted_timestamp_seconds") == [(130, 7801, str(MIDNIGHT + 130))]
    assert _times(life, "started_timestamp_seconds") == [(3600, 7801, str(MIDNIGHT + 3600))]
    assert _times(life, "finished_timestamp_seconds") == [(7200, 7801, str(MIDNIGHT + 7200))]
    assert _times(life, "status") == [(3600, 7200, "1"), (7200, 7201, "0"), (7200, 7801, "1")]
    assert _times(life, "holds_resources") == [(3600, 7200, "1"), (7200, 7801, "0")]
    assert _times(life, "priority") == []
    assert _times(life, "duration_seconds") == []
    # The next day has nothing but what retention leaves of it.
    assert _times(life, "info", day=Range(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)) == []
    assert _times(life, "info", retention=2.0 * DAY, day=Range(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)) != []


def _spells(*spells: tuple[float, float | None, Status, str]) -> Life:
    return Life(
        job=_JOB,
        spells=tuple(
            Spell(MIDNIGHT + start, None if end is None else MIDNIGHT + end, status, word, True)
            for start, end, status, word in spells
        ),
    )


def test_a_status_that_ended_is_0_once() -> None:
    life = _spells(
        (100.5, 130.2, Status.QUEUED, "Queuing"),
        (130.2, 200.0, Status.QUEUED, "Bidding"),
        (200.0, 200.0, Status.STARTING, "Dequeued"),
        (200.0, DAY, Status.RUNNING, "Running"),
        (DAY, None, Status.STOPPED, "Stopped"),
    )
    # One status under two words of the platform goes on, and one of no time has never been there.
    queued = [(101, 131, "1"), (131, 200, "1"), (200, 201, "0")]
    assert _times(life, "status") == sorted([*queued, (200, DAY, "1")])
    words = [(101, 131, "1"), (131, 132, "0"), (131, 200, "1"), (200, 201, "0"), (200, DAY, "1")]
    assert _times(life, "platform_status") == words
    # Midnight belongs to the next day, and with it the end of the status before.
    end = [(DAY, DAY + 1, "0"), (DAY, 2 * DAY, "1")]
    assert _times(life, "status", day=Range(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)) == end


def test_a_status_of_the_last_minute_does_not_last_into_the_scrapes() -> None:
    """A scrape may show the status before it, if its poll was before the change."""
    life = _spells((100, DAY - 30, Status.QUEUED, "Queuing"), (DAY - 30, None, Status.RUNNING, "Running"))
    before = (100, DAY - 30, "1")
    change = (DAY - 30, DAY - 29, "0")
    assert _times(life, "status") == [before, change, (DAY - 30, DAY, "1")]
    ended = [before, change, (DAY - 30, DAY - 1, "1"), (DAY - 1, DAY, "0")]
    assert _times(life, "status", last=MIDNIGHT + DAY) == ended
    assert _times(life, "status", last=MIDNIGHT + 2 * DAY) == [before, change, (DAY - 30, DAY, "1")]
    earlier = _spells((100, DAY - 90, Status.QUEUED, "Queuing"), (DAY - 90, None, Status.RUNNING, "Running"))
    assert (DAY - 90, DAY, "1") in _times(earlier, "status", last=MIDNIGHT + DAY)


def test_what_is_not_proven_is_not_there() -> None:
    life = Life(job=_JOB)
    assert _times(life, "status") == []
    assert _times(life, "finished_timestamp_seconds") == []
    assert _times(life, "info") == [(100, DAY, "1")]


def test_a_day_s_file_is_openmetrics_in_order(tmp_path: Path) -> None:
    namer = _namer(labels=["team"])
    with Spool(tmp_path / "spool") as spool:
        unit = spool.begin("day", "b")
        life = Life(job=_JOB, until=MIDNIGHT + 400.0)
        spool.add_steady(unit, MIDNIGHT, steady(life, DAY_ONE, namer, step=60, retention=0.0), 60)
        series = namer.of_track(_track(PodUsage, "values.cpu", "j", "p"))
        assert series is not None
        for start in (600, 0):  # units come in any order
            times = array("q", [MIDNIGHT + start, MIDNIGHT + start + 60])
            points = [(MIDNIGHT, times, array("d", [0.1, 1.0]))]
            spool.add_points(unit, series, points, job_id="j", source="aom")
        count = write_day(tmp_path / "day.om", spool.pieces(MIDNIGHT), FAMILIES)
        assert spool.lives() is not None
        # What is struck is gone, and so is a day that is written.
        spool.forget(MIDNIGHT, [("j", "aom")])
        assert all(piece.points is None for piece in spool.pieces(MIDNIGHT))
        spool.written(MIDNIGHT, "day")
        assert not list(spool.pieces(MIDNIGHT))
        assert spool.is_written(MIDNIGHT)
        assert not spool.is_done("day", "b")
    text = (tmp_path / "day.om").read_text("utf-8")
    assert text.endswith("# EOF\n")
    assert text.count("# TYPE trainfleet_pod_cpu_utilization_ratio gauge\n") == 1
    found = list(samples(tmp_path / "day.om"))
    assert len(found) == count
    families = [family for family, *_ in found]
    assert sorted(set(families), key=families.index) == re.findall(r"# TYPE (\S+)", text)
    usage = [(at - MIDNIGHT, value) for family, _, value, at in found if family.startswith("trainfleet_pod")]
    assert usage == [(0, "0.1"), (60, "1"), (600, "0.1"), (660, "1")]
    assert not list(tmp_path.glob(".day*"))


def test_a_unit_that_was_cut_short_is_begun_from_nothing(tmp_path: Path) -> None:
    namer = _namer()
    series = namer.of_track(_track(JobUsage, "values.cpu", "j"))
    assert series is not None
    points = [(MIDNIGHT, array("q", [MIDNIGHT]), array("d", [1.0]))]
    with Spool(tmp_path / "spool") as spool:
        unit = spool.begin("day", "a")
        spool.add_points(unit, series, points, job_id="j", source="")
        spool.dropped(unit, {"stale": 2})
    with Spool(tmp_path / "spool") as spool:
        assert not spool.is_done("day", "a")
        assert spool.begin("day", "a") == unit
        assert not list(spool.pieces(MIDNIGHT))
        assert spool.all_dropped() == {}
        spool.done(unit)
        assert spool.is_done("day", "a")


def test_a_spool_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StartError, match="cannot be used as a spool"):
        Spool(tmp_path / "spool")


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_bar_on_a_screen_and_lines_elsewhere(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    now = [0.0]
    screen = _Screen()
    progress = Progress(screen, clock=lambda: now[0])
    progress.expected, progress.stage = 100, "2026-01-02"
    for _ in range(5):
        now[0] += 1.0
        progress.calls += 10
        progress.done(10)
    assert "[############            ] 2026-01-02, 50%, 5 units, 50 calls, 10.0 calls/s, 5 s left" in screen.getvalue()
    progress.leave()
    assert screen.getvalue().endswith("\r")
    monkeypatch.setenv("COLUMNS", "30")
    now[0] += 1.0
    progress.done(10)
    assert screen.getvalue().endswith("\r[##############          ] 20")
    caplog.set_level("INFO")
    quiet = Progress(io.StringIO(), clock=lambda: now[0])
    quiet.expected = 10
    quiet.done(5)
    assert not caplog.messages
    now[0] += 40.0
    quiet.done(5)
    line = 'backfill is running progress="100%, 2 units, 0 calls, 0.0 calls/s"'
    assert lines_of(caplog.records, logging.INFO) == [line]


def test_a_job_without_any_time_is_shown_at_none() -> None:
    assert _times(Life(job=Job(job_id="j", name="n")), "info") == []
