"""The simulated clouds in a separate process, as a child of benchmarks.rig: `python -m benchmarks.simulator`.

No event happens in their worlds, so no job ends. It serves until its input ends, and prints a config for the exporter.
"""

from __future__ import annotations

import asyncio
import json
import sys

from trainfleet_simulator import Simulator


async def _main() -> None:
    simulator = Simulator(seed=7, clouds=("pai", "modelarts"), population=100, still=True)
    async with simulator.serve() as url:
        print(json.dumps({"url": url, "config": simulator.config_yaml(url)}), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
