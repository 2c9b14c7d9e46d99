"""Runners that come and go while a schedule runs, and parts that are dropped while others are rebuilt."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tests.polling.rig import Rig, count
from tests.support.clock import run_stepped
from tests.support.collectors import Bulk
from trainfleet_exporter.page import PageStore, Renderer, RenderSettings
from trainfleet_exporter.polling import PartStore, Poll, Schedule
from trainfleet_exporter.polling.parts import Rebuild
from trainfleet_exporter.telemetry import CollectorState


def _counting(polls: list[float], *, seconds: float = 0.0) -> Rig:
    async def run(poll: Poll) -> None:
        polls.append(asyncio.get_running_loop().time())
        async with poll.part("a") as part:
            await asyncio.sleep(seconds)
            await part.publish(count("a"))

    return Rig(Bulk(name="jobs", interval=60, run=run))


def test_one_that_comes_polls_at_once_and_one_that_goes_no_more() -> None:
    async def main() -> None:
        first: list[float] = []
        later: list[float] = []
        early: list[float] = []
        staying, coming, never = _counting(first), _counting(later), _counting(early)
        schedule = Schedule([staying.runner])
        schedule.add([never.runner])
        await schedule.remove([never.runner])  # before the start
        schedule.start()
        await asyncio.sleep(30)
        schedule.add([coming.runner])
        await asyncio.sleep(65)
        await schedule.remove([coming.runner])
        await asyncio.sleep(200)
        await schedule.stop()
        schedule.add([_counting(early).runner])
        await asyncio.sleep(200)
        assert (first, later, early) == ([0, 60, 120, 180, 240], [30, 90], [])
        assert await coming.parts() == {"a"}  # what it showed is another's business
        coming.runner.vanish()
        assert await coming.parts() == set()
        assert coming.own("collector_parts") == coming.own("collector_series") == 0

    run_stepped(main)


def test_provider_removed_during_an_overlong_poll() -> None:
    async def main() -> None:
        polls: list[float] = []
        rig = _counting(polls, seconds=49)
        rig.runner.collector = Bulk(name="jobs", interval=20, run=rig.runner.collector.run)  # type: ignore[union-attr]
        schedule = Schedule([rig.runner])
        schedule.start()
        await asyncio.sleep(60)
        await schedule.remove([rig.runner])
        await asyncio.sleep(300)
        await schedule.stop()
        assert polls == [0, 49]
        assert rig.own("collector_errors_total", reason="deadline") is None

    run_stepped(main)


def rebuilt(key: str) -> Rebuild:
    async def rebuild(_: float) -> tuple[Sequence[object], float | None]:
        await asyncio.sleep(5)
        return count(key), None

    return rebuild


def _store(page_store: PageStore) -> PartStore:
    renderer = Renderer(RenderSettings(deny=(), job_labels=()))
    return PartStore(
        CollectorState("p", "jobs", 60.0), page_store=page_store, renderer=renderer, keep_polls=3, poll_timeout=50
    )


def test_part_is_dropped_while_another_is_rebuilt() -> None:
    async def main() -> None:
        store = _store(PageStore())
        for key in ("a", "b"):
            await store.publish(key, count(key), stale_at=0.0, rebuild=rebuilt("x"))
        await asyncio.sleep(1000)  # both have been shown long enough
        await store.publish("a", count("a"), stale_at=0.0, rebuild=rebuilt("x"))
        expiring = asyncio.create_task(store.expire())
        await asyncio.sleep(1)  # `a` is being rebuilt
        store.keep_only({"a"})
        await expiring
        assert ("a" in store, "b" in store) == (True, False)

    run_stepped(main)


def test_part_that_fails_during_its_rebuild_is_due_at_once() -> None:
    async def main() -> None:
        moments: list[float] = []

        async def rebuild(_: float) -> tuple[Sequence[object], float | None]:
            moments.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)
            return count("a"), None

        store = _store(PageStore())
        await store.publish("a", count("a"), stale_at=0.0, rebuild=rebuild)
        expiring = asyncio.create_task(store.expire())
        await asyncio.sleep(0.5)
        store.fail("a")  # what it describes may be gone by now
        await expiring
        await store.expire()
        await store.expire()
        assert moments == [0.0, 1.0]

    run_stepped(main)


def test_a_store_that_was_closed_shows_nothing_any_more() -> None:
    class Watched(PageStore):
        puts = 0

        def put(
            self,
            part: object,
            lines: Mapping[str, Sequence[bytes]],
            *,
            provider: str = "",
            objects: Sequence[object] = (),
        ) -> None:
            self.puts += bool(lines)
            super().put(part, lines, provider=provider, objects=objects)

    async def main() -> None:
        page_store = Watched()
        store = _store(page_store)
        await store.publish("a", count("a"), stale_at=0.0, rebuild=rebuilt("a"))
        late = asyncio.create_task(store.expire())
        await asyncio.sleep(1)
        store.close()
        await late
        await store.publish("c", count("c"))
        store.fail("a")
        await store.expire()
        assert (page_store.puts, page_store.series(("p", "jobs", "a"))) == (1, {})

    run_stepped(main)


def test_the_page_store_keeps_the_objects_of_each_part() -> None:
    async def main() -> None:
        page_store = PageStore()
        store = _store(page_store)
        await store.publish("a", count("a"), stale_at=0.0, rebuild=rebuilt("x"))
        await store.publish("b", count("b"))
        before = page_store.page()
        assert list(before.objects) == [("p", count("a")), ("p", count("b"))]
        await store.expire()
        assert list(page_store.page().objects) == [("p", count("x")), ("p", count("b"))]
        assert page_store.page().number > before.number
        store.keep_only(["b"])
        assert list(page_store.page().objects) == [("p", count("b"))]

    run_stepped(main)
