"""The lower half of the pools' dashboard: who waits in which queue, and on which nodes there is room."""

from __future__ import annotations

from deploy.generator.dashboards.fleet import JOB_LINK
from deploy.generator.dashboards.panels import ROOM_TO_FULL, Panel, Query, Scale, row, timeseries
from deploy.generator.dashboards.promql import ON_JOB, P, info, job_info, of_job, once, with_pool
from deploy.generator.dashboards.tables import Column, table

SOME = f'{P}, pool_id=~"$pool"'
"""The matchers of the chosen pools."""
NAME = "{{provider}} · {{pool_name}}"
BY = "provider, pool_id"


def amount(record: str) -> str:
    """A record of accelerators of pools, over all models."""
    return f"sum by ({BY}) (pool:trainfleet_{record}:sum{{{SOME}}})"


def of_pool(family: str) -> str:
    """A family of pools that has no further labels."""
    return once(BY, f"trainfleet_pool_{family}{{{SOME}}}")


def _queue() -> list[Panel]:
    age = f"max by (provider, job_id, pool_id) (job:trainfleet_queue_age:seconds{{{SOME}}})"
    whose = "job_name, user_name"
    requested = once(
        "provider, job_id, accelerator, accelerator_model", f"trainfleet_job_requested_accelerators{{{P}}}"
    )
    return [
        row("Queue"),
        timeseries(
            "Queued accelerators",
            "Accelerators that the workloads in each pool's queue ask for. A parent's include its children's.",
            "short",
            Query(with_pool(amount("queued_accelerators")), NAME),
        ),
        timeseries(
            "Longest wait",
            "How long the oldest queued job of each pool has waited. A gap while nothing waits.",
            "s",
            Query(with_pool(f"max by ({BY}) (pool:trainfleet_queue_age:max{{{SOME}}})"), NAME),
            scale=Scale("text", ((3600, "red"),)),
        ),
        table(
            "Queued jobs",
            "Who waits, in which place (1 is next, where the cloud tells), for how many accelerators.",
            {
                "provider": Column("Provider"),
                "job_name": Column("Job", link=JOB_LINK),
                "job_id": Column("Job id"),
                "user_name": Column("User"),
                "pool_name": Column("Pool"),
            },
            [
                Column(
                    "Waiting for",
                    f"({with_pool(age)})\n* {ON_JOB} group_left ({whose})\n{job_info(whose)}",
                    "s",
                    Scale("text", ((1800, "yellow"), (3600, "red"))),
                ),
                Column("Place", f"{of_job('queue_position')}\nand {ON_JOB} {age}"),
                Column("Accelerators", f"sum by (provider, job_id) ({requested})\nand {ON_JOB} {age}", "short"),
                Column("Priority", f"{of_job('priority')}\nand {ON_JOB} {age}"),
            ],
            sort="Waiting for",
        ),
        timeseries(
            "Placed workloads by type",
            "Workloads that are neither queued nor over: who else than training jobs takes room. A parent's include "
            "its children's; types without any are left out.",
            "short",
            Query(
                with_pool(_workloads("provider, pool_id, workload_type", "queued|succeeded|failed|stopped", "!~")),
                NAME + " · {{workload_type}}",
            ),
        ),
        timeseries(
            "Queued workloads",
            "Workloads that wait for room in each pool. A parent's include its children's.",
            "short",
            Query(with_pool(_workloads("provider, pool_id", "queued")), NAME),
        ),
    ]


def _workloads(by: str, status: str, how: str = "=~") -> str:
    series = f'trainfleet_pool_workloads{{{SOME}, status{how}"{status}"}}'
    each = once("provider, pool_id, workload_type, status, platform_status", series)
    some = " > 0" if "workload_type" in by else ""
    return f"sum by ({by}) ({each}){some}"


def _nodes() -> list[Panel]:
    by = "provider, pool_id, node_name"
    capacity, allocated = (
        f"sum by ({by}) ({once(f'{by}, accelerator', f'trainfleet_node_{what}_accelerators{{{SOME}}}')})"
        for what in ("capacity", "allocated")
    )
    status = info(by, "status", f"trainfleet_node_status{{{SOME}}}")
    return [
        row("Nodes"),
        timeseries(
            "Nodes by condition",
            "Nodes of ModelArts pools; conditions that none is in are left out. Available ones are healthy, not free.",
            "short",
            Query(
                with_pool(f"{once(f'{BY}, status', f'trainfleet_pool_nodes{{{SOME}}}')} > 0"),
                NAME + " · {{status}}",
            ),
            width=8,
        ),
        timeseries(
            "Empty nodes",
            "Nodes of PAI quotas on which nothing is placed.",
            "short",
            Query(with_pool(of_pool("empty_nodes")), NAME),
            width=8,
        ),
        timeseries(
            "Power",
            "What the accelerators of each pool draw, where the cloud tells.",
            "watt",
            Query(with_pool(of_pool("accelerator_power_watts")), NAME),
            width=8,
        ),
        table(
            "Nodes",
            "Accelerators of each node that are free, and its status. Needs the collector `nodes`, off as shipped.",
            {
                "provider": Column("Provider"),
                "pool_name": Column("Pool"),
                "node_name": Column("Node"),
                "status": Column("Status"),
            },
            [
                Column(
                    "Free accelerators",
                    f"({with_pool(f'{capacity} - {allocated}')})\n* on ({by}) group_left (status)\n{status}",
                    "short",
                ),
                Column("Accelerators", capacity, "short"),
                Column("Allocated", f"{allocated}\n/ ({capacity} > 0)", "percentunit", ROOM_TO_FULL, gauge=True),
            ],
            sort="Free accelerators",
        ),
    ]


QUEUE = _queue()
NODES = _nodes()
