"""The published sample lines by family and part, and the newest page: a value that any thread may read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from trainfleet_exporter.exposition.blocks import Block, MetricsPage
from trainfleet_exporter.exposition.formats import Format, head
from trainfleet_exporter.families import FAMILIES, MetricFamily
from trainfleet_exporter.model import Job, JobCount, JobTime, JobUsage, ProviderFacts, Readings

log = logging.getLogger(__name__)

_REST_SECONDS = 1.0
"""Minimum seconds from the end of a build to the begin of the next."""
_REST = 9
"""The next build waits this multiple of a build's CPU time: builds take at most a tenth of the time."""

_COUNTED_CLASSES = frozenset({Job, JobCount, JobTime, JobUsage, ProviderFacts, Readings})
"""Classes of the model that the status page counts."""


class PageStore:
    """Holds the latest sample lines of every part. It belongs to the thread that polls; any thread may read `page`.

    A part is the unit of replacement (a workspace's jobs, the pools, one job's pods). Any hashable key names it.

        put, drop ──► lines by family and part ──build, once a second──► an immutable page ──page()──► a scrape

    Memory: the lines once, which both formats share and the newest page refers to; their gzip once; and while a page is
    built, the lines and the gzip of the families that changed since the last one. Only the heads differ by format.
    """

    def __init__(self, families: Sequence[MetricFamily] = FAMILIES, standing: Callable[[], Any] = lambda: None) -> None:
        """`families` are in the order of the page. `standing` returns an immutable value of how the exporter polls: a
        page has the one of the moment of its samples."""
        self.standing = standing
        self.is_kept_built = False
        """Whether `keep_built` replaces pages. Otherwise each reader of `page` builds its own."""
        self._lines: dict[str, dict[Hashable, tuple[bytes, ...]]] = {family.name: {} for family in families}
        self._changed: set[str] = set()
        """The families whose lines differ from those of the newest page."""
        self._families: dict[Hashable, Collection[str]] = {}
        """The families of each part."""
        self._objects: dict[Hashable, tuple[str, Sequence[object]]] = {}
        """The provider and the counted objects of each part that has any."""
        heads = {
            fmt: {family.name: Block.of((head(family.name, family.help, family.kind, fmt),)) for family in families}
            for fmt in Format
        }
        self._page = MetricsPage(0, heads)
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
        if unknown := lines.keys() - self._lines.keys():
            raise KeyError(f"no such family: {', '.join(sorted(unknown))}")
        for family in {**dict.fromkeys(self._families.get(part, ())), **lines}:
            texts = tuple(filter(None, lines.get(family, ())))
            if texts != self._lines[family].get(part, ()):
                self._changed.add(family)
                if texts:
                    self._lines[family][part] = texts
                else:
                    del self._lines[family][part]
        self._families[part] = tuple(lines)
        if kept := [found for found in objects if type(found) in _COUNTED_CLASSES]:
            self._objects[part] = provider, kept
        else:
            self._objects.pop(part, None)

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
        found = {family: self._lines[family].get(part, ()) for family in self._families.get(part, ())}
        return {family: sum([text.count(b"\n") for text in texts]) for family, texts in found.items() if texts}

    def page(self) -> MetricsPage:
        """Return the newest page. Any thread may call this if `keep_built` runs."""
        return self._page if self.is_kept_built else self.current()

    def current(self) -> MetricsPage:
        """Build a page of all changes, and return it."""
        self.build()
        return self._page

    async def keep_built(self) -> None:
        """Build a page every second, until cancelled. While builds fail, the newest page stays, with its old states."""
        self.is_kept_built = True
        while True:
            rest = _REST_SECONDS
            try:
                rest = max(rest, _REST * self.build())
            except Exception:
                if not self._fails:
                    log.exception("cannot build pages: internal error; scrapes get the latest page")
                self._fails = True
            else:
                self._fails = False
            await asyncio.sleep(rest)

    def build(self) -> float:
        """Build a page of the current lines. Other threads can run during the compression; return its CPU seconds."""
        began = time.thread_time()
        families = self._page.families
        if self._changed:
            built = {family: Block.of(chain.from_iterable(self._lines[family].values())) for family in self._changed}
            blocks = {**families, **built}
            families = {family: blocks[family] for family in self._lines if family in blocks and blocks[family].size}
        self._page = replace(
            self._page,
            number=self._page.number + bool(self._changed),
            families=families,
            standing=self.standing(),
            objects=tuple(self._objects.values()),
        )
        self._changed.clear()
        return time.thread_time() - began
