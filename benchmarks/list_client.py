"""A client as a child: `python -m benchmarks.list_client NAME URL` lists all running jobs for each line of input.

It responds with their number and the CPU seconds that it used.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.cloud import WORKSPACE
from trainfleet_exporter.config import Global
from trainfleet_exporter.page import Renderer, RenderSettings
from trainfleet_exporter.process.resources import tune_memory
from trainfleet_exporter.providers.alibaba_pai import jobs
from trainfleet_exporter.providers.alibaba_pai.client import PAGE_SIZE, Api
from trainfleet_exporter.providers.alibaba_pai.config import AlibabaPaiConfig
from trainfleet_exporter.providers.registry import BuildContext
from trainfleet_exporter.transport import Account, CallLimits
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

_CONCURRENCY = 8
_EVER = "2000-01-01T00:00:00Z"
_Lister = Callable[[], Awaitable[int]]
"""Reads all pages of the list, and returns the number of jobs."""


def _ours(url: str, *, rendered: bool = False) -> _Lister:
    """The exporter's client: signs, sends, decodes; with `rendered`, also translates and renders."""
    tune_memory()  # as the daemon does; the SDK runs with Python's defaults
    keys = {"access_key_id": ACCESS_KEY_ID, "access_key_secret": ACCESS_KEY_SECRET}
    given = {"name": "benchmark", "platform": "alibaba_pai", "region": "cn-hangzhou", "credentials": keys}
    given |= {"endpoints": dict.fromkeys(("dlc", "paistudio", "aiworkspace", "cloudmonitor"), url)}
    account = Account("benchmark", CallLimits(requests_per_second=1e6, concurrency=_CONCURRENCY))
    context = BuildContext(settings=Global(), account=account, observe=lambda attempt: None)
    api = Api(AlibabaPaiConfig.model_validate(given), context, cloudmonitor=False)
    renderer = Renderer(RenderSettings())
    query = {"WorkspaceId": WORKSPACE, "Status": "Running", "StartTime": _EVER}

    async def lister() -> int:
        deadline = asyncio.get_running_loop().time() + 60
        listing = await jobs.list_jobs(api, WORKSPACE, query, deadline=deadline)
        if rendered:
            found = [jobs.job(row, workspace_id=WORKSPACE) for row in listing.rows.values()]
            renderer.render("benchmark", [job for job in found if job is not None])
        return len(listing.rows)

    return lister


def _sdk(url: str) -> _Lister:
    """The vendor's asynchronous client: signs, sends, decodes into the SDK's own models."""
    config = importlib.import_module("alibabacloud_tea_openapi.utils_models").Config(
        access_key_id=ACCESS_KEY_ID,
        access_key_secret=ACCESS_KEY_SECRET,
        region_id="cn-hangzhou",
        endpoint=url.removeprefix("http://"),
        protocol="http",
    )
    sdk = "alibabacloud_pai_dlc20201203"
    request: Any = importlib.import_module(f"{sdk}.models").ListJobsRequest
    client: Any = importlib.import_module(f"{sdk}.client").Client(config)
    options: Any = importlib.import_module("darabonba.runtime").RuntimeOptions
    turn = asyncio.Semaphore(_CONCURRENCY)

    async def page(number: int) -> tuple[int, int]:
        query = {"workspace_id": WORKSPACE, "status": "Running", "start_time": _EVER}
        async with turn:
            answer = await client.list_jobs_with_options_async(
                request(**query, page_number=number, page_size=PAGE_SIZE), {}, options()
            )
        return answer.body.total_count, len(answer.body.jobs)

    async def lister() -> int:
        total, found = await page(1)
        rest = await asyncio.gather(*map(page, range(2, -(-total // PAGE_SIZE) + 1)))
        return found + sum(count for _, count in rest)

    return lister


_CLIENTS: Mapping[str, Callable[[str], _Lister]] = {
    "ours": _ours,
    "ours-rendered": partial(_ours, rendered=True),
    "sdk": _sdk,
}


async def _main(name: str, url: str) -> None:
    lister = _CLIENTS[name](url)
    print(json.dumps({"url": url}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        before = time.process_time()
        found = await lister()
        print(json.dumps({"cpu": time.process_time() - before, "jobs": found}), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
