"""ModelArts' past: jobs by searches, readings by AOM's ranges, and by the arrays of tasks for jobs that AOM lacks.

Cost: a call for each 50 jobs and each search; for each day one call a metric of AOM and each 50,000 samples of it;
and one call a task, for all days together, of each job that AOM lacks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from trainfleet_exporter.config import JobsScope
from trainfleet_exporter.errors import CloudError, NotFound, RequestRefused
from trainfleet_exporter.providers.credentials import CredentialClients
from trainfleet_exporter.providers.history import (
    DAY,
    MINUTE,
    History,
    Life,
    Lives,
    Marks,
    Range,
    Sink,
    Unit,
    seconds_after,
)
from trainfleet_exporter.providers.huawei_modelarts import past_jobs, translate
from trainfleet_exporter.providers.huawei_modelarts.aom import AomApi, AomDialect, is_refusal, is_too_large
from trainfleet_exporter.providers.huawei_modelarts.auth import open_identity
from trainfleet_exporter.providers.huawei_modelarts.client import Filter, ModelArtsClient
from trainfleet_exporter.providers.huawei_modelarts.collectors.shared import DEFAULT_WORKSPACE
from trainfleet_exporter.providers.huawei_modelarts.config import HuaweiModelArtsConfig
from trainfleet_exporter.providers.huawei_modelarts.metric_map import ACCELERATORS, READINGS, Plan, Query, plans
from trainfleet_exporter.providers.huawei_modelarts.past_samples import SOURCE as AOM
from trainfleet_exporter.providers.huawei_modelarts.past_samples import Steps
from trainfleet_exporter.providers.huawei_modelarts.past_tasks import MOST_MINUTES, Arrays
from trainfleet_exporter.providers.huawei_modelarts.past_tasks import SOURCE as TASKS
from trainfleet_exporter.providers.huawei_modelarts.signing import HuaweiDialect
from trainfleet_exporter.providers.jobs.filters import job_filter
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.providers.transport_factory import open_transport
from trainfleet_exporter.transport.json_fields import iso_time

log = logging.getLogger(__name__)

LOOK_BACK = 93 * DAY
"""How long before the start a job that has ended may have been created and is still found."""
_SEARCHED = 7 * DAY
"""One search; at most 31 days are allowed, and fewer are fewer rows in memory."""
_WINDOW = 2.0 * MINUTE
"""How old a sample may be at a step: they come about a minute apart."""
_SAMPLES_AT_ONCE = 50_000
"""Samples that one query answers, about: they are in memory together."""
_MOST_NAMED = 50
"""Jobs up to which a query names them, where others are not wanted: it goes in the URL."""
_ACCELERATORS = "aom accelerators"
"""The mark of a job of whose accelerators AOM tells."""


class _Learned(msgspec.Struct):
    """What plans are made by."""

    workspaces: list[str] = msgspec.field(default_factory=list)
    metrics: list[str] | None = None
    """The metrics that AOM has; None where their names cannot be had."""
    closed: bool = False
    """Whether AOM tells nothing."""


@dataclass(frozen=True, slots=True)
class _OfAom:
    """One reading of all jobs over a time."""

    plan: Plan
    within: Range
    lives: Lives
    tells_source: bool
    named: bool
    """Whether the jobs are asked for by their names."""


class ModelArtsHistory(History):
    """One project of ModelArts."""

    def __init__(self, config: HuaweiModelArtsConfig, context: BuildContext) -> None:
        self._config = config
        self._usage = config.collectors.usage
        self._settings = context.settings
        self._transport = open_transport(config, context)
        self._credential_clients = CredentialClients(config.name, self._transport, context, config.endpoint)
        identity = open_identity(
            config.credentials.source,
            self._credential_clients,
            region=config.region,
            project_id=config.project_id or config.credentials.project_id,
        )
        clients = {
            api: self._transport.client(config.endpoint(api), HuaweiDialect(api, identity))
            for api in ("modelarts", "iam")
        }
        identity.use(clients["iam"])
        self._api = ModelArtsClient(clients["modelarts"], identity)
        aom = self._transport.client(config.endpoint("aom"), AomDialect("aom", identity))
        self._aom = AomApi(aom, identity, instance=self._usage.aom_instance)
        self._wanted = job_filter(config.jobs)
        self._some = config.workspaces != "all" or config.jobs != JobsScope()
        """Whether not all jobs of the project are wanted."""
        self._takes_names = True
        """Whether AOM has not refused a query that names its jobs."""
        self._known = _Learned()
        self._plans: Sequence[Plan] = ()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._credential_clients.aclose()
        await self._transport.aclose()

    def limits(self, wanted: Range, now: float) -> Sequence[str]:
        found = [f"jobs that had ended and were created before {iso_time(wanted.start - LOOK_BACK)} are not found"]
        if self._usage.enabled and self._usage.source != AOM and wanted.start < now - MOST_MINUTES * MINUTE:
            found.append("task metrics hold the last three days of a job at most (experimental: they have no dates)")
        return found

    async def learn(self, deadline: float) -> bytes:
        found = _Learned()
        if self._config.workspaces == "all":
            try:
                found.workspaces = sorted((await self._api.list_workspaces(deadline=deadline)).rows)
            except (RequestRefused, NotFound) as error:
                if error.status != 404:
                    raise
                found.workspaces = [DEFAULT_WORKSPACE]  # a region that does not serve workspaces has this one
        else:
            found.workspaces = sorted(self._config.workspaces)
        if self._usage.asks_aom:
            try:
                found.metrics = await self._names(deadline)
            except CloudError as error:
                if not is_refusal(error) or self._usage.source == AOM:
                    raise
                log.warning("AOM tells nothing, usage comes from task metrics: %s", error)
                found.closed = True
        return msgspec.msgpack.encode(found)

    async def _names(self, deadline: float) -> list[str] | None:
        """The metrics that AOM has; None where it has no lists of names, and answers queries all the same."""
        try:
            return sorted(await self._aom.metric_names(deadline=deadline))
        except (RequestRefused, NotFound):
            now = int(time.time())
            metric, _ = READINGS[0].sources[0].names[0]  # any will do: only whether the query is answered counts
            text = Query(metric, 1.0, frozenset({"job"})).text("job", _WINDOW)
            await self._aom.query_range(text, start=now - MINUTE, end=now, step=MINUTE, deadline=deadline)
            return None

    def recall(self, learned: bytes, job_id: str) -> None:
        self._some = self._some or bool(job_id)
        self._known = known = msgspec.msgpack.decode(learned, type=_Learned)
        if self._usage.asks_aom and not known.closed:
            chosen, deny = self._usage.metrics.choices(), self._settings.metrics.deny
            self._plans = plans(known.metrics, chosen, deny)

    # Jobs.

    def searches(self, wanted: Range, now: float, job_id: str) -> Sequence[Sequence[Unit]]:
        """Live jobs first; then those that have ended, by when they were created."""
        calls = {"modelarts": 1}
        living, found = [], []
        for workspace_id in self._known.workspaces:
            if job_id:
                filters: list[Filter] = [("id", "in", [job_id])]
                found.append(Unit(f"{workspace_id} job {job_id}", calls, (workspace_id, filters)))
                continue
            live: list[Filter] = [("phase", "in", translate.LIVE_PHASES)]
            living.append(Unit(f"{workspace_id} live", calls, (workspace_id, live)))
            for start in range(wanted.start - LOOK_BACK, wanted.end, _SEARCHED):
                span = [iso_time(start), iso_time(min(start + _SEARCHED, wanted.end))]
                ended: list[Filter] = [("phase", "in", translate.TERMINAL_PHASES), ("create_time", "between", span)]
                found.append(Unit(f"{workspace_id} {start}", calls, (workspace_id, ended)))
        return [living, found]

    async def search(self, unit: Unit, wanted: Range, sink: Sink, deadline: float) -> None:
        workspace_id, filters = unit.data
        listing = await self._api.search_jobs(workspace_id, filters, deadline=deadline)
        sink.dropped("malformed", listing.malformed)
        shown = frozenset(self._settings.metrics.job_labels)
        asked = filters[0][2] if filters[0][0] == "id" else None
        for job_id, row in listing.rows.items():
            life = past_jobs.life(row, shown_tags=shown)
            if life is not None and self._wanted(life.job) and (asked is None or job_id in asked):
                sink.life(life)

    # Readings.

    def readings(self, day: Range, lives: Lives) -> Iterator[Unit]:
        sizes = [max(life.cards, life.pods, 1) for life in lives(day) if not life.runs(day).empty]
        if not sizes:
            return
        length = max(1, _SAMPLES_AT_ONCE // sum(sizes)) * MINUTE
        named = self._some and len(sizes) <= _MOST_NAMED
        tells = next((plan for plan in self._plans if not plan.reading.of_cards), None)
        for plan in self._plans:
            for start in range(day.start, day.end, length):
                within = Range(start, min(start + length, day.end))
                data = _OfAom(plan, within, lives, plan is (tells or self._plans[0]), named)
                yield Unit(f"{plan.key} {start}", {"aom": len(plan.queries)}, data)

    def left(self, day: Range, lives: Lives, marks: Marks | None) -> Iterator[Unit]:
        """The jobs that AOM does not tell of, or not of their accelerators; before it was asked, those on public
        machines, of which it never does."""
        if not self._usage.enabled or self._usage.source == AOM:
            return
        for life in lives(day):
            if life.runs(day).minutes < 1 or not life.tasks:
                continue
            surely = not self._plans or not life.job.pool_id
            if surely if marks is None else self._lacks(life, marks):
                yield Unit(life.job.job_id, {"modelarts": len(life.tasks)}, life, once=True)

    def outshone(self, day: Range, lives: Lives, marks: Marks) -> Iterator[tuple[str, str]]:
        """Each job has one source on a day: AOM, too, where it lacks something and task metrics have nothing of it."""
        if self._usage.source != "auto":
            return
        for life in lives(day):
            if not self._lacks(life, marks):
                yield life.job.job_id, TASKS
            elif TASKS in marks.get(life.job.job_id, ()):
                yield life.job.job_id, AOM

    def _lacks(self, life: Life, marks: Marks) -> bool:
        """Whether a job is better served by task metrics (as the daemon's handover has it)."""
        found = {mark for mark in marks.get(life.job.job_id, ()) if mark != TASKS}
        with_accelerators = any(plan.key == ACCELERATORS for plan in self._plans)
        return not found or bool(life.cards and with_accelerators and _ACCELERATORS not in found)

    async def read(self, unit: Unit, sink: Sink, deadline: float) -> None:
        if isinstance(unit.data, Life):
            await self._read_tasks(unit.data, sink, deadline)
        else:
            await self._read_aom(unit.data, sink, deadline)

    async def _read_aom(self, asked: _OfAom, sink: Sink, deadline: float) -> None:
        lives = {life.job.job_id: life for life in asked.lives(asked.within) if not life.runs(asked.within).empty}
        steps = Steps(asked.plan, lives, asked.within)
        if asked.named and not lives:
            return
        for query in asked.plan.queries:
            await self._series(query, asked.within, steps, deadline=deadline, job_ids=lives if asked.named else ())
        for track in await steps.tracks(tells_source=asked.tells_source):
            sink.track(track)
        for job_id in sorted(steps.job_ids):
            sink.mark(job_id, AOM)
            if asked.plan.key == ACCELERATORS:
                sink.mark(job_id, _ACCELERATORS)
        for reason, count in steps.dropped.items():
            # Jobs that are not wanted here have samples, too.
            if reason != "unlisted":
                sink.dropped(reason, count)

    async def _series(
        self, query: Query, within: Range, steps: Steps, *, deadline: float, job_ids: Collection[str]
    ) -> None:
        """Ask for a range, in parts where an answer is too large; for some jobs alone, or all."""
        start = seconds_after(within.start, MINUTE)
        if start >= within.end:
            return
        names = job_ids if self._takes_names and not query.promql else ()
        text = query.text("device" if query.accelerator else "pod", _WINDOW, names)
        try:
            found = await self._aom.query_range(text, start=start, end=within.end - 1, step=MINUTE, deadline=deadline)
        except RequestRefused as error:
            if not names or is_refusal(error):
                raise
            # That AOM takes expressions in queries is believed, not proven; without them it tells more, and no less.
            if self._takes_names:
                log.warning("AOM refuses a query that names its jobs, and is asked for all of them: %s", error)
            self._takes_names = False
            await self._series(query, within, steps, deadline=deadline, job_ids=())
            return
        except NotFound as error:
            # That AOM is not served is no answer, and must not be taken for an empty one.
            raise RequestRefused(error.message, operation=error.operation, status=error.status) from None
        except CloudError as error:
            if not is_too_large(error) or within.end - start <= MINUTE:
                raise
            middle = start + max(1, (within.end - start) // (2 * MINUTE)) * MINUTE
            for part in (Range(start, middle), Range(middle, within.end)):
                await self._series(query, part, steps, deadline=deadline, job_ids=job_ids)
            return
        steps.add(query, found)

    async def _read_tasks(self, life: Life, sink: Sink, deadline: float) -> None:
        job_id, arrays = life.job.job_id, Arrays(life, time.time())
        missing = 0
        for task in life.tasks:
            try:
                answer = await self._api.task_metrics(job_id, task, deadline=deadline)
            except NotFound:
                missing += 1
                continue
            for track in arrays.add(task, answer):
                sink.track(track)
            del answer  # before the next call
        if missing == len(life.tasks):
            sink.gone(job_id)
        for track in arrays.whole():
            sink.track(track)
            sink.mark(job_id, TASKS, track.times)
        for reason, count in arrays.dropped.items():
            sink.dropped(reason, count)
