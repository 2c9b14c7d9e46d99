"""The pieces of a backfill: flags, days, labels, calls by the table, wholes, records, files."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backfill.rig import MIDNIGHT, samples
from trainfleet_exporter import model
from trainfleet_exporter.backfill.parts import DayParts, State
from trainfleet_exporter.backfill.series import PLACES, Namer, records
from trainfleet_exporter.config import Global, Metrics
from trainfleet_exporter.errors import StartError
from trainfleet_exporter.families import FAMILIES
from trainfleet_exporter.fleet.past import Asked, PastSource, Values, whole
from trainfleet_exporter.model import Accelerators, Job, JobUsage, PodUsage, Readings, Status, Subject, UsageSource
from trainfleet_exporter.providers.past import DAY, Life, Range, Spell, Track

DAY_ONE = Range(MIDNIGHT, MIDNIGHT + DAY)

SOURCE = PastSource(name="bulk", api="api", owners=3, readings=5_000, answered=1_000)


def _asked(*owners: tuple[str, int, Range]) -> list[Asked]:
    return list(SOURCE.batches(owners, 60))


def test_calls_are_limited_by_jobs_and_readings() -> None:
    hour = Range(MIDNIGHT, MIDNIGHT + 3600)
    found = _asked(*((name, 1, hour) for name in "abcd"))
    assert [(list(asked.within), asked.readings) for asked in found] == [(["a", "b", "c"], 180), (["d"], 60)]
    found = _asked(("a", 2, DAY_ONE), ("b", 1, DAY_ONE), ("c", 1, DAY_ONE))
    assert [(list(asked.within), asked.readings) for asked in found] == [(["a", "b"], 4320), (["c"], 1440)]


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, DAY - 1), st.integers(1, DAY)), max_size=12))
def test_each_minute_of_each_job_is_requested_once(given_jobs: list[tuple[int, int, int]]) -> None:
    owners = [
        (str(number), parts, Range(MIDNIGHT + begin, MIDNIGHT + begin + length))
        for number, (parts, begin, length) in enumerate(given_jobs)
    ]
    seconds: Counter[str] = Counter()
    for asked in _asked(*owners):
        assert asked.readings <= SOURCE.readings
        assert len(asked.within) <= SOURCE.owners
        for owner, within in asked.within.items():
            assert asked.span.start <= within.start < within.end <= asked.span.end
            seconds[owner] += within.end - within.start
    assert seconds == {owner: within.end - within.start for owner, _, within in owners}


def test_older_days_have_fewer_readings_and_then_none() -> None:
    source = replace(SOURCE, kept=((60, 31 * DAY), (300, 91 * DAY)))
    assert [source.step(age * DAY) for age in (0, 30, 31, 90, 91)] == [60, 60, 300, 300, 0]


def test_a_whole_has_the_newest_values_of_its_parts() -> None:
    def made(*parts: Values, is_ratio: bool = False) -> list[float | None]:
        return list(whole(parts, is_ratio=is_ratio, silence=180).values())

    assert made({0: 0.2, 60: 0.2, 120: None}, {0: 0.4, 120: 0.6}, is_ratio=True) == [0.3, 0.3, 0.6]
    assert made({0: 1.0, 60: 1.0}, {0: 2.0, 60: None}) == [3.0, None]
    # A part that stays silent no longer counts.
    assert made(dict.fromkeys(range(0, 480, 60), 1.0), {0: 2.0, 60: 3.0}) == [3.0, 4.0, 4.0, 4.0, 4.0, 1.0, 1.0, 1.0]


def _namer(*deny: str, labels: Sequence[str] = (), **more: str) -> Namer:
    return Namer('p"1', Global(metrics=Metrics(deny=deny, job_labels=tuple(labels))), more)


def _pod(job_id: str, pod_id: str) -> Track:
    return _track(Readings(PodUsage, "values.cpu", [Subject((job_id, pod_id))], [0.0]))


def _track(shown: object) -> Track:
    return Track(shown, array("q"), array("d"))


def test_series_have_the_names_and_labels_of_the_page() -> None:
    namer = _namer("trainfleet_pod_*", zone="a", instance="e\\1")
    first = 'instance="e\\\\1",zone="a",provider="p\\"1"'

    def labels(track: Track) -> str | None:
        series = namer.of_track(track)
        return None if series is None else series.labels

    device = Readings(model.DeviceUsage, "utilization", [Subject(("j", "p", "0", "npu"))], [0.0], "npu")
    assert labels(_track(device)) == f'{first},job_id="j",pod_id="p",device="0",accelerator="npu"'
    job = Readings(JobUsage, "values.accelerator_utilization", [Subject(("j",))], [0.0], "npu")
    assert labels(_track(job)) == f'{first},job_id="j",accelerator="npu"'
    assert labels(_track(UsageSource("j", "aom", None))) == f'{first},job_id="j",source="aom"'
    assert labels(_pod("j", "p")) is None
    assert _namer().of_track(_pod("j" * 4097, "p")) is None
    hostile = 'a"} b\nc\rd\u2028'
    (series,) = [
        series for name, series, _ in namer.of_objects([Job(job_id="j", name=hostile)]) if name == "trainfleet_job_info"
    ]
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
    life: Life, family: str, *, retention: float = 600.0, day: Range = DAY_ONE, is_last: bool = False
) -> list[tuple[int, int, float]]:
    """Each value of a family: its first second, and the last one."""
    found = []
    namer = _namer(labels=["team"])
    for series, times, values in records(life, day, namer, step=60, retention=retention, is_last=is_last):
        assert all(before < after for before, after in pairwise(times))
        for value in sorted(set(values)) if series.family == PLACES[f"trainfleet_job_{family}"] else ():
            own = [time - MIDNIGHT for time, each in zip(times, values, strict=True) if each == value]
            found.append((own[0], own[-1], value))
    return sorted(found)


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
    for family in ("info", "labels"):
        assert _times(life, family) == [(100, 7800, 1)]
    assert _times(life, "requested_accelerators") == [(100, 7140, 8)]
    assert _times(life, "submitted_timestamp_seconds") == [(130, 7800, MIDNIGHT + 130)]
    assert _times(life, "finished_timestamp_seconds") == [(7200, 7800, MIDNIGHT + 7200)]
    assert _times(life, "status") == [(3600, 7140, 1), (7200, 7200, 0), (7200, 7800, 1)]
    assert _times(life, "holds_resources") == [(3600, 7140, 1), (7200, 7800, 0)]
    assert _times(life, "priority") == _times(life, "duration_seconds") == []
    # The next day has nothing but what retention leaves of it.
    following = Range(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)
    assert _times(life, "info", day=following) == []
    assert _times(life, "info", retention=2.0 * DAY, day=following) != []
    assert _times(Life(job=_JOB), "status") == []
    assert _times(Life(job=_JOB), "info") == [(100, DAY - 60, 1)]
    assert _times(Life(job=Job(job_id="j", name="n")), "info") == []


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
    # One status under two words of the platform goes on. A status of no time never existed.
    assert _times(life, "status") == [(101, 180, 1), (200, 200, 0), (200, DAY - 60, 1)]
    words = [(101, 120, 1), (131, 131, 0), (131, 180, 1), (200, 200, 0), (200, DAY - 60, 1)]
    assert _times(life, "platform_status") == words
    # Midnight belongs to the next day, and with it the end of the status before.
    end = [(DAY, DAY, 0), (DAY, 2 * DAY - 60, 1)]
    assert _times(life, "status", day=Range(MIDNIGHT + DAY, MIDNIGHT + 2 * DAY)) == end


def test_last_minute_of_a_status_ends_before_the_scrapes() -> None:
    """A scrape may show the status before it, if its poll was before the change."""
    life = _spells((100, DAY - 30, Status.QUEUED, "Queuing"), (DAY - 30, None, Status.RUNNING, "Running"))
    before = [(100, DAY - 60, 1), (DAY - 30, DAY - 30, 0)]
    assert _times(life, "status") == [*before, (DAY - 30, DAY - 30, 1)]
    ended = [*before, (DAY - 30, DAY - 30, 1), (DAY - 1, DAY - 1, 0)]
    assert _times(life, "status", is_last=True) == sorted(ended)
    earlier = _spells((100, DAY - 90, Status.QUEUED, "Queuing"), (DAY - 90, None, Status.RUNNING, "Running"))
    assert (DAY - 90, DAY - 60, 1) in _times(earlier, "status", is_last=True)


def test_a_day_s_file_is_openmetrics_in_order(tmp_path: Path) -> None:
    namer, life = _namer(labels=["team"]), Life(job=_JOB, until=MIDNIGHT + 400.0)
    pod = namer.of_track(_pod("j", "p"))
    assert pod is not None
    with DayParts(tmp_path) as parts:
        for start in (600, 0):  # calls end in any order
            times = array("q", [MIDNIGHT + start, MIDNIGHT + start + 60])
            parts.add(pod, times, array("d", [0.1, 1.0]))
        for series, times, values in records(life, DAY_ONE, namer, step=60, retention=0.0, is_last=False):
            parts.add(series, times, values)
        parts.write(tmp_path / "day.om", FAMILIES)
    text = (tmp_path / "day.om").read_text("utf-8")
    assert text.endswith("# EOF\n")
    found = list(samples(tmp_path / "day.om"))
    families = [family for family, *_ in found]
    assert sorted(set(families), key=families.index) == re.findall(r"# TYPE (\S+)", text)
    usage = [(at - MIDNIGHT, value) for family, _, value, at in found if family.startswith("trainfleet_pod")]
    assert usage == [(0, "0.1"), (60, "1"), (600, "0.1"), (660, "1")]
    assert [path.name for path in tmp_path.iterdir()] == ["day.om"]


def test_a_folder_is_used_by_one_backfill(tmp_path: Path) -> None:
    with State(tmp_path, "p", "1"), pytest.raises(StartError, match="another backfill is running in this folder"):
        State(tmp_path, "p", "2")
    (tmp_path / ".backfill-p.state").write_bytes(b"not a state" * 100)
    with pytest.raises(StartError, match="damaged, or of another version; choose another --out"):
        State(tmp_path, "p", "1")
