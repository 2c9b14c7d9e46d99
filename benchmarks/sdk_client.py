"""The vendor's SDK as a child: `python -m benchmarks.sdk_client URL` lists all running jobs for each line of input.

It responds with their number and the CPU seconds that it used.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import Any

from benchmarks.cloud import WORKSPACE
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET

_PAGE = 100
_CONCURRENCY = 8


class _Client:
    """The asynchronous client of PAI: signs, sends, decodes into the SDK's own models."""

    def __init__(self, url: str) -> None:
        config = importlib.import_module("alibabacloud_tea_openapi.utils_models").Config(
            access_key_id=ACCESS_KEY_ID,
            access_key_secret=ACCESS_KEY_SECRET,
            region_id="cn-hangzhou",
            endpoint=url.removeprefix("http://"),
            protocol="http",
        )
        sdk = "alibabacloud_pai_dlc20201203"
        self._request: Any = importlib.import_module(f"{sdk}.models").ListJobsRequest
        self._client: Any = importlib.import_module(f"{sdk}.client").Client(config)
        self._options: Any = importlib.import_module("darabonba.runtime").RuntimeOptions
        self._turn = asyncio.Semaphore(_CONCURRENCY)

    async def list_jobs(self) -> int:
        """Read all pages; return the number of jobs."""
        total, found = await self._page(1)
        rest = await asyncio.gather(*map(self._page, range(2, -(-total // _PAGE) + 1)))
        return found + sum(jobs for _, jobs in rest)

    async def _page(self, number: int) -> tuple[int, int]:
        request = self._request(
            workspace_id=WORKSPACE, status="Running", start_time="2000-01-01T00:00:00Z", page_number=number,
            page_size=_PAGE,
        )  # fmt: skip
        async with self._turn:
            answer = await self._client.list_jobs_with_options_async(request, {}, self._options())
        return answer.body.total_count, len(answer.body.jobs)


async def _main(url: str) -> None:
    client = _Client(url)
    print(json.dumps({"url": url}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        before = time.process_time()
        jobs = await client.list_jobs()
        print(json.dumps({"cpu": time.process_time() - before, "jobs": jobs}), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
