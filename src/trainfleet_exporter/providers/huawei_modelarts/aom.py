"""AOM's Prometheus API as this exporter calls it: which metrics there are, and one query for all series of one.

Parameters go in the URL, also with POST, whose body is empty. An answer that is no success says so in its body, with
whatever HTTP status.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UnsetType

from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestRefused, ServerTrouble
from trainfleet_exporter.providers.huawei_modelarts.payloads import MetricNames, QueryAnswer, Sample, Series
from trainfleet_exporter.providers.huawei_modelarts.signing import HuaweiDialect, Identity
from trainfleet_exporter.transport import HISTORY, ApiClient, BodyLimits, Call, HttpAnswer, Priority
from trainfleet_exporter.transport.json_fields import printable, text
from trainfleet_exporter.transport.payload import decode_value

T = TypeVar("T")
QUERY = "ListInstantQueryAomPromPost"
RANGE = "ListRangeQueryAomPromPost"
NAMES = "ListLabelValuesAomPromGet"
DEFAULT_INSTANCE = "0"
"""Stands for Prometheus_AOM_Default, which paths need not name."""
_VECTOR = BodyLimits(wire=32 * 2**20, decoded=32 * 2**20, values=3_000_000, tolerated=250_000)
"""80,000 cards are 20 MB and 1.2 million values, which are decoded some hundred samples at a time. Where NaN makes that
impossible, 250,000 values take half a second of the event loop."""
_MOST_ROWS = 250_000
"""Samples of an answer: undecoded, each takes 64 bytes besides the body."""
_BATCH = 250
"""Samples that are decoded before the loop has its turn: with their translation, half a millisecond."""
_PASSING = ("timeout", "unavailable", "internal", "canceled")
"""Kinds of errors that are the service's own trouble."""


class AomDialect(HuaweiDialect):
    """Signed like every API of the cloud, with errors in the form of Prometheus (transport.Dialect)."""

    def judge(self, answer: HttpAnswer) -> CloudError | None:
        """None for an answer that says `success`; else what went wrong, with Prometheus' own kind of error as code."""
        error = super().judge(answer)
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
        """POST .../query: the samples of an instant vector as they are now, by the service's own clock.

        They are decoded in batches, as they are asked for. None stands for what is no object.
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
        included). They are decoded one by one, as they are asked for. None stands for what is no object.

        https://support.huaweicloud.com/intl/en-us/api-aom/ListRangeQueryAomPromPost.html
        """
        query = {"query": promql, "start": str(start), "end": str(end), "step": str(step)}
        call = Call(
            operation=RANGE,
            path="",
            method="POST",
            query=query,
            priority=Priority.DETAIL,
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
        raise BadAnswer(f"the answer is no {kind}", operation=operation)
    return data.result or ()


def _is_empty(answer: QueryAnswer) -> bool:
    """Whether a vector or a matrix holds nothing."""
    return answer.data is not None and answer.data.result in ([], None)


def is_refusal(error: CloudError) -> bool:
    """Whether AOM as such is closed to this identity or not served here, whatever it is asked."""
    return isinstance(error, AccessDenied | NotFound) or (isinstance(error, RequestRefused) and error.status == 404)


def is_too_large(error: CloudError) -> bool:
    """Whether an answer was refused for its size (transport.body)."""
    return isinstance(error, BadAnswer) and "over the limit" in error.message
