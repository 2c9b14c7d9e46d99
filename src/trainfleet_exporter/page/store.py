"""The published sample lines by family and part, and the newest page built from them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from trainfleet_exporter.families import FAMILIES, MetricFamily
from trainfleet_exporter.model import HeldTime, Job, JobCount, JobUsage, ProviderFacts, Readings
from trainfleet_exporter.page import deflate
from trainfleet_exporter.page.blocks import Block, MetricsPage
from trainfleet_exporter.page.formats import Format, head
from trainfleet_exporter.process.threads import DaemonThreadExecutor
from trainfleet_exporter.process.yielding import yield_to_loop

log = logging.getLogger(__name__)

_REST_SECONDS = 1.0
"""Minimum seconds from the end of a build to the begin of the next."""
_REST = 9
"""The next build waits this multiple of a build's CPU time: builds take at most a tenth of the time."""

_COUNTED_CLASSES = frozenset({HeldTime, Job, JobCount, JobUsage, ProviderFacts, Readings})
"""Classes of the model that the status page counts."""

Texts = tuple[bytes, ...]


class _FamilyLines:
    """The sample lines of one family, by part, in the order in which the parts came."""

    __slots__ = ("changed", "parts", "size")

    def __init__(self) -> None:
        self.parts: dict[Hashable, Texts] = {}
        self.size = 0
        """Bytes of all parts."""
        self.changed = 0
        """The number of the latest change (see PageStore)."""

    def replace(self, part: Hashable, texts: Texts, number: int) -> bool:
        """Replace the texts of the part, as the change of this number. Return whether they differ."""
        before = self.parts.get(part, ())
        if texts == before:
            return False
        self.changed = number
        self.size += sum(map(len, texts)) - sum(map(len, before))
        if texts:
            self.parts[part] = texts
        else:
            del self.parts[part]
        return True


