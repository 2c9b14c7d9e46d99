"""The store of one collector's parts: figures that are true after every step, and what is remembered of whom."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.polling.rig import count
from tests.support.clock import START, run_stepped
from trainfleet_exporter.page import Format, PageStore, Rendered, Renderer, RenderSettings
from trainfleet_exporter.polling import PartStore
from trainfleet_exporter.telemetry import CollectorState


class Store:
    """A store of parts that are polled every 60 s, on a real page store."""

    def __init__(self, *, keep: int = 3, renderer: Renderer | None = None) -> None:
        self.state = CollectorState("p", "jobs", 60.0)
        self.page_store = PageStore()
        self.expired: list[str] = []
        self.parts = PartStore(
            self.state,
            page_store=self.page_store,
            renderer=renderer or Renderer(RenderSettings(deny=(), job_labels=())),
            keep_polls=keep,
            poll_timeout=50.0,
            expired=self.expired.append,
        )

    @property
    def figures(self) -> tuple[int, int, int]:
        """Parts, those that failed, series."""
        return self.state.parts, self.state.parts_failed, self.state.series

    def shown(self) -> set[bytes]:
        """The values on the page."""
        page = self.page_store.current().body(Format.TEXT, b"", gzip=False).joined()
        return {line.rpartition(b" ")[2] for line in page.splitlines() if not line.startswith(b"#")}

    def series(self, key: str) -> int:
        """How many series a part has on the page."""
        return sum(self.page_store.series(("p", "jobs", key)).values())


def run(main: Callable[[Store], Awaitable[None]], *, keep: int = 3) -> None:
    async def whole() -> None:
        await main(Store(keep=keep))

    run_stepped(whole)


def two(key: str) -> list[object]:
    """Objects of two series."""
    return [*count(key), *count(f"{key}'s other")]


def test_the_figures_are_true_after_every_step() -> None:
    async def main(store: Store) -> None:
        parts = store.parts
        await parts.publish("a", two("a"))
        assert store.figures == (1, 0, 2)
        await parts.publish("b", count("b"))
        assert store.figures == (2, 0, 3)
        await parts.publish("a", count("a"))
        assert store.figures == (2, 0, 2)
        for failures, key in enumerate(("a", "b", "the whole"), 1):
            parts.fail(key)
            assert store.figures == (2, failures, 2)
        parts.forgive("the whole")
        assert store.figures == (2, 2, 2)
        await parts.publish("a", count("a"))
        assert store.figures == (2, 1, 2)
        parts.keep_only({"a"})
        assert store.figures == (1, 0, 1)
        parts.close()
        assert store.figures == (0, 0, 0)

    run(main)


def test_rebuilt_or_expired_part_is_counted_as_it_is_then() -> None:
    async def rebuild(_: float) -> tuple[Sequence[object], float | None]:
        return two("a"), None

    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"), stale_at=START, rebuild=rebuild)
        await store.parts.publish("b", count("b"))
        await store.parts.expire()
        assert store.figures == (2, 0, 3)
        await asyncio.sleep(1000)
        await store.parts.expire()
        assert store.figures == (0, 0, 0)
        assert store.expired == ["a", "b"]

    run(main)


def test_part_expires_exactly_three_intervals_after_failure() -> None:
    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"))
        await asyncio.sleep(100)
        store.parts.fail("a")
        await asyncio.sleep(10)
        store.parts.fail("a")  # the first counts
        await asyncio.sleep(169)
        await store.parts.expire()
        assert "a" in store.parts
        await asyncio.sleep(1)
        await store.parts.expire()
        assert "a" not in store.parts
        assert store.expired == ["a"]

    run(main)


def test_unpolled_part_lives_four_intervals_and_a_poll() -> None:
    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"))
        await asyncio.sleep(4 * 60 + 49)
        await store.parts.expire()
        assert "a" in store.parts
        await asyncio.sleep(1)
        await store.parts.expire()
        assert "a" not in store.parts

    run(main)


def test_failure_that_ends_a_part_is_shown_as_its_expiry() -> None:
    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"))
        store.parts.fail("a")
        assert "a" not in store.parts
        assert store.expired == ["a"]
        assert store.figures == (0, 1, 0)

    run(main, keep=0)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_same_again_counts_unless_it_is_not_wanted(wanted: bool) -> None:
    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"))
        await asyncio.sleep(280)
        await store.parts.publish("a", count("a"), wanted=lambda: wanted)
        await asyncio.sleep(10)
        await store.parts.expire()
        assert ("a" in store.parts) is wanted

    run(main)


def test_who_was_missed_is_forgotten_when_it_is_found_or_no_more() -> None:
    async def main(store: Store) -> None:
        assert [store.parts.miss("a"), store.parts.miss("a"), store.parts.miss("b")] == [True, False, True]
        store.parts.find("a")
        assert store.parts.miss("a")
        store.parts.keep_only({"b"})
        assert [store.parts.miss("a"), store.parts.miss("b")] == [True, False]

    run(main)


def test_part_is_rebuilt_exactly_when_it_is_due() -> None:
    async def main(store: Store) -> None:
        moments: list[float] = []

        async def rebuild(moment: float) -> tuple[Sequence[object], float | None]:
            moments.append(moment - START)
            return count("a"), moment + 20

        await store.parts.publish("a", count("a"), stale_at=START + 10, rebuild=rebuild)
        for _ in range(35):
            await store.parts.expire()
            await asyncio.sleep(1)
        assert moments == [10, 30]

    run(main)


def test_part_that_cannot_be_rebuilt_stays_due() -> None:
    async def main(store: Store) -> None:
        attempts = 0

        async def rebuild(_: float) -> tuple[Sequence[object], float | None]:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise MemoryError
            return two("a"), None

        await store.parts.publish("a", count("a"), stale_at=START, rebuild=rebuild)
        for _ in range(2):
            with pytest.raises(MemoryError):
                await store.parts.expire()
        await store.parts.expire()
        await store.parts.expire()
        assert (attempts, store.series("a")) == (3, 2)

    run(main)


def test_part_that_cannot_be_rebuilt_loses_only_itself() -> None:
    async def fail(_: float) -> tuple[Sequence[object], float | None]:
        raise ZeroDivisionError

    async def rebuild(_: float) -> tuple[Sequence[object], float | None]:
        return two("c"), None

    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"), stale_at=START, rebuild=fail)
        await store.parts.publish("b", count("b"), stale_at=START, rebuild=fail)
        await store.parts.publish("c", count("c"), stale_at=START, rebuild=rebuild)
        with pytest.raises(ZeroDivisionError):
            await store.parts.expire()
        assert [store.series(key) for key in "abc"] == [1, 1, 2]
        assert (store.state.series, store.state.oldest_part) == (4, START)

    run(main)


def test_answer_replaces_a_rebuilt_part() -> None:
    async def rebuild(_: float) -> tuple[Sequence[object], float | None]:
        return count("a", 2), None

    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a", 1), stale_at=START, rebuild=rebuild)
        await store.parts.expire()
        assert store.shown() == {b"2"}
        await store.parts.publish("a", count("a", 1))
        assert store.shown() == {b"1"}

    run(main)


def test_oldest_part_has_a_time_and_no_part_has_none() -> None:
    async def main(store: Store) -> None:
        await store.parts.publish("a", count("a"))
        await asyncio.sleep(30)
        await store.parts.publish("b", count("b"))
        await store.parts.expire()
        assert store.state.oldest_part == START
        await asyncio.sleep(30)
        await store.parts.publish("a", count("a"))
        store.parts.account()
        assert store.state.oldest_part == START + 30
        store.parts.close()
        store.parts.account()
        assert store.state.oldest_part is None

    run(main)


class _Interrupted(Renderer):
    """Renders, and then lets another task run before the answer is shown."""

    def __init__(self) -> None:
        super().__init__(RenderSettings(deny=(), job_labels=()))
        self.meanwhile: list[Callable[[], None]] = []

    def render(self, provider: str, objects: Sequence[object]) -> Rendered:
        rendered = super().render(provider, objects)
        if self.meanwhile:
            self.meanwhile.pop()()
        return rendered


def test_answer_is_shown_whole_after_its_part_was_dropped() -> None:
    async def main() -> None:
        renderer = _Interrupted()
        store = Store(renderer=renderer)
        await store.parts.publish("a", two("a"))
        renderer.meanwhile.append(lambda: store.parts.keep_only(()))
        await store.parts.publish("a", two("a"))
        assert (store.series("a"), store.figures) == (2, (1, 0, 2))

    run_stepped(main)


@pytest.mark.parametrize("close", [True, False])
def test_an_answer_that_comes_too_late_is_not_shown(close: bool) -> None:
    async def main() -> None:
        renderer = _Interrupted()
        store = Store(renderer=renderer)
        wanted = True

        def end() -> None:
            nonlocal wanted
            if close:
                store.parts.close()
            else:
                wanted = False

        renderer.meanwhile.append(end)
        await store.parts.publish("a", two("a"), wanted=lambda: wanted)
        assert (store.series("a"), store.figures) == (0, (0, 0, 0))

    run_stepped(main)
