"""AOM's Prometheus API: the names of metrics, one query for all series of a metric, and batches of samples.

Parameters are in the URL, also with POST, whose body is empty. An error may be in the body of a response with any HTTP
status.

A sample is of one card, or of a pod if there are no cards, or of a whole job if pods cannot be distinguished. The
labels of pods and cards in samples are unproven (metrics); the names of a job's tasks are proven. Samples have the time
of the query, so nothing here is dated.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UnsetType

from trainfleet_exporter.errors import (
    AccessDenied,
    BadAnswer,
    CloudError,
    NotFound,
    NotReady,
    RequestRefused,
    ServerTrouble,
)
from trainfleet_exporter.families.usage import LEVELS, Level
from trainfleet_exporter.model import Accelerator, Job
from trainfleet_exporter.polling import Poll
from trainfleet_exporter.process.logs import fields
from trainfleet_exporter.providers.huawei_modelarts.api import HuaweiDialect, Identity
from trainfleet_exporter.providers.huawei_modelarts.payloads import Labels, MetricNames, QueryAnswer, Sample, Series
from trainfleet_exporter.providers.huawei_modelarts.translate import role_of
from trainfleet_exporter.providers.huawei_modelarts.usage.metrics import (
    CARD_LABELS,
    POD_LABELS,
    Choice,
    Plan,
    Query,
    is_complete,
    plans,
)
from trainfleet_exporter.providers.usage.columns import Column
from trainfleet_exporter.providers.usage.entities import Entities, Key
from trainfleet_exporter.providers.usage.newest import Batch, Newest, Scope
from trainfleet_exporter.providers.usage.quantities import convert_each
from trainfleet_exporter.providers.usage.sized import Makeup, SizedColumns
from trainfleet_exporter.transport import HISTORY, ApiClient, BodyLimits, Call, HttpAnswer
from trainfleet_exporter.transport.json_fields import printable, text
from trainfleet_exporter.transport.payload import decode_value

T = TypeVar("T")
QUERY = "ListInstantQueryAomPromPost"
RANGE = "ListRangeQueryAomPromPost"
NAMES = "ListLabelValuesAomPromGet"
DEFAULT_INSTANCE = "0"
"""The id of Prometheus_AOM_Default, which paths need not contain."""
_VECTOR = BodyLimits(wire=32 * 2**20, decoded=32 * 2**20, values=3_000_000, tolerated=250_000)
"""80,000 cards are 20 MB and 1.2 million values, which are decoded some hundred samples at a time. Where NaN makes that
impossible, 250,000 values take half a second of the event loop."""
_MOST_ROWS = 250_000
"""Samples of an answer: undecoded, each takes 64 bytes besides the body."""
_BATCH = 250
"""Samples that are decoded before the loop has its turn: with their translation, half a millisecond."""
_PASSING = ("timeout", "unavailable", "internal", "canceled")
"""Kinds of errors that are the service's own trouble."""
_LONGEST = 40
"""Characters of a number that is believed to be one."""
_pod_texts = attrgetter(*POD_LABELS)
_card_texts = attrgetter(*CARD_LABELS)
_CARD_KINDS = tuple(CARD_LABELS.values())
_SPARE = 64
"""Number of pods of a job that are remembered, beyond twice its pods."""
_PODS = 1000
"""Assumed maximum number of pods of a job that does not report it."""
_DAY = 86400.0
_HOUR = 3600.0
log = logging.getLogger(__name__)


class AomDialect(HuaweiDialect):
    """Signed like every API of the cloud, with errors in the form of Prometheus (transport.Dialect)."""

    def meaning(self, answer: HttpAnswer) -> CloudError | None:
        """None for an answer that says `success`; else what went wrong, with Prometheus' own kind of error as code."""
        error = super().meaning(answer)
        payload = answer.payload if isinstance(answer.payload, dict) else {}
        status, kind = text(payload, "status"), printable(text(payload, "errorType"), 80)
        said = printable(text(payload, "error"), 300)
        if error is not None:
            error.code, error.message = kind or error.code, said or error.message
            return error
        if not payload or status == "success":
            return None
        if status != "error":
            return BadAnswer("the answer does not say whether it is a success", status=answer.status)
        refusal = ServerTrouble if kind in _PASSING else RequestRefused
        return refusal(said or "the service says that it failed", status=answer.status, code=kind)


