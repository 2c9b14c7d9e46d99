"""The simulated PAI cloud, in a process of its own: `python -m benchmarks.calls_simulator` serves until its input ends.

Whatever it is told, it answers with the ids of running jobs, those with the most pods.
"""

from __future__ import annotations

import asyncio
import json
import sys

from trainfleet_simulator import Simulator
from trainfleet_simulator.pai.paistudio import VISIBLE

_POPULATION = 600
_LARGEST = 20


async def _main() -> None:
    simulator = Simulator(seed=7, clouds=("pai",), population=_POPULATION, still=True)
    live = (job for job in simulator.world.live() if job.draft.workspace_id in VISIBLE)
    running = [job for job in live if job.status == "Running"]
    largest = sorted(running, key=lambda job: len(job.pods), reverse=True)[:_LARGEST]
    loop = asyncio.get_running_loop()
    async with simulator.serve() as url:
        print(json.dumps({"url": url}), flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            pods = [len(job.pods) for job in largest]
            told = {"job_ids": [job.job_id for job in largest], "running": len(running), "pods": [min(pods), max(pods)]}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
