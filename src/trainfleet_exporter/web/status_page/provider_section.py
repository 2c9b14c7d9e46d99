"""Each provider and each of its collectors: state, age, last error, calls and budget. Problems come first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from trainfleet_exporter.web.status_page.markup import Child, Html, element, joined
from trainfleet_exporter.web.status_page.own import ApiFigures, CollectorFigures, ProviderFigures, State
from trainfleet_exporter.web.status_page.parts import ROWS, badge, heads, muted, section, table
from trainfleet_exporter.web.status_page.words import TEXT_CHARS, ago, amount, cut, moment, name, percent, several, span

_RECENT_SECONDS = 3600.0
"""How long the last error of a collector that works again stays on the page."""
_LOW_BUDGET = 0.1
"""Of a month's budget: what is left then is worth a colour."""

_COLLECTOR_HEADS = heads(
    ("Collector", ""),
    ("State", ""),
    ("Last good", "n"),
    ("Oldest data", "n"),
    ("Every", "n w"),
    ("Took", "n w"),
    ("Parts", "n w"),
    ("Series", "n w"),
)
_COLUMNS = "8"


async def provider_sections(
    providers: Sequence[ProviderFigures], places: Mapping[str, str], now: float
) -> tuple[Html | None, Html]:
    """Return the section of the providers in trouble (None if there are none) and that of all others.

    `places` are platform and region by provider. `now` is Unix seconds. The worst provider comes first.
    """
    ordered = sorted(providers, key=lambda provider: provider.state(now))
    in_trouble: list[Child] = []
    others: list[Child] = []
    for provider in ordered[:ROWS]:
        state = provider.state(now)
        card = _provider(provider, places.get(provider.name, ""), now)
        (in_trouble if state < State.WAITING else others).append(card)
        await asyncio.sleep(0)
    if rest := Counter(provider.state(now) for provider in ordered[ROWS:]):
        more = joined([joined([badge(state), f" {amount(count)}"]) for state, count in sorted(rest.items())], ", ")
        others.append(element("p", f"{several(rest.total(), 'more provider')}: ", more))
    if not providers:
        others.append(element("p", "The config names no provider."))
    elif not others:
        others.append(element("p", "All providers have problems.", class_="card"))
    problems = section("problems", "Problems", *in_trouble) if in_trouble else None
    return problems, section("providers", "Providers and collectors", *others)


def _provider(provider: ProviderFigures, place: str, now: float) -> Html:
    """One card. Collectors without problems fold into one line."""
    state = provider.state(now)
    heading = element(
        "h3", badge(state), " ", name(provider.name), " ", muted(element("bdi", cut(place, 60))) if place else None
    )
    ordered = sorted(provider.collectors.values(), key=lambda found: found.state(now))
    well = [found for found in ordered if found.state(now) is State.OK]
    others = [found for found in ordered if found.state(now) is not State.OK]
    verdict = element("p", *_verdict(ordered, state, now)) if others else None
    return element(
        "article",
        heading,
        verdict,
        _collectors(provider, others, now) if others else None,
        element("details", element("summary", *_summary(well, ordered, now)), _collectors(provider, well, now))
        if well
        else None,
        _apis(list(provider.apis.values())),
        _credentials(provider.expires, now),
        class_=f"card provider is-{state.name.lower()}",
    )


def _collectors(provider: ProviderFigures, collectors: Sequence[CollectorFigures], now: float) -> Html:
    rows = [row for found in collectors for row in _collector(found, now)]
    return table(f"Collectors of {cut(provider.name, 60)}", _COLLECTOR_HEADS, rows)


def _summary(well: Sequence[CollectorFigures], collectors: Sequence[CollectorFigures], now: float) -> Iterator[Child]:
    """The one line that stands for the collectors without problems."""
    count = several(len(well), "collector")
    yield f"All {count} ok" if len(well) == len(collectors) else f"{count} ok"
    oldest = min((found.last_success for found in well if found.last_success is not None), default=None)
    yield muted(f" · last good poll at most {ago(oldest, now)}")
    recent = sum(found.error is not None and now - found.error.at < _RECENT_SECONDS for found in well)
    if recent:
        yield muted(f" · {amount(recent)} with an error in the last hour")


