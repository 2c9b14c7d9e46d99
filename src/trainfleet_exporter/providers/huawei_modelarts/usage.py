"""Usage by AOM: one query a metric for all jobs of the project, and the metrics' names once an hour.

A poll makes no calls if no running job has series, or for families that are not exposed. Each metric is a part. It
claims its jobs before it is shown, so that task metrics first give them up (fleet.sources). If AOM rejects the calls,
the poll fails until task metrics serve the jobs. Backfill reads ranges of the same queries (past).

AOM speaks Prometheus' API. An error may be in the body of a response with any HTTP status. The labels of pods and cards
in samples are unproven (metrics): without them, ratios are of a whole pod or job, and sums are absent. Samples of now
have the time of the query, so they do not say how old they are: means include a removed pod until _LONGEST has passed.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html
https://support.huaweicloud.com/intl/en-us/api-aom/ListRangeQueryAomPromPost.html
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType

from trainfleet_exporter.config import Global
from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, NotReady, RequestRefused
from trainfleet_exporter.families.usage import LEVELS
from trainfleet_exporter.fleet.collectors import collector
from trainfleet_exporter.fleet.sources import JobSources
from trainfleet_exporter.fleet.usage import KEY_LENGTHS, Column, Key, Subjects, count, publish_fresh
from trainfleet_exporter.fleet.workspaces import Workspaces
from trainfleet_exporter.model import Accelerator, Job, UsageSource
from trainfleet_exporter.polling import FairQueue, Part, Poll
from trainfleet_exporter.providers.huawei_modelarts.api import NAMES, QUERY, RANGE, Api
from trainfleet_exporter.providers.huawei_modelarts.config import Usage as UsageConfig
from trainfleet_exporter.providers.huawei_modelarts.metrics import ACCELERATORS, Plan, plans
from trainfleet_exporter.providers.huawei_modelarts.task_metrics import Found, JobParts
from trainfleet_exporter.providers.past import MINUTE, Range, seconds_after
from trainfleet_exporter.transport import HISTORY, BodyLimits
from trainfleet_exporter.transport.json_fields import as_number
from trainfleet_exporter.transport.payload import decode_value

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
    npu_id: str = ""
    gpu_index: str = ""


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


OfKind: TypeAlias = tuple[Accelerator, tuple[Key, float, float]]
"""A kind of accelerator, and the key, the Unix time and the value of a reading."""


def readings(
    rows: Iterable[Series | None], kind: Accelerator | None, jobs: Mapping[str, JobParts], lost: Counter[str]
) -> Iterator[OfKind]:
    """Yield the readings of an answer with the kind of accelerator that they are of, of no importance for others.

    None is a row that is not an object. `kind` is what the query is of, if that is known. `lost` counts by reason.
    """
    of_nothing = JobParts(Job(job_id=""), ())
    for row in rows:
        labels = row.metric if row is not None else None
        if row is None or labels is None or not labels.service_id:
            lost["malformed"] += 1
            continue
        job, card = jobs.get(labels.service_id, of_nothing), labels.npu_id or labels.gpu_index
        own: Accelerator = kind or ("npu" if labels.npu_id else job.kind)
        full = labels.service_id, job.task(labels.pod_name), card, own
        key = full if card and labels.pod_name else full[: 2 if labels.pod_name else 1]
        for each in [row.value] if row.values is None else row.values:
            number = None if each is None else as_number(each.value)
            if each is None or number is None or each.time is None:
                lost["malformed"] += 1
            elif math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
                lost["no_data"] += 1
            else:
                yield own, (key, each.time, number)


def by_family(plan: Plan, answers: Collection[OfKind]) -> Iterator[Found]:
    """Yield what feeds families: readings of one kind those with the kind as a label, all readings the others.

    Labels may differ between jobs: each has the level of its finest readings, and coarser ones are malformed. Of
    several readings of one key and time, the mean counts: their labels do not say of which pods they are.
    """
    finest = {key[0]: len(key) for key in sorted([key for _, (key, _, _) in answers], key=len)}
    groups: defaultdict[tuple[int, Accelerator], defaultdict[tuple[Key, float], list[float]]]
    groups = defaultdict(lambda: defaultdict(list))
    for kind, (key, time, value) in answers:
        groups[finest[key[0]], kind][key, time].append(value)
    means = {each: [(*at, sum(some) / len(some)) for at, some in found.items()] for each, found in groups.items()}
    for level in LEVELS:
        length = KEY_LENGTHS[level]
        by_kind = {kind: found for (parts, kind), found in means.items() if parts == length}
        fed = [each for each in plan.targets if KEY_LENGTHS[each.level] <= length]
        fed = [each for each in fed if each.is_ratio or KEY_LENGTHS[plan.level] <= length]
        labeled = {each: plan.targets[each] for each in fed if each.is_by_accelerator or each.level == "device"}
        others = {each: plan.targets[each] for each in fed if each not in labeled}
        if by_kind and others:
            yield Found(level, "gpu", others, [*chain.from_iterable(by_kind.values())])
        for kind, found in by_kind.items() if labeled else ():
            yield Found(level, kind, labeled, found, is_first=not others)


# The calls.

_VECTOR = BodyLimits(wire=32 * 2**20, decoded=32 * 2**20, values=3_000_000, tolerated=250_000)
"""80,000 cards are 20 MB and 1.2 million values. Where NaN makes decoding one by one impossible, 250,000 values take
half a second."""


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
    lost: Counter[str],
    *,
    deadline: float,
    within: Range | None = None,
    job_ids: Collection[str] = (),
) -> list[Found]:
    """Return the readings of now, by the service's own clock, or of each minute of a range. Raises CloudError.

    `window` is how old a sample may be at its time, in seconds. `job_ids` are those to ask for; none: all.
    """
    answers: list[OfKind] = []
    for query in plan.queries:
        rows = await query_rows(api, query.text(window, job_ids), within, deadline=deadline)
        found = readings(rows, query.accelerator, jobs, lost)
        answers += [each for each in found if within is None or each[1][0][0] in jobs]  # in a range, others are many
    return list(by_family(plan, answers))


async def query_rows(api: Api, promql: str, within: Range | None, *, deadline: float) -> Iterator[Series | None]:
    """POST .../query or .../query_range: the series of a query, decoded one by one on demand. None is one that is not
    an object."""
    parameters, kind, limits = {"query": promql}, "vector", _VECTOR
    operation, path = QUERY, "query"
    if within is not None:
        operation, path, kind, limits = RANGE, "query_range", "matrix", HISTORY
        start = seconds_after(within.start, MINUTE)
        parameters |= {"start": str(start), "end": str(within.end - 1), "step": str(MINUTE)}  # both are included
    options: dict[str, Any] = {"method": "POST", "limits": limits}
    options["no_data"] = lambda answer: answer.data is not None and answer.data.result in ([], None)
    data = (await api.aom(operation, path, QueryAnswer, parameters, deadline=deadline, **options)).data
    if data is None or data.result_type != kind or isinstance(data.result, UnsetType):
        raise BadAnswer(f"the answer is not a {kind}", operation=operation)
    return (decode_value(row, Series) for row in data.result or ())


def is_refusal(error: CloudError) -> bool:
    """Return whether AOM rejects this identity, or is not served here, for every query."""
    return isinstance(error, AccessDenied | NotFound) or (isinstance(error, RequestRefused) and error.status == 404)


# The collector.

SOURCE = "aom"
_SOURCES = "sources"
"""The part with the source of each job's usage; other parts are plans."""
_LONGEST = 600.0
"""Seconds back in which a query looks for a sample: those of inference are up to ten minutes late, others unproven."""
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
        self._chosen = config.metrics.given(), settings.metrics.deny, config.profiling
        self._is_alone = config.source == SOURCE
        self._exposed = {plan.suffix for plan in plans(None, *self._chosen)}
        """The measures that are shown if AOM has a metric of them."""
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
            if running and self._exposed:
                await self._serve(poll, running)
                return
            poll.keep_only(())
            self._hold({})
            # As if all were found: their task metrics are not worth a call either.
            self._sources.end_poll(running, running, is_refused=self._sources.is_refused)
        finally:
            self._sources.polled.publish(None)

    def usage_expired(self, key: str) -> None:
        """A part's last good answer was kept long enough."""
        self._hold({part: job_ids for part, job_ids in self._shown.items() if part != key})

    def _hold(self, shown: dict[str, frozenset[str]]) -> None:
        self._shown = shown
        self._sources.hold(set[str]().union(*shown.values()))

    async def _serve(self, poll: Poll, running: Mapping[str, Job]) -> None:
        """Read and show what AOM has, the metrics of accelerators first: a job whose accelerators AOM does not know is
        left to task metrics, though not before AOM was waited for."""
        now = asyncio.get_running_loop().time()
        until, found = now + _READING * (poll.deadline - now), set[str]()
        jobs = {job_id: JobParts(job, self._tasks_of(job_id)) for job_id, job in running.items()}
        try:
            await self._learn(poll, until)
            asked = {plan.key: plan for plan in self._plans}
            first, *others = sorted(self._turns.order(asked), key=lambda key: asked[key].suffix != ACCELERATORS)
            early = await self._ask(poll, asked[first], jobs, until)  # it shows whether AOM answers at all
        except (CloudError, NotReady) as error:
            await self._replace(poll, running, error, until)
            return
        self._is_replaced = False
        poll.keep_only([*asked, _SOURCES])
        self._hold({key: job_ids for key, job_ids in self._shown.items() if key in (*asked, _SOURCES)})
        used: list[Column] = []

        async def read(part: Part) -> None:
            """Claim the jobs of an answer, then show them."""
            columns = early if part.key == first else await self._ask(poll, asked[part.key], jobs, until)
            if isinstance(columns, CloudError):
                raise columns
            lacking = self._lacking(jobs) if asked[part.key].suffix != ACCELERATORS else frozenset()
            withheld = {job_id for job_id in lacking if self._sources.is_missed(running[job_id])}
            served = frozenset(subject.keys[0] for column in columns for subject in column.subjects)
            found.update(served)
            self._hold({**self._shown, part.key: served - withheld})
            used.extend(columns)
            await publish_fresh(
                part,
                columns,
                fleet=self._fleet,
                begun=lambda: dict.fromkeys(self._fleet.live.keys() - withheld, 0.0),
            )

        done = await poll.read_each([first], read, at_once=1)
        self._turns.was_read(done | await poll.read_each(others, read, at_once=self._fleet.at_once))
        self._subjects.keep_only(used)
        shown = frozenset[str]().union(*(job_ids for key, job_ids in self._shown.items() if key != _SOURCES))
        self._hold({**self._shown, _SOURCES: shown})
        async with poll.part(_SOURCES) as part:
            live = sorted(shown & self._fleet.live.keys())
            await part.publish([UsageSource(job_id, SOURCE, None) for job_id in live])
        self._sources.end_poll(running, found - self._lacking(jobs), is_refused=False)

    async def _replace(self, poll: Poll, running: Mapping[str, Job], error: Exception, until: float) -> None:
        """Leave usage to task metrics if AOM is not served here, or denies it while they have some; else raise."""
        was_refused, is_refused = self._sources.is_refused, not isinstance(error, CloudError) or is_refusal(error)
        self._sources.end_poll(running, (), is_refused=is_refused)
        if self._is_alone or not is_refused:
            raise error
        if isinstance(error, CloudError):
            until, with_usage = 0.0 if was_refused else until, isinstance(error, AccessDenied)
            if not await self._sources.wait_until_replaced(running, with_usage=with_usage, until=until):
                raise error
            poll.lacks("AOM", error)
        if not self._is_replaced:
            poll.warn("AOM is not available; usage comes from task metrics", error=error)
        self._is_replaced = True

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

    async def _ask(
        self, poll: Poll, plan: Plan, jobs: Mapping[str, JobParts], until: float
    ) -> list[Column] | CloudError:
        """Return what AOM has of running jobs, or why there is nothing. Raises what closes AOM as such."""
        window = min(_LONGEST, max(self._fleet.max_data_age, 2 * poll.interval))
        lost, columns = Counter[str](), list[Column]()
        try:
            found = await read(self._api, plan, jobs, window, lost, deadline=until)
        except CloudError as error:
            if is_refusal(error):
                raise
            return error.with_traceback(None)  # which holds the answer
        now, is_known = self._fleet.clock.now(), self._fleet.is_known
        for each in found:
            columns += each.columns(jobs, self._subjects, lost, now=now, is_known=is_known)
        count(poll, lost)
        return columns

    def _lacking(self, jobs: Mapping[str, JobParts]) -> Set[str]:
        """The jobs whose accelerators AOM does not know, by its latest good answer."""
        if self._is_alone or ACCELERATORS not in self._exposed:
            return frozenset()
        of_cards = [plan.key for plan in self._plans if plan.suffix == ACCELERATORS]
        known = set[str]().union(*(self._shown.get(key, ()) for key in of_cards))
        return {job_id for job_id, parts in jobs.items() if parts.counts["device"]} - known
