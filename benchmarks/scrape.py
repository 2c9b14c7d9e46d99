"""A scrape: the body of /metrics, ours from the board, beside prometheus-client rendering the same samples."""

from __future__ import annotations

from collections.abc import AsyncIterator

import prometheus_client as prometheus
from prometheus_client.exposition import generate_latest

from benchmarks.pairs import compare
from trainfleet_exporter.exposition import Board, Format, Renderer, RenderSettings, body
from trainfleet_exporter.model import Job, Status

_SIZES = (1_000, 10_000, 100_000)


async def rows() -> AsyncIterator[str]:
    """One row for each number of series and encoding."""
    for size in _SIZES:
        board, registry = Board(), prometheus.CollectorRegistry()
        renderer = Renderer(RenderSettings(deny=("trainfleet_job_info", "trainfleet_job_platform_status")))
        jobs = [Job(job_id=f"dlc{number:016}", status=Status.RUNNING) for number in range(size)]
        for start in range(0, size, 100):
            board.put(start, renderer.render("p", jobs[start : start + 100]))
        gauge = prometheus.Gauge(
            "trainfleet_job_status", "The same.", ("provider", "job_id", "status"), registry=registry
        )
        for job in jobs:
            gauge.labels("p", job.job_id, job.status.value).set(1)

        async def ours(board: Board = board) -> object:
            return await body(board.snapshot(), Format.TEXT, gzip=False, extra=b"")

        async def theirs(registry: prometheus.CollectorRegistry = registry) -> object:
            return generate_latest(registry)

        yield await compare(f"scrape of {size:,} series, plain; prometheus-client", ours, theirs, rounds=5)

        async def after_a_poll(board: Board = board, renderer: Renderer = renderer, jobs: list[Job] = jobs) -> object:
            board.put(0, renderer.render("p", jobs[:99]))
            board.put(0, renderer.render("p", jobs[:100]))
            return await body(board.snapshot(), Format.TEXT, gzip=False, extra=b"")

        yield await compare("the same, first after a part changed; prometheus-client", after_a_poll, theirs, rounds=5)
