"""Rows of ListJobs as bytes: which are recognized, and that pages read the same as if they were decoded in one go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from trainfleet_exporter.model import Job
from trainfleet_exporter.polling import Part
from trainfleet_exporter.providers.alibaba_pai.api import PaiApi
from trainfleet_exporter.providers.alibaba_pai.collectors.job_rows import JobRows
from trainfleet_exporter.providers.alibaba_pai.collectors.shared import Shared
from trainfleet_exporter.providers.alibaba_pai.translate import EcsSpec
from trainfleet_exporter.providers.alibaba_pai.translate_pools import Quota
from trainfleet_exporter.providers.book import JobBook, WorkspaceJobs
from trainfleet_exporter.quantities import counting_unusable
from trainfleet_exporter.transport.body import decode_json
from trainfleet_exporter.transport.calls import NOT_JSON

ROW = '{"JobId":"a","DisplayName":"train","ResourceId":"q","RequestGPU":"8","Duration":5}'
ON_A_MACHINE = '{"JobId":"a","Duration":5,"JobSpecs":[{"Type":"Worker","PodCount":2,"EcsSpec":"gn6"}]}'


class Machines:
    """A table of machine types that a test fills; how often it was asked for."""

    def __init__(self) -> None:
        self.known: dict[str, EcsSpec] = {}
        self.version = 0
        self.asked = 0

    async def have(self, part: Part) -> None:
        """Asked for."""
        self.asked += 1


class Workspace:
    """A workspace whose pages a test writes."""

    def __init__(self) -> None:
        self.shared = Shared(cast("PaiApi", None), JobBook(lambda job: True))  # nothing is asked of the API
        self.machines = self.shared.ecs_specs = cast("Any", Machines())
        self.page = WorkspaceJobs("1")

    def read(self, *rows: str, status: str = "Running") -> list[tuple[bool, Job | None]]:
        """Of each row whether it was recognized by its bytes, and its job."""
        return asyncio.run(self._read(rows, status))

    async def _read(self, rows: Sequence[str], status: str) -> list[tuple[bool, Job | None]]:
        reader = JobRows(self.shared, self.page, status)
        payload = await reader.decode(page(*rows))
        await reader.have_tables(cast("Part", None))
        return [(isinstance(kept, Job), reader.job(job_id, kept)) for job_id, kept in payload["Jobs"]]


def page(*rows: str, between: str = ",") -> bytes:
    return f'{{"TotalCount":{len(rows)},"Jobs":[{between.join(rows)}],"RequestId":"r"}}'.encode()


def test_a_row_is_recognized_at_another_time() -> None:
    workspace = Workspace()
    [(_, first)] = workspace.read(ROW)
    [(recognized, later)] = workspace.read(ROW.replace(":5", ":65"))
    assert recognized
    assert first is not None
    assert later is not None
    assert (first.duration, later.duration) == (5, 65)
    assert later.name is first.name
    assert workspace.read(ROW.replace(":5", ":65"))[0][1] is later


def test_a_page_with_too_many_rows_gives_others_their_turn() -> None:
    workspace, turns = Workspace(), 0

    async def main() -> None:
        nonlocal turns
        rows = JobRows(workspace.shared, workspace.page, "Running")
        reading = asyncio.create_task(rows.decode(page(*[ROW] * 1_000)))
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        assert len((await reading)["Jobs"]) == 1_000

    asyncio.run(main())
    assert turns > 4


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("train", "trial"),
        (":5", ":5.5"),
        (":5", ':"5"'),
        (":5", ":null"),
        (":5", ":-5"),
        (":5", ":5e0"),
        ('"Duration":5', '"Other":5'),
        ("}", ',"Settings":{"Duration":5}}'),
    ],
)
def test_any_other_row_is_decoded(old: str, new: str) -> None:
    workspace = Workspace()
    workspace.read(ROW)
    changed = ROW.replace(old, new)
    [(recognized, job)] = workspace.read(changed)
    assert not recognized
    assert job == Workspace().read(changed)[0][1]


@pytest.mark.parametrize(
    "row",
    [
        '{"JobId":"a","Settings":{"Duration":5},"\\u0044uration":5}',
        '{"JobId":"a","Duration":5,"\\u0044uration":5}',
        '{"JobId":"a","x\\"Duration":5,"\\u0044uration":5}',
        '{"JobId":"a","Duration":5,"Duration":5}',
        '{"JobId":"a","Duration":5,"Settings":{"Duration":5}}',
        '{"JobId":"a","Duration" :5}',
        '{"JobId":"a","Duration":5,"Priority":"high"}',
        '{"JobId":"a","Duration":5,"JobSpecs":[{"PodCount":"many"}]}',
    ],
)
def test_rows_that_their_bytes_do_not_tell_of_are_decoded_each_time(row: str) -> None:
    workspace = Workspace()
    for seconds in (5, 5, 6):
        again = row.replace(":5", f":{seconds}")
        with counting_unusable() as counts:
            [(recognized, job)] = workspace.read(again)
        with counting_unusable() as expected:
            assert job == Workspace().read(again)[0][1]
        assert not recognized
        assert counts == expected


def test_the_status_that_was_asked_for_counts() -> None:
    workspace = Workspace()
    workspace.read(ROW)
    [(recognized, job)] = workspace.read(ROW, status="Queuing")
    assert not recognized
    assert job is not None
    assert job.platform_status == "Queuing"


def test_a_model_that_became_another_one_counts_and_one_that_stayed_does_not() -> None:
    workspace = Workspace()
    for model, is_new in (("A", True), ("A", False), ("B", True), ("B", False)):
        workspace.shared.learn_quotas({"q": Quota("quota", model, ())})
        [(recognized, job)] = workspace.read(ROW)
        assert recognized is not is_new
        assert job is not None
        assert [one.model for one in job.accelerators] == [model]


def test_machine_types_are_asked_for_each_time_and_count() -> None:
    workspace = Workspace()
    for polls in range(1, 4):
        [(recognized, job)] = workspace.read(ON_A_MACHINE.replace(":5", f":{polls}"))
        assert workspace.machines.asked == polls
        assert not recognized  # by its bytes alone
        assert job is not None
        assert (job.duration, job.cpu_cores) == (polls, None)
    workspace.machines.known, workspace.machines.version = {"gn6": EcsSpec(4, None, None, "")}, 1
    [(_, job)] = workspace.read(ON_A_MACHINE)
    assert job is not None
    assert job.cpu_cores == 8


def test_a_job_that_changed_and_one_that_ended_leave_nothing_behind() -> None:
    workspace = Workspace()
    other = ROW.replace("train", "trial")
    assert [found for row in (ROW, other, ROW, ROW) for found, _ in workspace.read(row)] == [False, False, False, True]
    workspace.page.translated.keep_only([])
    assert [found for found, _ in workspace.read(ROW)] == [False]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"Jobs":null}',
        b'{"Jobs":[]}',
        b'{"Jobs":{}}',
        b'\xef\xbb\xbf{"Jobs":[{"JobId":"a"}]}',
        b'{"TotalCount":5,"Jobs":[5]}',
        b'{"Jobs":[],"Others":[5],"Jobs":[5]}',
        b'{"Jobs":[{"JobId":1}],"Others":[[]],"Jobs":[[]]}',
        b'{"Jobs":[5],"Jobs":[[]]}',
        b'{"Jobs":[null,"\xff",{}]}',
        b'{"Jobs":[{},"\xff"]}',
        b'{"Jobs":["\\ud800"]}',
        b'{"Jobs":[NaN]}',
        b'{"Jobs":[1e999]}',
        b'{"Jobs":[{"Priority":1e999}],"Message":"\xff"}',
        b'{"Jobs":[{},]}',
        b'{"Jobs":[{}',
        b'{"Jobs": [\n {},\n 5\n]}',
        b'{"Jobs":[{}, {}],"Code":"Throttling","Message":"m"}',
        b'{"Jobs":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    ],
)
def test_a_page_without_jobs_is_what_decoding_it_in_one_go_gives(body: bytes) -> None:
    workspace = Workspace()
    found = asyncio.run(JobRows(workspace.shared, workspace.page).decode(body))
    assert repr(found) == repr(decode_json(body))


@pytest.mark.parametrize("between", [",", ", ", ",\n", " , "])
def test_however_a_page_is_written_its_rows_are_the_same(between: str) -> None:
    workspace = Workspace()
    rows = [ROW, "5", ROW.replace('"a"', '""'), ROW.replace('"a"', "7"), ON_A_MACHINE.replace('"a"', '"b"')]
    payload = asyncio.run(JobRows(workspace.shared, workspace.page).decode(page(*rows, between=between)))
    plain = decode_json(page(*rows))
    found = [decode_json(row[1]) if isinstance(row, tuple) else row for row in payload.pop("Jobs")]
    assert found == plain.pop("Jobs")
    assert payload == plain


def test_of_a_page_that_is_no_json_nothing_is_taken() -> None:
    workspace = Workspace()
    workspace.read(ROW)
    body = page(ROW, ROW.replace("train", "?")).replace(b"?", b"\xff")
    assert asyncio.run(JobRows(workspace.shared, workspace.page).decode(body)) is NOT_JSON