class PageStore:
    """Holds the latest sample lines of every part. It belongs to one event loop and is not thread-safe.

    A part is the unit of replacement (a workspace's jobs, the pools, one job's pods). Any hashable key names it.

        put, drop ──► lines by family and part ──keep_built()──► the newest finished page ──page()──► a scrape

    Memory: the lines once, which both formats share and the newest page refers to; their gzip once; and while a page is
    built, the lines and the gzip of the families that changed since the last one. Only the heads differ by format.
    It keeps only the objects that the status page needs (see `objects`).
    """

    def __init__(
        self, families: Sequence[MetricFamily] = FAMILIES, standings: Callable[[], Any] = lambda: None
    ) -> None:
        """`families` are in the order of the page. `standings` returns the current states of the collectors: a page
        contains states that are as old as its samples."""
        self._lines = {family.name: _FamilyLines() for family in families}
        self._families: dict[Hashable, Collection[str]] = {}
        """The families of each part."""
        self._objects: dict[Hashable, tuple[str, Sequence[object]]] = {}
        """The provider and the kept objects of each part that has any."""
        self._standings = standings
        self._changes = 0
        """The number of the latest change of any family."""
        self._changed = asyncio.Event()
        heads = {fmt: {family.name: Block.of((head(family, fmt),)) for family in families} for fmt in Format}
        self._page = MetricsPage(0, heads)
        self._building = asyncio.Lock()
        self._is_kept_built = False
        self._fails = False
        """Whether the latest build failed."""

    def put(
        self,
        part: Hashable,
        lines: Mapping[str, Sequence[bytes]],
        *,
        provider: str = "",
        objects: Sequence[object] = (),
    ) -> None:
        """Replace a part by these lines (as a `Renderer` makes them). A page shows the change completely or not at all.

        `objects` of the `provider` are the source of the lines: the status page counts objects, not lines.
        Raises KeyError, and changes nothing, for a family that the store does not know.
        """
        unknown = lines.keys() - self._lines.keys()
        if unknown:
            raise KeyError(f"no such family: {', '.join(sorted(unknown))}")
        number = self._changes + 1
        texts_by_family = {**dict.fromkeys(self._families.get(part, ()), ()), **lines}
        changed = [
            self._lines[family].replace(part, tuple(filter(None, texts)), number)
            for family, texts in texts_by_family.items()
        ]
        self._families[part] = tuple(lines)
        if kept := [found for found in objects if type(found) in _COUNTED_CLASSES]:
            self._objects[part] = provider, kept
        else:
            self._objects.pop(part, None)
        if any(changed):
            self._changes = number
            self._changed.set()

    def drop(self, part: Hashable) -> None:
        """Remove a part from the page. A missing part is not an error."""
        self.put(part, {})
        del self._families[part]

    @property
    def parts(self) -> Collection[Hashable]:
        """The parts that were put and not dropped."""
        return self._families.keys()

    def series(self, part: Hashable) -> dict[str, int]:
        """Return the number of series (sample lines) of the part, by family. Counting takes 10 ns a line."""
        found = {family: self._lines[family].parts.get(part, ()) for family in self._families.get(part, ())}
        return {family: sum([text.count(b"\n") for text in texts]) for family, texts in found.items() if texts}

    @property
    def changes(self) -> int:
        """The number of the latest change: the same number means the same samples."""
        return self._changes

    def objects(self) -> list[tuple[str, Sequence[object]]]:
        """Return what is published now as objects, part by part, each with the name of its provider.

        Only the classes that the status page makes figures of: ProviderFacts, Job, JobCount, JobUsage, HeldTime, and
        Readings.
        """
        return list(self._objects.values())

    def page(self) -> MetricsPage:
        """Return the page for a scrape: the current one if it can be built at once, else the newest finished one."""
        is_built_elsewhere = self._is_kept_built and not self._fails
        if (
            is_built_elsewhere
            and sum([self._lines[family].size for family in self._changed_families()]) > deflate.QUICK_BYTES
        ):
            return self._page
        return self.current()

    def current(self) -> MetricsPage:
        """Return the current page. Build all changes at once."""
        built = {
            family: Block.of(chain.from_iterable(self._lines[family].parts.values()))
            for family in self._changed_families()
        }
        self._show(self._changes, built, self._standings())
        return self._page

    async def keep_built(self) -> None:
        """Build pages when lines change, until cancelled. While builds fail, each scrape builds its own page."""
        self._is_kept_built = True
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                rest = _REST_SECONDS
                try:
                    rest = max(rest, _REST * await self.build())
                except Exception:
                    if not self._fails:
                        log.exception("cannot build pages in advance: internal error; scrapes build them")
                    self._fails = True
                    self._changed.set()
                else:
                    self._fails = False
                await asyncio.sleep(rest)
        finally:
            self._is_kept_built = False

    async def build(self) -> float:
        """Build a page of the current lines. Return the CPU seconds of the compression."""
        async with self._building:
            gathered = await self._gather()
            number, standings = self._changes, self._standings()
            # A separate thread, because the threads of the loop may all wait for a name server.
            work = asyncio.get_running_loop().run_in_executor(DaemonThreadExecutor(), _compress, gathered)
            del gathered
            built, seconds = await work
            if number > self._page.number:  # else a scrape has built this page or a newer one
                replaced = [self._page.families.get(family) for family in built]
                self._show(number, built, standings)
                while replaced:  # to free the texts of a family may take milliseconds
                    replaced.pop()
                    await yield_to_loop()
            return seconds

    async def _gather(self) -> dict[str, tuple[Texts, ...]]:
        """Collect the lines of the changed families, as of the end of this call. Yield between families."""
        gathered: dict[str, tuple[Texts, ...]] = {}
        seen: dict[str, int] = {}
        turns = 2 * len(self._lines)  # without a limit, new changes could keep this loop busy
        while waiting := [
            family for family in self._changed_families() if seen.get(family) != self._lines[family].changed
        ]:
            family = waiting[0]
            gathered[family] = tuple(self._lines[family].parts.values())
            seen[family] = self._lines[family].changed
            if turns:
                turns -= 1
                await yield_to_loop()
        return gathered

    def _changed_families(self) -> list[str]:
        """The families that have changed since the newest page was built."""
        return [family for family, lines in self._lines.items() if lines.changed > self._page.number]

    def _show(self, number: int, built: Mapping[str, Block], standings: Any) -> None:
        """Publish a page with these blocks, and with the previous page's blocks for all other families."""
        families = self._page.families
        if built:
            blocks = {**families, **built}
            families = {family: blocks[family] for family in self._lines if family in blocks and blocks[family].size}
        self._page = replace(self._page, number=number, families=families, standings=standings)


def _compress(gathered: Mapping[str, tuple[Texts, ...]]) -> tuple[dict[str, Block], float]:
    """Build blocks of families. Return them and the CPU time in this thread."""
    began = time.thread_time()
    built = {family: Block.of(chain.from_iterable(parts)) for family, parts in gathered.items()}
    return built, time.thread_time() - began
