"""The status page of a made-up exporter, read by a strict parser as a person would see it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import httpx
import time_machine

from tests.support.clock import START
from trainfleet_exporter.exposition import PageStore, Renderer, RenderSettings
from trainfleet_exporter.model import (
    Accelerator,
    Accelerators,
    Job,
    JobCount,
    JobUsage,
    ProviderFacts,
    Status,
    UsageValues,
)
from trainfleet_exporter.telemetry import CollectorState, LastError, Telemetry
from trainfleet_exporter.web.app import make_app
from trainfleet_exporter.web.pages import Pages

NOW = START


class Seen:
    """A page, taken apart. Parsing fails on the first thing that is not valid."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        self.root: Element = parser.parse(answer.content, transport_encoding="utf-8")
        self.title = text_of(self.all("title")[0])

    def all(self, tag: str, class_: str = "", **attributes: str) -> list[Element]:
        """Elements of a tag that have a class and attributes."""
        return [
            found
            for found in self.root.iter(tag)
            if (not class_ or class_ in (found.get("class") or "").split())
            and all(found.get(key.rstrip("_")) == value for key, value in attributes.items())
        ]

    def section(self, key: str) -> str:
        """The text of a section."""
        (found,) = self.all("section", key)
        return text_of(found)

    def rows(self, class_: str) -> list[list[str]]:
        """The cells of the body rows of a section's tables."""
        (found,) = self.all("section", class_)
        return [[text_of(cell) for cell in row] for body in found.iter("tbody") for row in body]

    def providers(self) -> list[tuple[str, str]]:
        """Class and text of each provider's card, from top to bottom."""
        cards = [found for found in self.root.iter() if "provider" in (found.get("class") or "").split()]
        return [((card.get("class") or "").split()[-1], text_of(card)) for card in cards]

    def tiles(self) -> dict[str, tuple[str, str]]:
        """Figure and detail by label."""
        return {text_of(tile[0]): (text_of(tile[1]), text_of(tile[2])) for tile in self.all("div", "tile")}

    def counts(self) -> dict[str, dict[str, str]]:
        """Jobs by status, by the title of their card."""
        cards = [
            card for card in self.all("div", "card") if card.find("dl") is not None and card.find("h3") is not None
        ]
        return {
            text_of(card.find("h3")): {text_of(cell[0]): text_of(cell[1]) for cell in card.findall("./dl/div")}
            for card in cards
        }


def text_of(element: Element | None) -> str:
    """Its text, as it is read."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


@dataclass
class Rig:
    """What the page is made of. Times are Unix seconds; it is `NOW` when the page is asked for."""

    telemetry: Telemetry = field(default_factory=Telemetry)
    deny: Sequence[str] = ()
    notice: str = ""
    page_store: PageStore = field(init=False)
    made: list[CollectorState] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page_store = PageStore(
            standing=lambda: replace(self.telemetry.standing(), denied=tuple(self.deny), notice=self.notice)
        )

    def collector(self, provider: str, collector: str, **state: Any) -> CollectorState:
        """A collector that is well unless `state` says something else."""
        well: dict[str, Any] = {"success": True, "last_success": NOW - 12, "oldest_part": NOW - 20, "parts": 2}
        made = CollectorState(provider, collector, 60.0, **{**well, "duration": 0.25, "series": 1200, **state})
        self.telemetry.watch(made)
        self.made.append(made)
        return made

    def states(self, collector: str) -> list[CollectorState]:
        """The states of the collectors with this name."""
        return [state for state in self.made if state.collector == collector]

    def failing(self, provider: str, collector: str, text: str, *, part: str = "", **state: Any) -> CollectorState:
        """A collector whose latest poll failed 7 seconds ago, the last good one being 5 minutes old."""
        error = LastError(NOW - 7, part, text)
        return self.collector(
            provider,
            collector,
            **{"success": False, "last_success": NOW - 300, "parts_failed": 1, "error": error, **state},
        )

    def publish(self, part: str, provider: str, *objects: object) -> None:
        """Have objects shown."""
        renderer = Renderer(RenderSettings(deny=tuple(self.deny)))
        lines = renderer.render(provider, objects).lines
        self.page_store.put(part, lines, provider=provider, objects=objects)

    def pages(self) -> Pages:
        """What the application is made from."""
        return Pages(page_store=self.page_store, telemetry=self.telemetry)

    def ask(self, pages: Pages | None = None, method: str = "GET") -> httpx.Response:
        """The answer for `/`."""

        async def main() -> httpx.Response:
            transport = httpx.ASGITransport(app=make_app(pages or self.pages()))
            async with httpx.AsyncClient(transport=transport, base_url="http://exporter") as client:
                return await client.request(method, "/")

        with time_machine.travel(NOW, tick=False):
            return asyncio.run(main())

    def see(self) -> Seen:
        """The page."""
        answer = self.ask()
        assert answer.status_code == 200
        return Seen(answer)


def holder(job_id: str, count: float, *, kind: Accelerator = "gpu", model: str = "A100", **facts: Any) -> Job:
    """A running job that holds accelerators."""
    given = {"status": Status.RUNNING, "holds_resources": True, "accelerators": (Accelerators(kind, model, count),)}
    return Job(job_id=job_id, **{**given, **facts})


def usage(job_id: str, ratio: float, *, kind: Accelerator = "gpu") -> JobUsage:
    """The utilization of a job's accelerators."""
    return JobUsage(job_id, UsageValues(accelerator=kind, accelerator_utilization=ratio))


def counts(given: Mapping[Status, int], workspace: str = "w") -> list[JobCount]:
    """Jobs by status."""
    return [JobCount(workspace, status, status.title(), count) for status, count in given.items()]


def healthy() -> Rig:
    """Two clouds that are well, with two idle jobs and one of which no usage is known."""
    rig = Rig()
    for provider, platform, region in (("pai", "alibaba_pai", "cn-hangzhou"), ("ma", "huawei_modelarts", "cn-north-4")):
        rig.publish(f"{provider}/facts", provider, ProviderFacts(platform, region))
        for collector in ("jobs", "usage"):
            rig.collector(provider, collector)
        rig.telemetry.attempt(provider, api="dlc", operation="ListJobs", outcome="ok", seconds=0.1)
    live = {Status.RUNNING: 3, Status.QUEUED: 1200, Status.UNKNOWN: 0}
    rig.publish("pai/counts", "pai", *counts(live), *counts({Status.FAILED: 4, Status.RUNNING: 2}, "other"))
    rig.publish("ma/counts", "ma", *counts({Status.RUNNING: 1}))
    rig.publish(
        "pai/jobs",
        "pai",
        holder("busy", 16),
        holder("hangs", 8, name="night run", user_name="li.na", pool_id="pool-1", started=NOW - 3 * 3600 - 60),
        holder("dark", 4),
        holder("waits", 99, status=Status.QUEUED, holds_resources=False),
        holder("untold", 5, status=Status.UNKNOWN, holds_resources=None),
        holder("cpu-only", 0, model=""),
    )
    rig.publish("pai/usage", "pai", usage("busy", 0.75), usage("hangs", 0.0), usage("waits", 0.0))
    rig.publish("ma/jobs", "ma", holder("slow", 2, kind="npu", model="snt9b", status=Status.STARTING))
    rig.publish("ma/usage", "ma", usage("slow", 0.0499, kind="npu"))
    return rig