class AomApi:
    """The calls that the usage collector makes. Every one raises CloudError, and ends by its deadline (loop time)."""

    def __init__(self, client: ApiClient, identity: Identity, *, instance: str = DEFAULT_INSTANCE) -> None:
        self._client = client
        self._identity = identity
        self._instance = "" if instance == DEFAULT_INSTANCE else f"{quote(instance, safe='')}/"

    async def metric_names(self, *, deadline: float) -> frozenset[str]:
        """GET .../label/__name__/values: the names of all metrics that have series."""
        call = Call(operation=NAMES, path="", no_data=lambda answer: answer.data in ([], None))
        answer = await self._call(call, "label/__name__/values", MetricNames, deadline)
        if isinstance(answer.data, UnsetType):
            raise BadAnswer("the answer has no list of values", operation=NAMES)
        return frozenset(answer.data or ())

    async def query(self, promql: str, *, deadline: float) -> Iterator[list[Sample | None]]:
        """POST .../query: the current samples of an instant vector, by the service's own clock.

        They are decoded in batches on demand. None is a sample that is not an object.
        """
        call = Call(operation=QUERY, path="", method="POST", query={"query": promql}, no_data=_is_empty, limits=_VECTOR)
        rows = _rows(await self._call(call, "query", QueryAnswer, deadline), "vector", QUERY)
        if len(rows) > _MOST_ROWS:
            raise BadAnswer(f"the answer is over the limit of {_MOST_ROWS:,} samples", operation=QUERY)
        batches = (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))
        return ([decode_value(row, Sample) for row in batch] for batch in batches)

    async def query_range(
        self, promql: str, *, start: int, end: int, step: int, deadline: float
    ) -> Iterator[Series | None]:
        """POST .../query_range: the series of a query at every `step` seconds from `start` to `end` (Unix seconds, both
        included).

        They are decoded one by one on demand. None is a series that is not an object.

        https://support.huaweicloud.com/intl/en-us/api-aom/ListRangeQueryAomPromPost.html
        """
        query = {"query": promql, "start": str(start), "end": str(end), "step": str(step)}
        call = Call(
            operation=RANGE,
            path="",
            method="POST",
            query=query,
            no_data=_is_empty,
            limits=HISTORY,
        )
        rows = _rows(await self._call(call, "query_range", QueryAnswer, deadline), "matrix", RANGE)
        return (decode_value(row, Series) for row in rows)

    async def _call(self, call: Call, path: str, into: type[T], deadline: float) -> T:
        project = quote(await self._identity.project(deadline), safe="")
        whole_call = call.at(f"/v1/{project}/{self._instance}aom/api/v1/{path}")
        return await self._client.call(whole_call, into, deadline=deadline)


def _rows(answer: QueryAnswer, kind: str, operation: str) -> Sequence[msgspec.Raw]:
    """The undecoded rows of a result of this kind. BadAnswer for anything else."""
    data = answer.data
    if data is None or data.result_type != kind or isinstance(data.result, UnsetType):
        raise BadAnswer(f"the answer is not a {kind}", operation=operation)
    return data.result or ()


def _is_empty(answer: QueryAnswer) -> bool:
    """Return whether a vector or a matrix holds nothing."""
    return answer.data is not None and answer.data.result in ([], None)


def is_refusal(error: CloudError) -> bool:
    """Return whether AOM rejects this identity, or is not served here, for every query."""
    return isinstance(error, AccessDenied | NotFound) or (isinstance(error, RequestRefused) and error.status == 404)


def is_too_large(error: CloudError) -> bool:
    """Return whether a response was rejected for its size (transport.body)."""
    return isinstance(error, BadAnswer) and "over the limit" in error.message


