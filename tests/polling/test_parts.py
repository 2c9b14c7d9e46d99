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
