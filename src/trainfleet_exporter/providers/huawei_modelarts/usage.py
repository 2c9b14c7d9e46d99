"""Usage by AOM: one query a metric for all jobs of the project, and the metrics' names once an hour.

A poll makes no calls if no running job has series, or for families that are not exposed. All answers are read before
any is shown, so that task metrics first give up the jobs that AOM serves now (fleet.sources). If AOM rejects the calls,
the poll fails until task metrics serve the jobs. Backfill reads ranges of the same queries (past).

AOM speaks Prometheus' API. An error may be in the body of a response with any HTTP status. A sample is of one card, or
of a pod if there are no cards, or of a whole job if pods cannot be distinguished. The labels of pods and cards in
samples are unproven (metrics); the names of a job's tasks are proven. Samples of now have the time of the query, so
nothing here is dated.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html
https://support.huaweicloud.com/intl/en-us/api-aom/ListRangeQueryAomPromPost.html
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType

from trainfleet_exporter.config import Global
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, NotReady, RequestRefused
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import Column, Key, Subjects, count, publish_fresh
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job, UsageSource
from trainfleet_exporter.polling import FairQueue, Poll
from trainfleet_exporter.providers.history import MINUTE, Range, seconds_after
from trainfleet_exporter.providers.huawei_modelarts.client import NAMES, QUERY, RANGE, Api
from trainfleet_exporter.providers.huawei_modelarts.config import Usage as UsageConfig
from trainfleet_exporter.providers.huawei_modelarts.metrics import (
    ACCELERATORS,
    CARD_LABELS,
    POD_LABELS,
    Plan,
    Query,
    plans,
)
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import JobParts, Values, number_of
from trainfleet_exporter.transport import HISTORY, BodyLimits
from trainfleet_exporter.transport.payload import decode_value

log = logging.getLogger(__name__)

# The answers, with the fields that are read.


class MetricNames(Struct, gc=False):
    """`data` is UNSET where the answer has no list."""

    data: list[str | None] | UnsetType | None = UNSET


class QueryData(Struct, gc=False, rename="camel"):
    """The result of a query: of an instant (`vector`) its samples, of a range (`matrix`) its series.

    There may be 80,000, so they are decoded one by one. `result` is UNSET where the answer has no list.
    """

    result_type: str | None = None
    result: list[Raw] | UnsetType | None = UNSET


class QueryAnswer(Struct, gc=False):
    data: QueryData | None = None


class Labels(Struct, gc=False):
    """The labels of the job, the pod and the card of a series (metrics). Empty: the series has no such label."""

    service_id: str = ""
    pod_name: str = ""
    task_id: str = ""
    task_name: str = ""
    pod_id: str = ""
    pod: str = ""
    npu_id: str = ""
    gpu_id: str = ""
    npu_index: str = ""
    gpu_index: str = ""
    gpu_uuid: str = ""
    device_id: str = ""
    card_id: str = ""


class Value(Struct, gc=False, array_like=True, forbid_unknown_fields=True):
    """A value and its time, as `[1767595140.123, "97.5"]`: Unix seconds, and the unit of the metric."""

    time: float | None = None
    value: str | float | None = None
    """A text that is kept as it is, NaN among others; some encoders write a number."""


class Series(Struct, gc=False):
    """One series of a result: its value of now, or its values of a range."""

    metric: Labels | None = None
    value: Value | None = None
    values: list[Value | None] | None = None


# From answers to readings.

_pod_texts = attrgetter(*POD_LABELS)
_card_texts = attrgetter(*CARD_LABELS)


def _key_of(labels: Labels, job: JobParts, query: Query, *, of_cards: bool) -> Key:
    """Return the subject of a sample: a card, which may have no name (an empty text), or, without `of_cards`, a pod.

    A pod also has no name if the pods of a job cannot be distinguished.
    """
    pod_id = _pod_of(labels, job.names)
    otherwise = job.kind or ("npu" if "npu" in query.promql.lower() else "gpu")
    for card, kind_of_label in zip(_card_texts(labels), CARD_LABELS.values(), strict=True):
        if card:
            return job.job_id, pod_id, card, query.accelerator or kind_of_label or otherwise
    return (job.job_id, pod_id, "", query.accelerator or otherwise) if of_cards else (job.job_id, pod_id)


def _pod_of(labels: Labels, tasks: Collection[str]) -> str:
    """The name of a task, where a label is one or ends with one; else the first label's text."""
    given = [label for label in _pod_texts(labels) if label]
    for label in given:
        words = label.split("-")
        for start in range(len(words)):
            if (task := "-".join(words[start:])) in tasks:
                return task
    return next(iter(given or tasks)) if given or len(tasks) == 1 else ""


