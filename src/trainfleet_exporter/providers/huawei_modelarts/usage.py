"""Usage by AOM: one query a metric for all jobs of the project, and the metrics' names once an hour.

A poll makes no calls if no running job has series, or for families that are not exposed. Each reading is a part. All
are read before any is shown, so that task metrics first give up the jobs that AOM serves now (fleet.sources). If AOM
rejects the calls, the poll fails until task metrics serve the jobs. Backfill reads ranges of the same queries (past).

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from trainfleet_exporter.config import Global
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, NotReady, RequestRefused
from trainfleet_exporter.families.usage import Level
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import Column, Key, Subjects, count, publish_fresh
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Job, UsageSource
from trainfleet_exporter.polling import FairQueue, Poll
from trainfleet_exporter.providers.history import Range
from trainfleet_exporter.providers.huawei_modelarts.client import NAMES, QUERY, RANGE, Api
from trainfleet_exporter.providers.huawei_modelarts.config import Usage as UsageConfig
from trainfleet_exporter.providers.huawei_modelarts.metrics import (
    ACCELERATORS,
    CARD_LABELS,
    POD_LABELS,
    Query,
    Reading,
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


class RunningJob(JobParts):
    """What a job consists of, and which of its pods and cards samples are of."""

    def __init__(self, job: Job, tasks: Collection[str]) -> None:
        super().__init__(job, tasks)
        kinds = {item.kind for item in job.accelerators}
        self._tasks, self._kind = frozenset(tasks), kinds.pop() if len(kinds) == 1 else None
        self._pods: dict[tuple[str, ...], str] = {}
        """The pods by the texts of their labels."""

    def key(self, labels: Labels, query: Query, *, of_cards: bool) -> Key:
        """Return the subject of a sample: a card, which may have no name (an empty text), or, without `of_cards`, a
        pod.

        A pod also has no name if the pods of a job cannot be distinguished.
        """
        texts = _pod_texts(labels)
        pod_id = self._pods.get(texts)
        if pod_id is None:
            pod_id = self._pods[texts] = self._pod_id(texts)
        otherwise = self._kind or ("npu" if "npu" in query.promql.lower() else "gpu")
        for card, kind_of_label in zip(_card_texts(labels), CARD_LABELS.values(), strict=True):
            if card:
                return self.job_id, pod_id, card, query.accelerator or kind_of_label or otherwise
        return (self.job_id, pod_id, "", query.accelerator or otherwise) if of_cards else (self.job_id, pod_id)

    def _pod_id(self, texts: tuple[str, ...]) -> str:
        """The name of a task, where a label is one or ends with one; else the first label's text."""
        given = [label for label in texts if label]
        for label in given:
            words = label.split("-")
            for start in range(len(words)):
                task = "-".join(words[start:])
                if task in self._tasks:
                    return task
        if not given and len(self._tasks) == 1:
            return next(iter(self._tasks))
        return given[0] if given else ""


