"""Pages that are told again: what is not decoded shows and counts what it would if it were."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.alibaba_pai.cloud import metric as row
from trainfleet_exporter.providers.alibaba_pai.catalogue import metric
from trainfleet_exporter.providers.alibaba_pai.datapoints import UNREAD, Collected, Whose, batches
from trainfleet_exporter.providers.alibaba_pai.known_pages import KnownPages
from trainfleet_exporter.providers.alibaba_pai.metric_map import JOB_FAMILIES, Feed, feeds
from trainfleet_exporter.providers.alibaba_pai.roster import Rosters

NOW = 1_767_323_045.0
FEED = feeds({"POD_CPU_UTIL": metric(row("POD_CPU_UTIL", "%"))}, JOB_FAMILIES, {})[0]["POD_CPU_UTIL"]


@dataclass(frozen=True)
class Poll:
    """What is told in one poll, and who is served."""

    pages: tuple[str, ...]
    seconds: float
    """Since the poll before."""
    served: frozenset[str]
    alive: frozenset[str]
    """Whose places are kept."""


def point(job: str, pod: int, value: object, *, minute: int = 0) -> dict[str, Any]:
    return {"timestamp": int(NOW + 60 * minute) * 1000, "jobId": job, "pod": f"{job}-{pod}", "Average": value}


class Reader:
    """Polls one feed; `decoded` counts the pages that were not taken over as they were."""

    def __init__(self, known: KnownPages | None, feed: Feed = FEED) -> None:
        self.decoded = 0
        self._known = known
        self._feed = feed
        self._rosters = Rosters()

    def poll(self, poll: Poll, now: float) -> dict[str, Any]:
        """All that can be seen of the poll."""
        return asyncio.run(self._poll(poll, now))

    async def _poll(self, poll: Poll, now: float) -> dict[str, Any]:
        await self._rosters.keep_if(poll.alive.__contains__)
        whose = Whose(lambda point: point["jobId"] if point.get("jobId") in poll.served else "", poll.served)
        collected = Collected(self._feed, whose, self._rosters, now=now, max_age=900, known=self._known)
        for page in poll.pages:
            is_known = True
            async for points in batches({"Datapoints": page}, "Datapoints", collected.plain, collected.again):
                is_known = False
                collected.take(points)
            self.decoded += not is_known
        collected.page_ends()
        values = collected.values(self._feed.targets[0])
        found = {
            key: (collected.times[place], values[place])
            for key, place in collected.roster.places.items()
            if place < len(values) and collected.times[place] != UNREAD
        }
        return {
            "found": found,
            "points": collected.points,
            "read": collected.read,
            "times": (collected.earliest, collected.latest),
            "dropped": collected.dropped,
            "spoiled": [collected.may_lack(job) for job in ("a", "b", "")],
            "fit": [collected.is_fit(target) for target in self._feed.targets],
        }


def page_of(*points: object) -> str:
    return json.dumps(points)


POINTS = st.builds(
    point,
    st.sampled_from("ab"),
    st.integers(0, 3),
    st.sampled_from([1, 2.5, 70.0, -1, "7", None]),
    minute=st.sampled_from([0, 0, 0, 1, -10, -14, 20]),
)
PAGES = st.lists(POINTS, max_size=4, unique_by=lambda point: point["pod"]).map(lambda points: page_of(*points))


@given(data=st.data(), pool=st.lists(PAGES, min_size=1, max_size=4))
def test_what_is_known_shows_and_counts_the_same(data: st.DataObject, pool: Sequence[str]) -> None:
    jobs = st.sampled_from([frozenset("ab"), frozenset("ab"), frozenset("ab"), frozenset("a")])
    told = st.lists(st.sampled_from(pool), max_size=4).map(tuple)
    polls = data.draw(st.lists(st.builds(Poll, told, st.sampled_from([30.0, 30.0, 400.0]), jobs, jobs), max_size=8))
    plainly, knowing = Reader(None), Reader(KnownPages())
    now = NOW
    for poll in polls:
        now += poll.seconds
        assert knowing.poll(poll, now) == plainly.poll(poll, now)


@pytest.fixture
def reader() -> Reader:
    return Reader(KnownPages())


ALL = frozenset("ab")
ONE, OTHER = page_of(*[point("a", pod, 7.0) for pod in range(4)]), page_of(*[point("b", pod, 8.0) for pod in range(4)])


def test_a_page_that_keeps_coming_again_is_decoded_twice_and_then_no_more(reader: Reader) -> None:
    for polls in range(1, 6):
        reader.poll(Poll((ONE, OTHER), 30, ALL, ALL), NOW + 30 * polls)
        assert reader.decoded == min(2 * polls, 4)


def test_once_pages_are_known_to_come_again_each_is_decoded_once(reader: Reader) -> None:
    for minute in range(10):
        page = page_of(*[point("a", pod, 7.0, minute=minute) for pod in range(4)])
        for second in (0, 30):
            reader.poll(Poll((page,), 30, ALL, ALL), NOW + 60 * minute + second)
    assert reader.decoded == 11


def test_what_became_too_old_is_dropped_although_it_is_known(reader: Reader) -> None:
    for polls in range(4):
        reader.poll(Poll((ONE,), 30, ALL, ALL), NOW + 30 * polls)
    seen = reader.poll(Poll((ONE,), 30, ALL, ALL), NOW + 1000)
    assert (seen["found"], seen["points"], seen["read"], seen["dropped"]) == ({}, 4, 0, {"stale": 4})


def test_a_newer_point_does_not_leave_its_value_to_an_older_page(reader: Reader) -> None:
    newer = page_of(point("a", 0, 50.0, minute=1))
    for pages in ((ONE,), (ONE,), (ONE, newer), (ONE, newer), (ONE,)):
        seen = reader.poll(Poll(pages, 30, ALL, ALL), NOW + 90)
        assert seen["found"]["a", "a-0"] == ((NOW + 60, 0.5) if newer in pages else (NOW, 0.07))