def _verdict(collectors: Sequence[CollectorFigures], state: State, now: float) -> Iterator[Child]:
    """How the provider is, in words."""
    counts = Counter(found.state(now) for found in collectors)
    all_of_them = amount(len(collectors))
    if state is State.DOWN:
        yield f"No collector's latest poll succeeded ({counts[State.FAILING]} of {all_of_them} failed). "
        yield "What is shown of it is old, and goes when it has been kept long enough."
    elif counts[State.FAILING]:
        yield f"{counts[State.FAILING]} of {all_of_them} collectors failed in the latest poll."
    elif counts[State.STALE]:
        yield f"{counts[State.STALE]} of {all_of_them} collectors have not ended a poll for too long."
    else:
        yield f"{counts[State.WAITING]} of {all_of_them} collectors are at their first poll."


def _collector(found: CollectorFigures, now: float) -> Iterator[Html]:
    state = found.state(now)
    classes = f"is-{state.name.lower()}"
    yield element(
        "tr",
        element("th", name(found.collector), scope="row", class_="id"),
        element("td", badge(state)),
        _number("–" if state is State.WAITING else ago(found.last_success, now)),
        _number("–" if found.oldest_part is None else ago(found.oldest_part, now)),
        _number(span(found.interval), "w"),
        _number("–" if found.duration is None else span(found.duration), "w"),
        _number(amount(found.parts), "w"),
        _number(amount(found.series), "w"),
        class_=classes,
    )
    error, over = found.error, state is State.OK
    if error is not None and (not over or now - error.at < _RECENT_SECONDS):
        when = [muted("last error ") if over else None, ago(error.at, now)]
        many = f", {several(found.parts_failed, 'part')} failed" if found.parts_failed > 1 and not over else None
        where = joined([", first " if many else ", part ", name(error.part)]) if error.part else None
        told = element("p", *when, many, where, ": ", name(error.text, TEXT_CHARS))
        yield element("tr", element("td", told, colspan=_COLUMNS), class_=f"error {'over' if over else classes}")


def _number(text: str, classes: str = "") -> Html:
    return element("td", text, class_=f"n {classes}".strip())


def _apis(apis: Sequence[ApiFigures]) -> Html | None:
    if not apis:
        return None
    entries = [
        element("div", element("dt", name(found.api)), element("dd", *_failures(found)), *_budget(found))
        for found in apis
    ]
    title = element("p", "API calls since the start, as they are billed")
    return element("div", title, element("dl", *entries), class_="apis")


def _failures(found: ApiFigures) -> Iterator[Child]:
    yield amount(found.calls)
    if total := sum(found.failures.values()):
        outcomes = sorted(found.failures.items(), key=lambda item: -item[1])
        kinds = ", ".join(f"{outcome} {amount(count)}" for outcome, count in outcomes)
        yield joined([" ", element("strong", f"{amount(total)} failed", class_="bad"), muted(f" ({kinds})")])


def _budget(found: ApiFigures) -> Iterator[Html]:
    if found.budget is None or found.remaining is None:
        return
    left = found.remaining / found.budget if found.budget else 0.0
    meter = element(
        "meter",
        percent(left),
        min="0",
        max=str(found.budget),
        low=str(found.budget * _LOW_BUDGET),
        optimum=str(found.budget),
        value=str(found.remaining),
        aria_hidden="true",
    )
    figure = f"{amount(found.remaining)} of {amount(found.budget)} left this month"
    told = element("strong", figure, class_="bad") if left < _LOW_BUDGET else figure
    yield element("dd", meter, " ", told, class_="budget")


def _credentials(expires: float | None, now: float) -> Html | None:
    if expires is None:
        return None
    if expires <= now:
        told: list[Child] = [element("strong", f"Credentials ended {ago(expires, now)}", class_="bad")]
    else:
        told = [f"Credentials in use end in {span(expires - now)}"]
    return element("p", *told, " (", moment(expires), "); they are renewed before.", class_="muted")
