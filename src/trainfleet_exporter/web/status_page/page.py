"""The whole status page, from the figures to the markup: what matters most comes first."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import trainfleet_exporter
from trainfleet_exporter.model import Status
from trainfleet_exporter.web.status_page.accelerators_section import held_section, idle_section
from trainfleet_exporter.web.status_page.fleet import IDLE_RATIO, Fleet
from trainfleet_exporter.web.status_page.jobs_section import jobs_section, total_jobs
from trainfleet_exporter.web.status_page.markup import Child, Html, element, joined, raw_style
from trainfleet_exporter.web.status_page.own import Own, State
from trainfleet_exporter.web.status_page.parts import Trust, at_least, badge, unknown
from trainfleet_exporter.web.status_page.provider_section import provider_sections
from trainfleet_exporter.web.status_page.words import ago, amount, cut, moment, percent, several, span

REFRESH_SECONDS = 30
_STYLE = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
STYLE_HASH = f"sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}"
"""What the page's content security policy allows, and nothing else: the one style sheet."""

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="{colour}"/></svg>'
)
_COLOURS = {State.DOWN: "#c62828", State.FAILING: "#c62828", State.STALE: "#b26a00", State.WAITING: "#6b7280"}


@dataclass(frozen=True, slots=True)
class Page:
    """All that the page shows. `now` is Unix seconds."""

    own: Own
    fleet: Fleet
    now: float
    metrics: str
    """The path of the metrics."""
    notice: str = ""

    async def markup(self) -> Html:
        """The page as HTML, made a little at a time."""
        problems, providers = await provider_sections(list(self.own.providers.values()), self.fleet.places, self.now)
        await asyncio.sleep(0)
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="refresh", content=str(REFRESH_SECONDS)),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{self._verdict()} · trainfleet-exporter"),
            element("link", rel="icon", href=f"data:image/svg+xml,{quote(self._icon())}"),
            raw_style(_STYLE),
        )
        body = element("body", self._header(), element("main", *self._main(problems, providers)), self._footer())
        return Html(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n")

    @property
    def _state(self) -> State:
        return min((provider.state(self.now) for provider in self.own.providers.values()), default=State.WAITING)

    def _icon(self) -> str:
        return _ICON.format(colour=_COLOURS.get(self._state, "#2e7d32"))

    def _verdict(self, noun: str = "") -> str:
        """The state in a few words: without a noun they fit a tab among others."""
        providers = self.own.providers.values()
        counts = Counter(provider.state(self.now) for provider in providers)
        if not providers:
            return "No providers"
        if down := counts[State.DOWN]:
            return f"{down} of {len(providers)} {noun}down"
        for state, word in ((State.FAILING, "failing"), (State.STALE, "stale"), (State.WAITING, "at first poll")):
            if counts[state]:
                return f"{counts[state]} of {len(providers)} {noun}{word}"
        return "OK"

    def _header(self) -> Html:
        links = [(self.metrics, "Metrics"), ("/config", "Config"), ("/-/healthy", "Health"), ("/-/ready", "Ready")]
        items = [element("a", text, href=href) for href, text in links]
        return element(
            "header",
            element("h1", "trainfleet-exporter ", badge(self._state, self._verdict("providers "))),
            element("nav", *items, aria_label="Pages of the exporter"),
            element("p", self.notice, class_="notice") if self.notice else None,
            self._reload() if self.own.reload_failed else None,
        )

    def _reload(self) -> Html:
        since = f", read {ago(self.own.config_read, self.now)}," if self.own.config_read else ""
        told = f"The config file was not fit for use when it was last read: the config before{since} stays in use."
        return element("p", told, " The log says what is wrong with it.", class_="alarm")

    def _main(self, problems: Html | None, providers_well: Html) -> Iterator[Child]:
        providers = list(self.own.providers.values())
        names = [provider.name for provider in providers]
        trust = self._trust()
        yield element("dl", *self._tiles(), class_="tiles")
        # On a narrow screen the second column follows the first: problems and idle jobs stay on top.
        yield element(
            "div",
            problems,
            idle_section(self.fleet, self.now),
            held_section(self.fleet, names, trust),
            class_="column",
        )
        yield element("div", jobs_section(self.fleet, names, trust), providers_well, class_="column")

    def _trust(self) -> Trust:
        """Whose figures are sure."""
        doubtful = [name for name, found in self.own.providers.items() if found.state(self.now) is not State.OK]
        # One that is not well and has nothing to show may just not be known to hold any.
        silent = set(doubtful) - {held.provider for held in self.fleet.held} - self.fleet.jobs.keys()
        lacking = {name for name, found in self.own.providers.items() if found.lacks_jobs(self.now)}
        return Trust(doubtful, frozenset(lacking | silent))

    def _tiles(self) -> Iterator[Html]:
        states = [provider.state(self.now) for provider in self.own.providers.values()]
        collectors = [found.state(self.now) for p in self.own.providers.values() for found in p.collectors.values()]
        well, all_of_them = states.count(State.OK), len(states)
        bad = sum(state < State.WAITING for state in collectors)
        detail = f"{amount(bad)} of {several(len(collectors), 'collector')} in trouble"
        if all(state is State.OK for state in collectors):
            detail = f"all {several(len(collectors), 'collector')} ok"
        tone = "bad" if bad else None
        old = " · may be old" if well < all_of_them else ""
        yield _tile("providers", "Providers ok", f"{well} of {all_of_them}", detail, tone)
        names, trust = list(self.own.providers), self._trust()
        running, queued = (total_jobs(self.fleet, status, names, trust) for status in (Status.RUNNING, Status.QUEUED))
        yield _tile("jobs", "Jobs running", running, joined([queued, f" queued{old}"]))
        yield from self._accelerator_tiles(old, trust)

    def _accelerator_tiles(self, old: str, trust: Trust) -> Iterator[Html]:
        held = self.fleet.held
        # Where no provider is well, that no job is seen to hold any only means that nobody knows.
        told = bool(held) or any(p.state(self.now) is State.OK for p in self.own.providers.values())
        if not told or self.fleet.hides_held:
            yield _tile("held", "Accelerators held", unknown(), None)
            yield _tile("idle", "Held and idle", unknown(), None)
            return
        kinds: dict[str, float] = {}
        for each in held:
            kinds[each.kind] = kinds.get(each.kind, 0) + each.held
        by_kind = ", ".join(
            f"{amount(count)} {cut(kind, 20).upper()}" for kind, count in sorted(kinds.items()) if count
        )
        whole = sum(kinds.values())
        # Where of all jobs nobody says whether they hold theirs, it is not 0.
        complete = not trust.lacking and (whole > 0 or not any(each.untold for each in held))
        nothing = "none" if complete else "none that is known of"
        yield _tile("held", "Accelerators held", at_least(whole, complete=complete), f"{by_kind or nothing}{old}")
        idle, unmeasured = sum(each.idle for each in held), sum(each.unmeasured for each in held)
        detail = f"used below {percent(IDLE_RATIO)}" + (f"; {amount(unmeasured)} not known" if unmeasured else "")
        untold = self.fleet.hides_idle or 0 < whole == unmeasured
        figure = unknown() if untold else at_least(idle, complete=complete)
        yield _tile("idle", "Held and idle", figure, detail, "bad" if idle else None)

    def _footer(self) -> Html:
        up = None if self.own.started is None else f"up {span(max(self.now - self.own.started, 0))}"
        facts: list[Child] = [
            f"Version {trainfleet_exporter.__version__}",
            up,
            joined(["as of ", moment(self.now)]),
            f"renewed every {REFRESH_SECONDS} s",
            "shows what was polled last; asks no cloud",
        ]
        return element("footer", element("p", joined(facts, " · ")))


def _tile(key: str, label: str, value: Child, detail: Child, tone: str | None = None) -> Html:
    return element(
        "div",
        element("dt", element("a", label, href=f"#{key}")),
        element("dd", value, class_="figure"),
        element("dd", detail, class_="muted"),
        class_=f"card tile {tone or ''}".strip(),
    )
