"""The simulated clouds in a process of their own: `python -m benchmarks.bombs_cloud FILE` serves until its input ends.

It writes a config file for the exporter to FILE. Faults are set over HTTP, as the simulator says.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from trainfleet_simulator import Simulator

_POPULATION = 100
_PATIENCE = 60
"""Jobs that live for hours: none ends meanwhile."""


async def _main(path: str) -> None:
    simulator = Simulator(seed=7, clouds=("pai", "modelarts"), population=_POPULATION, patience=_PATIENCE)
    loop = asyncio.get_running_loop()
    async with simulator.serve() as url:
        await loop.run_in_executor(None, Path(path).write_text, simulator.config_yaml(url))
        print(json.dumps({"url": url}), flush=True)
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