def take(
    rows: Iterable[Series | None],
    query: Query,
    into: Values,
    is_known: Callable[[str], bool],
    runs: Mapping[str, Range] | None = None,
) -> None:
    """Take over the series of an answer. None is a row that is not an object.

    `is_known` returns whether another job exists all the same. `runs` says when each job ran, in a range; without it,
    all values are of now.
    """
    dropped = into.dropped
    for row in rows:
        labels = row.metric if row is not None else None
        if row is None or labels is None or not labels.service_id:
            dropped["malformed"] += 1
        elif (job := into.jobs.get(labels.service_id)) is None:
            dropped["unlisted"] += not is_known(labels.service_id)
        else:
            key = _key_of(labels, job, query, of_cards=into.of_cards)
            for each in [row.value] if row.values is None else row.values:
                number = None if each is None else number_of(each.value)
                at = 0.0 if runs is None or each is None else each.time
                if number is None or at is None or not math.isfinite(at):
                    dropped["malformed"] += 1
                elif runs is not None and not runs[key[0]].start <= int(at) < runs[key[0]].end:
                    continue
                elif math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
                    dropped["no_data"] += 1
                else:
                    into.put(key, number, query.factor, int(at))


# The calls.

_VECTOR = BodyLimits(wire=32 * 2**20, decoded=32 * 2**20, values=3_000_000, tolerated=250_000)
"""80,000 cards are 20 MB and 1.2 million values. Where NaN makes decoding one by one impossible, 250,000 values take
half a second."""
_MOST_ROWS = 250_000
"""Samples of an answer: undecoded, each takes 64 bytes besides the body."""


async def metric_names(api: Api, *, deadline: float) -> Collection[str | None] | None:
    """GET .../label/__name__/values: the names of all metrics that have series, None for those that are unreadable.
    None: names are not served here, and queries may be."""
    options: Mapping[str, Any] = {"no_data": lambda answer: answer.data in ([], None)}
    try:
        answer = await api.aom(NAMES, "label/__name__/values", MetricNames, {}, deadline=deadline, **options)
    except (RequestRefused, NotFound):
        return None
    if isinstance(answer.data, UnsetType):
        raise BadAnswer("the answer has no list of values", operation=NAMES)
    return frozenset(answer.data or ())


async def read(
    api: Api,
    plan: Plan,
    jobs: Mapping[str, JobParts],
    window: float,
    *,
    deadline: float,
    is_known: Callable[[str], bool],
    within: Range | None = None,
    runs: Mapping[str, Range] | None = None,
    job_ids: Collection[str] = (),
) -> Values:
    """Return the values of now, by the service's own clock, or of each minute of a range. Raises CloudError.

    `window` is how old a sample may be at its time, in seconds. `is_known` and `runs` as in `take`. `job_ids` are those
    to ask for; none: all.
    """
    found = Values(plan.measure, plan.levels, jobs, Counter(), of_cards=plan.of_cards, is_chosen=plan.is_chosen)
    for query in plan.queries:
        rows = await query_rows(api, query.text(window, job_ids), within, deadline=deadline)
        take(rows, query, found, is_known, runs)
    return found


async def query_rows(api: Api, promql: str, within: Range | None, *, deadline: float) -> Iterator[Series | None]:
    """POST .../query or .../query_range: the series of a query, decoded one by one on demand. None is one that is not
    an object."""
    parameters, kind, limits = {"query": promql}, "vector", _VECTOR
    operation, path = QUERY, "query"
    if within is not None:
        operation, path, kind, limits = RANGE, "query_range", "matrix", HISTORY
        start = seconds_after(within.start, MINUTE)
        parameters |= {"start": str(start), "end": str(within.end - 1), "step": str(MINUTE)}  # both are included
    options: Mapping[str, Any] = {"method": "POST", "limits": limits, "no_data": _is_empty}
    data = (await api.aom(operation, path, QueryAnswer, parameters, deadline=deadline, **options)).data
    if data is None or data.result_type != kind or isinstance(data.result, UnsetType):
        raise BadAnswer(f"the answer is not a {kind}", operation=operation)
    if len(data.result or ()) > _MOST_ROWS:
        raise BadAnswer(f"the answer is over the limit of {_MOST_ROWS:,} samples", operation=operation)
    return (decode_value(row, Series) for row in data.result or ())