class JobNames:
    """Which pods and cards of a running job samples are of; kept while the job consists of the same."""

    def __init__(self, job: Job, tasks: Sequence[str]) -> None:
        kinds = {item.kind for item in job.accelerators}
        self.job_id = job.job_id
        self.makeup = Makeup(
            pods=len(tasks) or (int(job.nodes) if job.nodes else None),
            cards=math.fsum(item.count for item in job.accelerators) if job.accelerators else None,
            uniform=len({role_of(task) for task in tasks}) == 1,
        )
        self._tasks = frozenset(tasks)
        self._kind = kinds.pop() if len(kinds) == 1 else None
        self._made_of = (job.nodes, job.accelerators, tasks)
        self._pods: dict[tuple[str, ...], str] = {}
        """The pods by the texts of their labels."""

    @classmethod
    def of(cls, job: Job, tasks: Sequence[str], known: JobNames | None = None) -> JobNames:
        """By the job's latest row; `known` by an earlier one."""
        if known is None or known._made_of != (job.nodes, job.accelerators, tasks):
            return cls(job, tasks)
        if len(known._pods) > 2 * (_PODS if known.makeup.pods is None else known.makeup.pods) + _SPARE:
            known._pods = {}  # pods are replaced under other names, again and again
        return known

    def key(self, labels: Labels, query: Query, *, of_cards: bool) -> Key:
        """Return the subject of a sample: a card, which may have no name (an empty text), or, without `of_cards`, a
        pod.

        A pod also has no name if the pods of a job cannot be distinguished.
        """
        texts = _pod_texts(labels)
        pod_id = self._pods.get(texts)
        if pod_id is None:
            pod_id = self._pods[texts] = self._pod_id(texts)
        for card, kind_of_label in zip(_card_texts(labels), _CARD_KINDS, strict=True):
            if card:
                return self.job_id, pod_id, card, query.accelerator or kind_of_label or self._kind or _kind_in(query)
        if not of_cards:
            return self.job_id, pod_id
        return self.job_id, pod_id, "", query.accelerator or self._kind or _kind_in(query)

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


@dataclass(slots=True)
class _Group:
    """The answers to some queries. The table's own are of different kinds of cards; together they are a job's."""

    newest: Newest
    levels: Collection[Level]
    trusted: bool
    by_cards: bool = False


class Collected:
    """The answers to one plan's queries. `jobs` are those that run, `listed` all that the provider shows or showed."""

    def __init__(
        self, plan: Plan, jobs: Mapping[str, JobNames], listed: Collection[str], entities: Entities | None = None
    ) -> None:
        self.dropped: Counter[str] = Counter()
        """Samples that are not shown, by reason."""
        self.job_ids: frozenset[str] = frozenset()
        """The jobs that have a value. Empty until `settle` has ended."""
        self.columns: Sequence[Column] = ()
        """Likewise."""
        self._plan = plan
        self._jobs = jobs
        self._listed = listed
        self._entities = Entities() if entities is None else entities
        self._groups: dict[str, _Group] = {}

    def add(self, query: Query, samples: Iterable[Sample | None]) -> None:
        """Add the samples of a query's response. None is a row that is not an object."""
        of_cards, name = self._plan.reading.of_cards, query.metric if query.promql else ""
        group = self._groups.get(name)
        if group is None:
            parts = self._entities.of("pod")  # a part is a card, or a pod, or a job as one pod
            newest = Newest(parts, Scope(self._jobs), now=0.0, undated=True)
            group = self._groups[name] = _Group(newest, query.levels, trusted=bool(query.promql))
        group.by_cards = group.by_cards or query.accelerator is not None
        keys: list[Key] = []
        raws: list[float] = []
        for sample in samples:
            labels = sample.metric if sample is not None else None
            if sample is None or labels is None:
                self.dropped["malformed"] += 1
                continue
            job = self._jobs.get(labels.service_id)
            if job is None:
                self._pass_over(labels.service_id)
                continue
            raw = self._number(sample.value.value if sample.value is not None else None)
            if raw is not None:
                keys.append(job.key(labels, query, of_cards=of_cards))
                raws.append(raw)
        values = convert_each(raws, query.factor, self._plan.reading.measure.quantity)
        if None in values:
            self.dropped["out_of_range"] += values.count(None)
            keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        group.newest.take(Batch(keys, [values], 0.0))

    def settle(self) -> None:
        """Make columns of all added samples."""
        found = SizedColumns(self._plan.reading.measure, self._entities, by_kind=self._plan.reading.of_cards)
        makeups = {job_id: job.makeup for job_id, job in self._jobs.items()}
        for group in self._groups.values():
            self.job_ids |= found.add(
                group.newest, makeups, group.levels, by_cards=group.by_cards, trusted=group.trusted
            )
            self.dropped.update(group.newest.dropped)
        self.columns = found.columns()
        self._groups.clear()

    def _pass_over(self, job_id: str) -> None:
        if not job_id:
            self.dropped["malformed"] += 1
        elif job_id not in self._listed:
            self.dropped["unlisted"] += 1
        # Else it does not run any more: its last sample is from its end.

    def _number(self, given: str | float | None) -> float | None:
        """A sample's value; None, and counted, where it is none."""
        try:
            number = float(given) if isinstance(given, float) or (given and len(given) <= _LONGEST) else None
        except ValueError:
            number = None
        if number is None:
            self.dropped["malformed"] += 1
        elif math.isnan(number) or number == -1:  # what the platform's other answers have for "no sample"
            self.dropped["no_data"] += 1
            return None
        return number


