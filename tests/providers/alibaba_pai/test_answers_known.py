"""Answers that say nothing new: whatever is not decoded again, shows and counts what it would if it were."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, at
from tests.support.clock import run_stepped
from tests.support.fleet import Fleet
from tests.support.golden import in_order
from trainfleet_exporter.model import Job
from trainfleet_exporter.providers.translated import Translated

POLLED = CONFIG.replace("{usage: {source: job_metrics}}", "{job_counts: {enabled: false}, usage: {enabled: false}}")

DURATIONS = (
    '"Duration":%d',
    '"Duration": %d',
    '"Duration" :%d',
    '"Duration":"%d"',
    '"Duration":%d.5',
    '"Duration":-%d',
    '"Duration":0%d',
    '"Duration":%de1',
    '"Duration":null,"Duration":%d',
    '"\\u0044uration":%d',
    '"Settings":{"Duration":%d}',
    '"Settings":{"Tags":{"Duration":"%d"}},"Duration":1',
    '"Settings":{"Duration":%d},"\\u0044uration":2',
    '"DisplayName":"said \\"Duration\\": %d","Duration":3',
    '"DisplayName":"\\"Duration\\":%d,"',
    '"odd\\"Duration":%d',
    '"JobSpecs":[{"Type":"Worker","Duration":%d}]',
    "",
)
OTHERS = (
    "",
    '"DisplayName":"train"',
    '"DisplayName":"\u65e5\u672c"',
    '"DisplayName":"\\ud800"',
    '"Priority":"high"',
    '"Priority":7',
    '"Priority":NaN',
    '"Priority":100000000000000000000000000',
    '"RestartTimes":"1/3"',
    '"JobSpecs":[{"Type":"Worker","PodCount":2,"EcsSpec":"ecs.gn6"}]',
    '"RequestGPU":"8","ResourceId":"q"',
    '"Message":"not now"',
    '"RequestId":"of-a-row"',
    '"Pods":[{"PodId":"p-0","Type":"Worker","Status":"Running","RequestId":"of-a-pod"}]',
    '"Pods":[{"PodId":"p-0","Type":"Worker","GmtCreateTime":"soon"},{"PodId":"p-0"},{}]',
    '"Pods":[{"PodId":"p-0","GmtStartTime":"soon"}]',
    '"Pods":[{"PodId":"p-0","Type":"Worker","Duration":5},{"PodId":"p-1","Status":"Failed"}]',
)
ROWS = ("5", "{}", "null", '{"JobId":"', '{"JobId":"z","Status":"Running"}', '{"Duration":1}', "\udcff")
"""Rows that are no jobs of the workspace, or nothing at all."""
ENVELOPES = (
    '{"TotalCount":%d,"Jobs":[%s],"RequestId":"%s"}',
    '{"RequestId":"%3$s","Jobs":[%2$s],"TotalCount":%1$d}',
    '{"TotalCount":%d,"Jobs":[5],"Jobs":[%s],"RequestId":"%s"}',
    '{"Jobs":[],"TotalCount":%d,"Others":[5],"Jobs":[%s],"RequestId":"%s"}',
    '{"TotalCount":%d,"Jobs":[ %s ],"RequestId":"\\ud800%s"}',
)

COUNTS = tuple(
    f"trainfleet_exporter_{name}" for name in ("dropped_readings_total", "collector_errors_total", "collector_series")
)


@dataclass(frozen=True)
class Told:
    """What is told of one job."""

    job_id: str
    duration: str
    others: tuple[str, ...]
    seconds: int
    request_id: str = "r"

    def row(self, *more: str) -> str:
        """The row as it stands in a list."""
        told = self.duration % self.seconds if "%" in self.duration else self.duration
        fields = [f'"JobId":"{self.job_id}"', '"Status":"Running"', '"WorkspaceId":"1"', told, *self.others, *more]
        return "{" + ",".join([*filter(None, fields), f'"GmtCreateTime":"{at(-600)}"']) + "}"


@dataclass(frozen=True)
class Answers:
    """What one poll is answered."""

    jobs: Sequence[Told | str]
    envelope: str = ENVELOPES[0]
    between: str = ","
    status: int = 200
    quotas: Sequence[dict[str, Any]] = ()
    machines: Sequence[dict[str, Any]] = ()

    def list_jobs(self) -> bytes:
        rows = [told if isinstance(told, str) else told.row() for told in self.jobs]
        values = (len(rows), self.between.join(rows), "r")
        head, tail = self.envelope, ""
        if "%3$s" in head:
            head = head.replace("%1$d", str(values[0])).replace("%3$s", values[2])
            head, _, tail = head.partition("%2$s")
            return (head + values[1] + tail).encode("utf-8", "surrogateescape")
        return (head % values).encode("utf-8", "surrogateescape")

    def get_job(self, job_id: str) -> bytes | None:
        found = [told for told in self.jobs if isinstance(told, Told) and told.job_id == job_id]
        if not found:
            return None
        request_id = f'"RequestId":"{found[0].request_id}"'
        return found[0].row(request_id).encode("utf-8", "surrogateescape")


TOLD = st.builds(
    Told,
    job_id=st.sampled_from("abc"),
    duration=st.sampled_from(DURATIONS),
    others=st.lists(st.sampled_from(OTHERS), max_size=2, unique=True).map(tuple),
    seconds=st.integers(0, 3),
)
USUAL = st.builds(
    Told,
    job_id=st.sampled_from("abc"),
    duration=st.sampled_from(DURATIONS[:2]),
    others=st.lists(st.sampled_from(OTHERS), max_size=1).map(tuple),
    seconds=st.integers(0, 3),
)


@st.composite
def polls(draw: st.DrawFn) -> list[Answers]:
    """Some polls that mostly tell of the same jobs what they told before, but for seconds and request ids."""
    cast = draw(st.lists(TOLD | USUAL, min_size=1, max_size=3))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        jobs: list[Told | str] = []
        for told in draw(st.permutations(cast)):
            kind = draw(st.integers(0, 9))
            again = replace(
                told, seconds=draw(st.integers(0, 3)), request_id=draw(st.sampled_from(["r", "s-1", "\\n"]))
            )
            jobs.append(again if kind < 8 else draw(TOLD) if kind < 9 else draw(st.sampled_from(ROWS)))
        found.append(
            Answers(
                jobs,
                envelope=ENVELOPES[max(0, draw(st.integers(-6, len(ENVELOPES) - 1)))],
                between=draw(st.sampled_from([",", ",", ", ", " ,\n"])),
                status=200 if draw(st.integers(0, 9)) else 403,
                quotas=[{"QuotaId": "q", "GPUType": model} for model in draw(st.sampled_from(["", "A", "B"]))],
                machines=[{"InstanceType": "ecs.gn6", "Cpu": cpu} for cpu in draw(st.sampled_from(["", "4", "x"]))],
            )
        )
    return found


async def _seen(given: Sequence[Answers], fleet: Callable[[Cloud], Fleet]) -> list[object]:
    """What is shown and counted after each of these polls."""
    cloud, now = Cloud(), given[0]
    seen: list[object] = []

    def answer(operation: str, query: dict[str, str]) -> httpx.Response | None:
        match operation:
            case "ListJobs" if query.get("Status") == "Running":
                return httpx.Response(now.status, content=now.list_jobs())
            case "GetJob" if (body := now.get_job(query["path"].rpartition("/")[2])) is not None:
                return httpx.Response(now.status, content=body)
        return None

    cloud.answer = answer
    async with fleet(cloud) as one:
        for now in given:
            cloud.quotas, cloud.ecs_specs = list(now.quotas), list(now.machines)
            await one.exporter.poll_once()
            told = generate_latest(one.exporter.telemetry.registry).decode().splitlines()
            counted = [line for line in told if line.startswith(COUNTS)]
            own = [
                (str(runner.last_error and runner.last_error.text), runner.state.parts_failed)
                for runner in one.exporter.runners
            ]
            seen.append((in_order(await one.lines("")), counted, own))
            await asyncio.sleep(601)  # a table of machine types that is not whole is read again after that time
    return seen


@pytest.mark.long
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(polls())
def test_the_page_is_that_of_a_provider_without_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: list[Answers]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fleet = partial(Fleet, tmp_path=tmp_path, monkeypatch=patch, caplog=caplog, config=POLLED)
        found = run_stepped(lambda: _seen(given, fleet))
        patch.setattr(Translated, "again", lambda self, raw, seconds: None)
        patch.setattr(Translated, "job", _translate_each_time)
        expected = run_stepped(lambda: _seen(given, fleet))
    assert found == expected


def _translate_each_time(
    self: Translated,
    job_id: str,
    row: dict[str, Any],
    duration: object,
    *,
    depends: object,
    translate: Callable[[Any], Job],
) -> Job:
    return translate(row)
