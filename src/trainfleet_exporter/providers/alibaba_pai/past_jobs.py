"""From rows of ListJobs and answers of GetJob to lives: what a job was, and which status it had when. Pure.

A row tells of a job as it is now. What it was while it ran is the same row with another word for its status, so that
the past is translated by what translates the present.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from trainfleet_exporter.model import FINISHED, Job
from trainfleet_exporter.providers.alibaba_pai import payloads, translate
from trainfleet_exporter.providers.alibaba_pai.translate import EcsSpec
from trainfleet_exporter.providers.history import Life, Spell, lasting
from trainfleet_exporter.providers.values import utc_time, whole


def life(
    row: payloads.Job,
    *,
    workspace_id: str = "",
    pool_models: Mapping[str, str],
    ecs_specs: Mapping[str, EcsSpec],
    shown_tags: Collection[str],
) -> Life | None:
    """The life of a job by its row; None without an id."""

    def translated(given: payloads.Job) -> Job | None:
        return translate.job(given, workspace_id=workspace_id, pool_models=pool_models, ecs_specs=ecs_specs)

    now, then = translated(row), translated(replace(row, status="Running", sub_status=""))
    if now is None or then is None:
        return None
    job = lasting(then, shown_tags)
    known = [moment for moment in (now.created, now.submitted, now.started) if moment is not None]
    gone = now.status in FINISHED and not now.holds_resources
    # A job that has ended nobody knows when is believed to have lived as long as something is known of it.
    until = (now.finished if now.finished is not None else max(known, default=0.0)) if gone else None
    counted = [count for spec in row.job_specs or () if (count := whole(spec.pod_count)) is not None]
    end_of_work = utc_time(getattr(row, translate.END_TIMES[now.status])) if now.status in FINISHED else None
    known_of = Life(
        job=job,
        until=until,
        ended=now.finished,
        ceased=end_of_work if end_of_work is not None else until if gone else now.finished,
        spells=() if not gone or now.finished is None else (_spell(now.platform_status, now.finished, None),),
        pods=sum(counted) or int(job.nodes or 1),
        cards=int(sum(item.count for item in job.accelerators)),
    )
    return with_spells(known_of, row.status_history)


def with_spells(known: Life, history: Iterable[payloads.StatusTransition] | None) -> Life:
    """The life with what its history of statuses tells (GetJob has one)."""
    found = list(spells(history or ()))
    if not found:
        return known
    if found[-1].end is None and found[-1].status in FINISHED and not found[-1].holds_resources:
        return replace(known, spells=tuple(found))
    if known.until is not None:
        # What the list proved of the end stays, should the history not know of it: nothing else lasted beyond.
        end = next((spell for spell in known.spells if spell.end is None), None)
        if end is not None:
            found = [*(_until(spell, end.start) for spell in found if spell.start < end.start), end]
        elif found[-1].end is None:
            found.pop()  # it did not last, nobody knows how long
    return replace(known, spells=tuple(found))


def _until(spell: Spell, moment: float) -> Spell:
    return replace(spell, end=moment if spell.end is None else min(spell.end, moment))


def spells(history: Iterable[payloads.StatusTransition]) -> Iterator[Spell]:
    """StatusHistory: each status with its time. One without an end lasts until the next begins, or still."""
    found = []
    for item in history:
        start = utc_time(item.start_time)
        if item.status and start is not None:
            found.append((start, utc_time(item.end_time), item.status))
    found.sort(key=lambda each: each[0])
    for place, (start, end, word) in enumerate(found):
        following = found[place + 1][0] if place + 1 < len(found) else None
        until = following if end is None else end if following is None else min(end, following)
        if until is None or until > start:
            yield _spell(word, start, until)


def _spell(word: str, start: float, end: float | None) -> Spell:
    job = translate.job(payloads.Job(job_id="-", status=word))
    assert job is not None  # it has an id
    return Spell(start, end, job.status, word, job.holds_resources)
