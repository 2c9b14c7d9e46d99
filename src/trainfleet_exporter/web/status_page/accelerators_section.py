"""The accelerators that jobs hold, and the jobs that hold most without using them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainfleet_exporter.model import Status
from trainfleet_exporter.web.status_page.fleet import IDLE_RATIO, Fleet, Held, IdleJob
from trainfleet_exporter.web.status_page.markup import Child, Html, element, joined
from trainfleet_exporter.web.status_page.parts import ROWS, Trust, doubted, heads, hidden, note, section, table, unknown
from trainfleet_exporter.web.status_page.words import amount, cut, name, percent, several, span

_KINDS = {"gpu": "GPU", "npu": "NPU"}
_HELD_HEADS = heads(("Provider", ""), ("Held", "n"), ("Idle", "n"), ("Usage not known", "n"), ("Mean utilization", "n"))
_LEGEND = note(
    *(
        element("span", element("i", class_=f"key {tone}", aria_hidden="true"), f" {words} ")
        for tone, words in (("idle", "idle"), ("dim", "usage not known"), ("busy", "in use"))
    )
)
"""What the colours of the bars mean."""
_IDLE_HEADS = heads(("Job", ""), ("Holds", "n"), ("Utilization", "n"), ("Running for", "n"))


def held_section(fleet: Fleet, providers: Sequence[str], trust: Trust) -> Html:
    """Held and idle accelerators. `providers` are in the order of the config."""
    title = "Accelerators held by jobs"
    if fleet.hides_held:
        return section("held", title, hidden(*fleet.hidden))
    place = {provider: number for number, provider in enumerate(providers)}
    rows = sorted(fleet.held, key=lambda held: (place.get(held.provider, len(place)), held.kind))
    return section("held", title, element("div", *_held_rows(title, rows, trust.doubtful), class_="card"))


def _held_rows(title: str, rows: Sequence[Held], doubtful: Sequence[str]) -> Iterator[Child]:
    told = {held.provider for held in rows}
    silent = [provider for provider in doubtful if provider not in told]
    if rows:
        yield table(title, _HELD_HEADS, [_held(held) for held in rows[:ROWS]])
        yield _LEGEND
    elif not silent:
        yield note("No job holds any.")
    if len(rows) > ROWS:
        yield note(f"{several(len(rows) - ROWS, 'more row')}: see the metrics.")
    if old := [provider for provider in doubtful if provider in told]:
        yield doubted(*old)
    if silent:
        yield element("p", unknown(), ": ", _names(silent), class_="note")
    if untold := sum(held.untold for held in rows):
        yield note(f"{amount(untold)} more are asked for by jobs of which nobody says whether they hold them.")


def _held(held: Held) -> Html:
    idle: Child = amount(held.idle)
    if held.idle:
        idle = element("strong", amount(held.idle), class_="bad")
    elif held.unmeasured == held.held:
        idle = unknown()
    ratio = held.utilization
    return element(
        "tr",
        element("th", name(held.provider), f" {_kind(held.kind)}", _bar(held), scope="row"),
        element("td", amount(held.held) if held.held else unknown(), class_="n"),
        element("td", idle, class_="n"),
        element("td", amount(held.unmeasured), class_="n"),
        element("td", unknown() if ratio is None else percent(ratio), class_="n"),
    )


def _bar(held: Held) -> Html | None:
    """What is held, as a bar: idle, usage not known, and the rest. The figures beside it say the same."""
    if not held.held:
        return None
    idle, unmeasured = 100 * held.idle / held.held, 100 * held.unmeasured / held.held
    parts = [("idle", 0.0, idle), ("dim", idle, unmeasured), ("busy", idle + unmeasured, 100 - idle - unmeasured)]
    rects = [
        element("rect", x=f"{x:.2f}", y="0", width=f"{max(width, 0):.2f}", height="4", class_=tone)
        for tone, x, width in parts
    ]
    return element("svg", *rects, viewbox="0 0 100 4", preserveaspectratio="none", aria_hidden="true", class_="bar")


def idle_section(fleet: Fleet, now: float) -> Html:
    """The idle jobs that hold most. `now` is Unix seconds."""
    title = "Idle jobs"
    body = hidden(*fleet.hidden) if fleet.hides_idle else element("div", *_idle_rows(title, fleet, now), class_="card")
    return section("idle", title, body, aside=f"they hold accelerators and use less than {percent(IDLE_RATIO)} of them")


def _idle_rows(title: str, fleet: Fleet, now: float) -> Iterator[Child]:
    if fleet.idle:
        yield table(title, _IDLE_HEADS, [_idle(job, now) for job in fleet.idle])
    else:
        yield note("No job is known to be idle.")
    if fleet.idle_jobs > len(fleet.idle):
        yield note(f"{several(fleet.idle_jobs - len(fleet.idle), 'more idle job')} that hold less: see the metrics.")
    if unmeasured := sum(held.unmeasured for held in fleet.held):
        yield note(f"Of {several(unmeasured, 'held accelerator')} no usage is known: they may be idle or not.")


def _idle(job: IdleJob, now: float) -> Html:
    models = ", ".join(dict.fromkeys(job.models))
    started: Child = unknown() if job.started is None else span(max(now - job.started, 0))
    return element(
        "tr",
        element("th", *_whose(job), scope="row"),
        element(
            "td",
            f"{amount(job.held)} {_kind(job.kind)}",
            element("div", name(models, 30), class_="muted w") if models else None,
            class_="n",
        ),
        element("td", percent(job.utilization), class_="n"),
        element("td", started, class_="n"),
    )


def _whose(job: IdleJob) -> Iterator[Child]:
    yield name(job.name or job.job_id)
    if job.status not in ("", Status.RUNNING):
        yield f" ({cut(job.status, 20)})"
    facts = [name(job.user) if job.user else element("span", "user not known"), name(job.job_id) if job.name else None]
    yield element("div", joined([*facts, name(job.provider)], " · "), class_="muted")
    if job.pool_id:
        yield element("div", "pool ", name(job.pool_id, 30), class_="muted w")


def _kind(kind: str) -> str:
    return _KINDS.get(kind, cut(kind, 20))


def _names(providers: Sequence[str]) -> Html:
    return joined([*map(name, providers[:ROWS]), "…" if len(providers) > ROWS else None], ", ")