def _kind_in(query: Query) -> Accelerator:
    return "npu" if "npu" in query.promql.lower() else "gpu"


class AomSource:
    """AOM's readings of training jobs. `chosen`, `deny` and `profiles` are the config's."""

    def __init__(
        self, aom: AomApi, *, chosen: Mapping[str, Choice], deny: Sequence[str], profiles: Container[str] = ()
    ) -> None:
        self.everything = plans(None, chosen, deny, profiles)
        """The queries if AOM has a metric for every exposed family."""
        self._aom = aom
        self._chosen = chosen
        self._deny = deny
        self._profiles = profiles
        self._plans: list[Plan] | None = None
        self._renew_at = 0.0
        """The loop time at which the metrics' names are asked for again."""
        self._coarse: dict[str, tuple[Level, float]] = {}
        """Metrics whose answer was too large at a finer level: at which they are read, and until when (loop time)."""

    async def plans(self, poll: Poll, *, deadline: float) -> list[Plan]:
        """Return the queries. Raises CloudError, and NotReady if AOM has no metric of training jobs."""
        loop = asyncio.get_running_loop()
        if self._plans is None or loop.time() >= self._renew_at:
            try:
                names: Collection[str] | None = await self._aom.metric_names(deadline=deadline)
            except (RequestRefused, NotFound):
                names = None  # lists of names are not served here; queries may be
            except CloudError as error:
                if self._plans is None or is_refusal(error):
                    raise
                poll.lacks("names of metrics", error)
                return self._plans
            found = plans(names, self._chosen, self._deny, self._profiles)
            if not found:
                raise NotReady("AOM has no metric of training jobs")
            self._plans = found
            # A metric that AOM does not have today may come with the first job that uses an accelerator of its kind.
            is_all = names is not None and is_complete(found, self.everything)
            self._renew_at = loop.time() + (_DAY if is_all else _HOUR)
        return self._plans

    async def read(self, plan: Plan, into: Collected, *, window: float, deadline: float) -> None:
        """Read all queries of a plan. `window` is how old a sample may be, in seconds. Raises CloudError."""
        for query in plan.queries:
            for samples in await self._samples(plan, query, window, deadline):
                into.add(query, samples)
        into.settle()

    async def _samples(self, plan: Plan, query: Query, window: float, deadline: float) -> Iterator[list[Sample | None]]:
        """The samples of one query in batches, as finely as they fit into an answer."""
        now = asyncio.get_running_loop().time()
        fineness, until = self._coarse.get(query.metric, ("job", 0.0))
        if now >= until:  # the fleet may have shrunk since, or the answer was not AOM's
            fineness = "device" if query.accelerator else "pod"
        while True:
            try:
                return await self._aom.query(query.text(fineness, window), deadline=deadline)
            except CloudError as error:
                # Only the mean of a ratio can be left to AOM: it would add up amounts that are incomplete.
                if not is_too_large(error) or query.promql or not plan.reading.measure.is_ratio or fineness == "job":
                    raise
                fineness = LEVELS[LEVELS.index(fineness) - 1]
                self._coarse[query.metric] = fineness, now + _HOUR
                facts = fields(metric=query.metric, level=fineness, seconds=_HOUR)
                log.warning("AOM response too large; reading a coarser level for a while", extra=facts)