def _is_empty(answer: QueryAnswer) -> bool:
    return answer.data is not None and answer.data.result in ([], None)


def is_refusal(error: CloudError) -> bool:
    """Return whether AOM rejects this identity, or is not served here, for every query."""
    return isinstance(error, AccessDenied | NotFound) or (isinstance(error, RequestRefused) and error.status == 404)


# The collector.

SOURCE = "aom"
_SOURCES = "sources"
"""The part with the source of each job's usage; other parts are plans."""
_LONGEST = 600.0
"""Seconds back in which a query looks for a sample. Samples are a minute apart, and some are minutes late."""
_READING = 0.9
"""The share of a poll's time in which answers are read; the rest is for showing them."""
_HOUR = 3600.0


class Usage:
    """The collector of the running jobs of the project. `tasks_of` returns the names of a job's tasks."""

    def __init__(
        self,
        api: Api,
        config: UsageConfig,
        settings: Global,
        fleet: Workspaces,
        *,
        sources: JobSources,
        tasks_of: Callable[[str], Collection[str]],
    ) -> None:
        self._api, self._fleet, self._sources, self._tasks_of = api, fleet, sources, tasks_of
        self._chosen = config.metrics.choices(), settings.metrics.deny, config.profiling
        self._everything = plans(None, *self._chosen)
        """The queries if AOM has a metric for every exposed family."""
        self._is_alone = config.source == SOURCE
        self._plans: list[Plan] = []
        self._renew_at = 0.0
        """The loop time at which the metrics' names are asked for again."""
        self._turns, self._subjects = FairQueue(), Subjects()
        self._shown: dict[str, frozenset[str]] = {}
        """By part, the jobs of its last good answer."""
        self._is_replaced = False
        """Whether the log says that task metrics have taken over."""

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        """A part for each plan, and one for the source of each job's usage."""
        try:
            await self._fleet.listed.wait(poll.deadline)
            running = {job.job_id: job for job in self._fleet.live_jobs() if self._sources.may_be_in_bulk(job)}
            if running and self._everything:
                await self._serve(poll, running)
                return
            poll.keep_only(())
            self._hold({})
            # As if all were found: their task metrics are not worth a call either.
            self._sources.end_poll(running, running, is_refused=self._sources.is_refused)
        finally:
            self._hold(self._shown)  # also if the poll was cancelled: what it was about to show is free again
            self._sources.polled.publish(None)

    def usage_expired(self, key: str) -> None:
        """A part's last good answer was kept long enough."""
        self._hold({part: job_ids for part, job_ids in self._shown.items() if part != key})

    def _hold(self, shown: dict[str, frozenset[str]]) -> None:
        self._shown = shown
        self._sources.hold(_union(shown.values()))

    async def _serve(self, poll: Poll, running: Mapping[str, Job]) -> None:
        """Read and show what AOM has. An API that is not served here leaves usage to task metrics; one that denies it,
        to those that have some."""
        now = asyncio.get_running_loop().time()
        until, was_refused = now + _READING * (poll.deadline - now), self._sources.is_refused
        try:
            await self._learn(poll, until)
            answers = await self._read(poll, running, until)
        except (CloudError, NotReady) as error:
            is_refused = isinstance(error, NotReady) or is_refusal(error)
            self._sources.end_poll(running, (), is_refused=is_refused)
            if self._is_alone or not is_refused:
                raise
            if isinstance(error, CloudError):
                until, with_usage = 0.0 if was_refused else until, isinstance(error, AccessDenied)
                if not await self._sources.wait_until_replaced(running, with_usage=with_usage, until=until):
                    raise
                poll.lacks("AOM", error)
            if not self._is_replaced:
                poll.warn("AOM is not available; usage comes from task metrics", error=error)
            self._is_replaced = True
            return
        if self._is_replaced:
            log.info("usage comes from AOM again")
        self._is_replaced = False
        found = _union(answer.job_ids for answer in answers.values() if isinstance(answer, Values))
        lacking = self._lacking(answers, {job_id: running[job_id] for job_id in found})
        withheld = {job_id for job_id in lacking if self._sources.is_missed(running[job_id])}
        await self._show(poll, answers, withheld)
        self._sources.end_poll(running, found - lacking, is_refused=False)

    async def _learn(self, poll: Poll, deadline: float) -> None:
        """Read the metrics' names if that is due. Raises CloudError, and NotReady if none is of training jobs.

        A metric that AOM does not have may come with the first job that uses an accelerator of its kind.
        """
        now = asyncio.get_running_loop().time()
        if not self._plans or now >= self._renew_at:
            try:
                names = await metric_names(self._api, deadline=deadline)
                self._plans, self._renew_at = plans(names, *self._chosen), now + _HOUR
            except CloudError as error:
                if not self._plans or is_refusal(error):
                    raise
                poll.lacks("names of metrics", error)
        if not self._plans:
            raise NotReady("AOM has no metric of training jobs")

    async def _read(self, poll: Poll, running: Mapping[str, Job], deadline: float) -> dict[str, Values | CloudError]:
        """The answers by plan, in their order, or why there is none. Raises what closes AOM as such."""
        jobs = {job_id: JobParts(job, self._tasks_of(job_id)) for job_id, job in running.items()}
        window = min(_LONGEST, max(self._fleet.max_data_age, 2 * poll.interval))
        slots, answers = asyncio.Semaphore(self._fleet.at_once), dict[str, Values | CloudError]()
        by_key = {plan.key: plan for plan in self._plans}

        async def ask(key: str) -> None:
            async with slots:
                try:
                    answers[key] = await read(
                        self._api, by_key[key], jobs, window, deadline=deadline, is_known=self._fleet.is_known
                    )
                except CloudError as error:
                    answers[key] = error.with_traceback(None)  # which holds the answer

        first, *others = self._turns.order(by_key)
        await ask(first)  # it shows whether AOM answers at all
        answer = answers[first]
        if isinstance(answer, CloudError) and is_refusal(answer):
            raise answer
        async with asyncio.TaskGroup() as group:
            for key in others:
                group.create_task(ask(key))
        self._turns.was_read(key for key, answer in answers.items() if isinstance(answer, Values))
        return {key: answers[key] for key in by_key}

    def _lacking(self, answers: Mapping[str, Values | CloudError], found: Mapping[str, Job]) -> frozenset[str]:
        """The jobs of the answers whose accelerators AOM does not know. Task metrics serve them, though not before AOM
        was waited for."""
        if self._is_alone or all(plan.measure.suffix != ACCELERATORS for plan in self._everything):
            return frozenset()
        known = set[str]()
        for plan in self._plans:
            if plan.measure.suffix == ACCELERATORS:
                answer = answers[plan.key]
                # If that is unknown this time, the earlier answer counts.
                known |= self._sources.held if isinstance(answer, CloudError) else answer.job_ids
        with_cards = (key for key, job in found.items() if any(each.count for each in job.accelerators))
        return frozenset(with_cards) - known

    async def _show(self, poll: Poll, answers: Mapping[str, Values | CloudError], withheld: Collection[str]) -> None:
        """Claim the jobs of the answers, then show them. A part that failed keeps its last good answer."""
        poll.keep_only([*answers, _SOURCES])
        new = {
            key: answer.job_ids.difference(withheld) for key, answer in answers.items() if isinstance(answer, Values)
        }
        before = [job_ids for key, job_ids in self._shown.items() if key in (*answers, _SOURCES)]
        self._sources.hold(_union([*before, *new.values()]))
        used: list[Column] = []
        age, clock = self._fleet.max_data_age, self._fleet.clock

        def begun() -> Mapping[str, float]:
            return dict.fromkeys(self._fleet.live, 0.0)

        for key, answer in answers.items():
            async with poll.part(key) as part:
                if isinstance(answer, CloudError):
                    raise answer
                count(part, answer.dropped)
                used += (columns := answer.columns(self._subjects, new[key]))
                await publish_fresh(part, columns, begun=begun, max_data_age=age, clock=clock)
        self._subjects.keep_only(used)
        shown = {key: new.get(key, self._shown.get(key, frozenset())) for key in answers}  # some may have expired
        shown[_SOURCES] = _union(shown.values())
        async with poll.part(_SOURCES) as part:
            live = sorted(shown[_SOURCES] & self._fleet.live.keys())
            await part.publish([UsageSource(job_id, SOURCE, None) for job_id in live])
        self._hold(shown)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
