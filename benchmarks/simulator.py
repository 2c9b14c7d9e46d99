"""The simulated clouds in a separate process: `python -m benchmarks.simulator POPULATION CLOUD...`.

No event happens in their worlds, so no job ends. It serves until its input ends. It responds to each line of input with
a config for the exporter and with PAI's running jobs: their number, and the ids and pods of those with the most pods.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from trainfleet_simulator import Simulator
from trainfleet_simulator.pai.paistudio import VISIBLE

_LARGEST = 20


async def _main(population: int, clouds: Sequence[str]) -> None:
    simulator = Simulator(seed=7, clouds=clouds, population=population, still=True)
    live = (job for job in simulator.world.live() if job.draft.workspace_id == VISIBLE[0])
    running = [job for job in live if job.status == "Running"]
    largest = sorted(running, key=lambda job: len(job.pods), reverse=True)[:_LARGEST]
    pods = [len(job.pods) for job in largest]
    loop = asyncio.get_running_loop()
    async with simulator.serve() as url:
        answer = {
            "config": simulator.config_yaml(url),
            "workspace_id": VISIBLE[0],
            "running": len(running),
            "job_ids": [job.job_id for job in largest],
            "pods": [min(pods), max(pods)],
        }
        print(json.dumps({"url": url}), flush=True)
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2:]))
