"""AOM's Prometheus API as this exporter calls it: which metrics there are, and one query for all series of one.

Parameters go in the URL, also with POST, whose body is empty. An answer that is no success says so in its body, with
whatever HTTP status.

https://support.huaweicloud.com/intl/en-us/api-aom/ListInstantQueryAomPromPost.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from trainfleet_exporter.errors import AccessDenied, BadAnswer, CloudError, NotFound, RequestRefused, ServerTrouble
from trainfleet_exporter.providers.huawei_modelarts.aom_vectors import Packed, Vector, decode_answer, slices
from trainfleet_exporter.providers.huawei_modelarts.auth import Identity
from trainfleet_exporter.providers.huawei_modelarts.dialect import HuaweiDialect
from trainfleet_exporter.quantities import mapping, printable, text
from trainfleet_exporter.transport import HISTORY, ApiClient, BodyLimits, Call, HttpAnswer, Priority

QUERY = "ListInstantQueryAomPromPost"
RANGE = "ListRangeQueryAomPromPost"
NAMES = "ListLabelValuesAomPromGet"
DEFAULT_INSTANCE = "0"
"""Stands for Prometheus_AOM_Default, which paths need not name."""
_VECTOR = BodyLimits(wire=32 * 2**20, decoded=32 * 2**20, values=3_000_000)
"""80,000 cards are 20 MB and 1.2 million values, which are decoded some hundred samples at a time."""
_PASSING = ("timeout", "unavailable", "internal", "canceled")
"""Kinds of errors that are the service's own trouble."""


class AomDialect(HuaweiDialect):
    """Signed like every API of the cloud; errors are told as Prometheus tells them (transport.Dialect)."""

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
        call = Call(operation=NAMES, path="", no_data=_is_empty)
        payload = await self._call(call, "label/__name__/values", deadline)
        names = payload.get("data", "")
        if names is not None and not isinstance(names, list):
            raise BadAnswer("the answer has no list of values", operation=NAMES)
        return frozenset(name for name in names or () if isinstance(name, str))

    async def query(self, promql: str, *, deadline: float) -> Iterator[list[Any]]:
        """POST .../query: the samples of an instant vector as they are now, by the service's own clock.

        They come some hundred at a time: as `Sample`, or, where any is unusual, as the JSON has them. BadAnswer may
        still be raised then.
        """
        call = Call(
            operation=QUERY,
            path="",
            method="POST",
            query={"query": promql},
            no_data=_is_empty,
            decode=decode_answer,
            limits=_VECTOR,
        )
        data = mapping(await self._call(call, "query", deadline), "data")
        samples = data.get("result", "")
        if data.get("resultType") != "vector" or not isinstance(samples, Vector | Packed | list | None):
            raise BadAnswer("the answer is no vector", operation=QUERY)
        return samples.slices() if isinstance(samples, Vector | Packed) else slices(samples or [])

    async def query_range(self, promql: str, *, start: int, end: int, step: int, deadline: float) -> list[Any]:
        """POST .../query_range: the series of a query at every `step` seconds from `start` to `end` (Unix seconds, both
        included), each with its `metric` and `values`.

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
        data = mapping(await self._call(call, "query_range", deadline), "data")
        series = data.get("result", "")
        if data.get("resultType") != "matrix" or not isinstance(series, list | None):
            raise BadAnswer("the answer is no matrix", operation=RANGE)
        return series or []

    async def _call(self, call: Call, path: str, deadline: float) -> dict[str, Any]:
        project = quote(await self._identity.project(deadline), safe="")
        whole_call = call.at(f"/v1/{project}/{self._instance}aom/api/v1/{path}")
        payload = await self._client.call(whole_call, deadline=deadline)
        if not isinstance(payload, dict):
            raise BadAnswer("the answer is not a JSON object", operation=call.operation)
        return payload


def is_refusal(error: CloudError) -> bool:
    """Whether AOM as such is closed to this identity or not served here, whatever it is asked."""
    return isinstance(error, AccessDenied | NotFound) or (isinstance(error, RequestRefused) and error.status == 404)


def is_too_large(error: CloudError) -> bool:
    """Whether an answer was refused for its size (transport.body)."""
    return isinstance(error, BadAnswer) and "over the limit" in error.message


def _is_empty(payload: Any) -> bool:
    """Whether a list of values, or a vector, holds nothing."""
    data = payload.get("data") if isinstance(payload, dict) else ""
    return (data.get("result") if isinstance(data, dict) else data) in ([], None)