class Readings:
    """What the queries of one plan answer about `jobs`, at each time.

    `runs` says when each job ran, in a range; without it, all values are of now, and so are the jobs. `listed` are all
    jobs that the provider shows or showed. `dropped` counts samples that are not shown, by reason.
    """

    def __init__(
        self,
        plan: Reading,
        jobs: Mapping[str, RunningJob],
        listed: Collection[str],
        runs: Mapping[str, Range] | None = None,
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self.values: dict[Collection[Level], Values] = {}
        """By levels: those of each query of the config, and those of all queries of the table."""
        self._plan, self._jobs, self._listed, self._runs = plan, jobs, listed, runs

    def add(self, query: Query, rows: Iterable[Series | None]) -> None:
        """Add the series of a query's response. None is a row that is not an object."""
        if query.levels not in self.values:
            given = self._plan.measure, query.levels, self._jobs, self.dropped
            self.values[query.levels] = Values(*given, is_chosen=query.promql != "")
        values = self.values[query.levels]
        for row in rows:
            labels = row.metric if row is not None else None
            if row is None or labels is None or not labels.service_id:
                self.dropped["malformed"] += 1
            elif (job := self._jobs.get(labels.service_id)) is None:
                # A listed job does not run any more: its last sample is from its end.
                self.dropped["unlisted"] += labels.service_id not in self._listed
            else:
                key = job.key(labels, query, of_cards=self._plan.of_cards)
                for at, number in self._numbers(job.job_id, [row.value] if row.values is None else row.values):
                    values.put(key, number, query.factor, at)

    def columns(self, subjects: Subjects, job_ids: Collection[str]) -> list[Column]:
        """Return the values of now of these jobs."""
        return [column for values in self.values.values() for column in values.columns(subjects, job_ids)]

    @property
    def job_ids(self) -> frozenset[str]:
        """The jobs that have a value."""
        return _union(values.job_ids for values in self.values.values())

    def _numbers(self, job_id: str, given: Iterable[Value | None]) -> Iterator[tuple[int, float]]:
        """Yield the usable values with their times, and count the others."""
        for each in given:
            number, at = None if each is None else number_of(each.value), 0
            if self._runs is not None:
                time = math.nan if each is None or each.time is None else each.time
                number, at = (number, int(time)) if math.isfinite(time) else (None, 0)
                if number is not None and not self._runs[job_id].start <= at < self._runs[job_id].end:
                    continue
            if number is None:
                self.dropped["malformed"] += 1
            elif math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
                self.dropped["no_data"] += 1
            else:
                yield at, number


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


async def query_now(api: Api, promql: str, *, deadline: float) -> Iterator[Series | None]:
    """POST .../query: the current samples of an instant vector, by the service's own clock.

    They are decoded one by one on demand. None is a sample that is not an object.
    """
    rows = await _rows(api, QUERY, "query", {"query": promql}, kind="vector", deadline=deadline, limits=_VECTOR)
    if len(rows) > _MOST_ROWS:
        raise BadAnswer(f"the answer is over the limit of {_MOST_ROWS:,} samples", operation=QUERY)
    return (decode_value(row, Series) for row in rows)


async def query_range(
    api: Api, promql: str, *, start: int, end: int, step: int, deadline: float
) -> Iterator[Series | None]:
    """POST .../query_range: the series of a query at every `step` seconds from `start` to `end` (Unix seconds, both
    included), as query_now."""
    query = {"query": promql, "start": str(start), "end": str(end), "step": str(step)}
    rows = await _rows(api, RANGE, "query_range", query, kind="matrix", deadline=deadline, limits=HISTORY)
    return (decode_value(row, Series) for row in rows)


async def _rows(
    api: Api, operation: str, path: str, query: Mapping[str, str], *, kind: str, deadline: float, limits: BodyLimits
) -> Sequence[Raw]:
    """The undecoded rows of a result of this kind. BadAnswer for anything else."""
    options: Mapping[str, Any] = {"method": "POST", "limits": limits, "no_data": _is_empty}
    data = (await api.aom(operation, path, QueryAnswer, query, deadline=deadline, **options)).data
    if data is None or data.result_type != kind or isinstance(data.result, UnsetType):
        raise BadAnswer(f"the answer is not a {kind}", operation=operation)
    return data.result or ()


def _is_empty(answer: QueryAnswer) -> bool:
    return answer.data is not None and answer.data.result in ([], None)


def is_refusal(error: CloudError) -> bool:
    """Return whether AOM rejects this identity, or is not served here, for every query."""
    return isinstance(error, AccessDenied | NotFound) or (isinstance(error, RequestRefused) and error.status == 404)


# The collector.

SOURCE = "aom"
_SOURCES = "sources"
"""The part with the source of each job's usage; other parts are readings."""
_LONGEST = 600.0
"""Seconds back in which a query looks for a sample. Samples are a minute apart, and some are minutes late."""
_READING = 0.9
"""The share of a poll's time in which answers are read; the rest is for showing them."""
_HOUR = 3600.0
Answers: TypeAlias = dict[str, Readings | CloudError]


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
        self._plans: Sequence[Reading] = ()
        self._renew_at = 0.0
        """The loop time at which the metrics' names are asked for again."""
        self._turns, self._subjects = FairQueue(), Subjects()
        self._shown: dict[str, frozenset[str]] = {}
        """By part, the jobs of its last good answer."""
        self._seen: dict[str, float] = {}
        """The jobs that lived lately, with the loop time when: AOM reports them for a while after their end."""
        self._is_replaced = False
        """Whether the log says that task metrics have taken over."""

    @collector("usage")
    async def usage(self, poll: Poll) -> None:
        """A part for each reading, and one for the source of each job's usage."""
        try:
            await self._fleet.listed.wait(poll.deadline)
            jobs = filter(self._sources.may_be_in_bulk, self._fleet.live_jobs())
            await self._serve(poll, {job.job_id: job for job in jobs})
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
        was_refused = self._sources.is_refused
        if not running or not self._everything:
            poll.keep_only(())
            self._hold({})
            # As if all were found: their task metrics are not worth a call either.
            self._sources.end_poll(running, running, is_refused=was_refused)
            return
        now = asyncio.get_running_loop().time()
        deadline = now + _READING * (poll.deadline - now)
        try:
            found = await self._poll(poll, running, deadline)
        except (CloudError, NotReady) as error:
            is_refused = isinstance(error, NotReady) or is_refusal(error)
            self._sources.end_poll(running, (), is_refused=is_refused)
            if self._is_alone or not is_refused:
                raise
            await self._leave_to_tasks(poll, running, error, until=0.0 if was_refused else deadline)
        else:
            self._sources.end_poll(running, found, is_refused=False)

    async def _leave_to_tasks(
        self, poll: Poll, running: Mapping[str, Job], error: CloudError | NotReady, *, until: float
    ) -> None:
        """An API that is not served here leaves usage to task metrics; one that denies it, to those that have some."""
        if isinstance(error, CloudError):
            with_usage = isinstance(error, AccessDenied)
            if not await self._sources.wait_until_replaced(running, with_usage=with_usage, until=until):
                raise error
            poll.lacks("AOM", error)
        if not self._is_replaced:
            poll.warn("AOM is not available; usage comes from task metrics", error=error)
        self._is_replaced = True

    async def _poll(self, poll: Poll, running: Mapping[str, Job], deadline: float) -> Collection[str]:
        """Read AOM and show its answer. Returns the jobs that it has. Raises what closes AOM as such.

        Task metrics serve the jobs whose accelerators AOM does not know, though not before AOM was waited for.
        """
        wanted = await self._read_plans(poll, deadline)
        jobs = {job_id: RunningJob(job, self._tasks_of(job_id)) for job_id, job in running.items()}
        answers = await self._read(poll, wanted, jobs, deadline)
        if self._is_replaced:
            log.info("usage comes from AOM again")
        self._is_replaced = False
        found = known = _union(answer.job_ids for answer in answers.values() if isinstance(answer, Readings))
        if not self._is_alone and any(plan.key == ACCELERATORS for plan in self._everything):
            answer = answers.get(ACCELERATORS)
            if isinstance(answer, CloudError):
                known = found & self._sources.held  # unknown this time: keep the earlier answer
            else:
                known = frozenset() if answer is None else answer.job_ids
        lacking = {job_id for job_id in found - known if jobs[job_id].cards}
        withheld = frozenset(job_id for job_id in lacking if self._sources.is_missed(running[job_id]))
        await self._show(poll, answers, withheld)
        return found - lacking

    async def _read_plans(self, poll: Poll, deadline: float) -> Sequence[Reading]:
        """The queries. Raises CloudError, and NotReady if AOM has no metric of training jobs.

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
        return self._plans

    async def _read(
        self, poll: Poll, wanted: Sequence[Reading], jobs: Mapping[str, RunningJob], deadline: float
    ) -> Answers:
        """The answers to all that is wanted, in its order, or why there is none. Raises what closes AOM as such."""
        now = asyncio.get_running_loop().time()
        self._seen |= dict.fromkeys(self._fleet.live, now)
        self._seen = {job_id: when for job_id, when in self._seen.items() if now - when <= 2 * _LONGEST}
        window = min(_LONGEST, max(self._fleet.max_data_age, 2 * poll.interval))
        slots, answers = asyncio.Semaphore(self._fleet.at_once), Answers()

        async def read(plan: Reading) -> None:
            readings = Readings(plan, jobs, self._seen)
            async with slots:
                try:
                    for query in plan.queries:
                        readings.add(query, await query_now(self._api, query.text(window), deadline=deadline))
                    answers[plan.key] = readings
                except CloudError as error:
                    answers[plan.key] = error.with_traceback(None)  # which holds the answer

        by_key = {plan.key: plan for plan in wanted}
        first, *others = self._turns.order(by_key)
        await read(by_key[first])  # it shows whether AOM answers at all
        answer = answers[first]
        if isinstance(answer, CloudError) and is_refusal(answer):
            raise answer
        async with asyncio.TaskGroup() as group:
            for key in others:
                group.create_task(read(by_key[key]))
        self._turns.was_read(key for key, answer in answers.items() if isinstance(answer, Readings))
        return {key: answers[key] for key in by_key}

    async def _show(self, poll: Poll, answers: Answers, withheld: frozenset[str]) -> None:
        """Claim the jobs of the answers, then show them. A part that failed keeps its last good answer."""
        poll.keep_only([*answers, _SOURCES])
        new = {key: answer.job_ids - withheld for key, answer in answers.items() if isinstance(answer, Readings)}
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
