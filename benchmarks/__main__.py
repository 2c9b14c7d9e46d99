"""Run every benchmark and print the report."""

from __future__ import annotations

import asyncio
import os
import platform

from benchmarks import requests, scrape


async def main() -> None:
    """Print a row for each pair: ours, theirs, and how many times longer theirs takes."""
    print(f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores; medians")
    print(f"{'what; beside which':<58} {'ours':>12} {'theirs':>12} {'theirs/ours':>9}")
    for rows in (scrape.rows, requests.rows):
        async for row in rows():
            print(row, flush=True)


asyncio.run(main())
