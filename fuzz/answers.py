"""A whole response of a cloud, a gateway or a proxy: the target `answer`.

An input is a status, headers and a body as in HTTP, with bare line ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import cache

import httpx

from trainfleet_exporter.errors import BadAnswer, CloudError
from trainfleet_exporter.providers.alibaba_pai import api as pai
from trainfleet_exporter.providers.aws_sagemaker import api as sagemaker
from trainfleet_exporter.providers.huawei_modelarts import api as modelarts
from trainfleet_exporter.transport import BodyLimits, HttpAnswer
from trainfleet_exporter.transport.body import decode_json, read_wire, unpack

_LIMITS = BodyLimits(wire=4096, decoded=65536)
_LONGEST = 600


def answer(data: bytes) -> None:
    """Read a response within limits, and judge it as the clouds' dialects do: it is good, or its error can be
    printed."""
    head, _, body = data.partition(b"\n\n")
    status, *lines = head.decode("latin-1").split("\n")
    fields = [(name.strip() or "x", value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    headers = httpx.Headers([(name.encode("ascii", "replace"), value.encode("latin-1")) for name, value in fields])
    try:
        plain = _runner().run(_read(body, headers.get("content-encoding", "")))
    except BadAnswer as error:
        _check_printable(error)
        return
    assert len(plain) <= _LIMITS.decoded
    number = int(status) if len(status) == 3 and status.isascii() and status.isdigit() else 200
    response = HttpAnswer(number, headers, plain, decode_json(plain))
    for judge in (pai.judge, sagemaker.judge, modelarts.judge):
        verdict = judge(response)
        if verdict is not None:
            _check_printable(verdict)


@cache
def _runner() -> asyncio.Runner:
    """One event loop for all inputs: a new one for each would take longer than most inputs."""
    return asyncio.Runner()


def _check_printable(error: CloudError) -> None:
    assert str(error).isprintable(), error
    assert len(str(error)) <= _LONGEST, error
    assert error.retry_after is None or (math.isfinite(error.retry_after) and error.retry_after >= 0)


async def _read(body: bytes, encoding: str) -> bytes:
    async def stream() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 512):
            yield body[at : at + 512]

    async with AsyncExitStack() as until_decoded:
        wire = await read_wire(stream(), _LIMITS, until_decoded)
        return await unpack(wire, encoding, _LIMITS, until_decoded)
