"""Small requests to a loopback server: our transport, with signing and decoding, beside httpx's default transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from benchmarks.pairs import compare
from trainfleet_exporter.providers.alibaba_pai.credentials import Credentials, Keys
from trainfleet_exporter.providers.alibaba_pai.dialect import PaiDialect
from trainfleet_exporter.transport import Account, Call, HttpSettings, Limits, Transport

_BATCH = 300
_WORKERS = 4
_BODY = b'{"TotalCount": 0, "Jobs": []}'
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(_ANSWER)
    except asyncio.IncompleteReadError:
        writer.close()


async def rows() -> AsyncIterator[str]:
    """One row: a batch of calls, four at a time."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    credentials = Credentials("benchmark", lambda: Keys("id", "secret"))
    transport = Transport(
        account=Account("benchmark", Limits(requests_per_second=1e6, concurrency=_WORKERS)),
        http=HttpSettings(proxy_url=None, ca_file=None),
        observe=lambda attempt: None,
    )
    client = transport.client(url, PaiDialect("dlc", "2020-12-03", credentials))
    call = Call(operation="ListJobs", path="/api/v1/jobs", query={"Status": "Running", "PageSize": "100"})
    loop = asyncio.get_running_loop()

    async with httpx.AsyncClient(base_url=url) as plain:

        async def ours() -> object:
            async def work() -> None:
                for _ in range(_BATCH // _WORKERS):
                    await client.call(call, deadline=loop.time() + 20)

            return await asyncio.gather(*(work() for _ in range(_WORKERS)))

        async def theirs() -> object:
            async def work() -> None:
                for _ in range(_BATCH // _WORKERS):
                    (await plain.get(call.path, params=dict(call.query))).json()

            return await asyncio.gather(*(work() for _ in range(_WORKERS)))

        yield await compare(f"{_BATCH} signed calls; httpx's default transport, unsigned", ours, theirs)
    await transport.aclose()
    server.close()
