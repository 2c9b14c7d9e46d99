"""Lower half of the pool dashboard: queued jobs and workloads, and nodes with free accelerators."""

from __future__ import annotations

from deploy.generator.dashboards.panels import ROOM_TO_FULL, Panel, Query, Scale, counts, row, timeseries
from deploy.generator.dashboards.promql import ON_JOB, P, info, job_info, of_job, once, with_pool
from deploy.generator.dashboards.tables import Column, table

SOME = f'{P}, pool_id=~"$pool"'
"""Matchers for the chosen pools."""
NAME = "{{provider}} · {{pool_name}}"
BY = "provider, pool_id"


def amount(record: str) -> str:
    """Return the query for a record of accelerators of pools, summed over models."""
    return f"sum by ({BY}) (pool:trainfleet_{record}:sum{{{SOME}}})"


def of_pool(family: str) -> str:
    """Return the query for a family of pools without further labels."""
    return once(BY, f"trainfleet_pool_{family}{{{SOME}}}")


def _queue() -> list[Panel]:
    age = f"max by (provider, job_id, pool_id) (job:trainfleet_queue_age:seconds{{{SOME}}})"
    whose = "job_name, user_name"
    requested = once(
        "provider, job_id, accelerator, accelerator_model", f"trainfleet_job_requested_accelerators{{{P}}}"
    )
    return [
        row("Queue"),
        counts(
            "Queued accelerators",
            "Accelerators that queued workloads of each pool request. The values of a parent include its nested pools.",
            Query(with_pool(amount("queued_accelerators")), NAME),
        ),
        timeseries(
            "Longest wait",
            "Time that the oldest queued job of each pool has waited. A gap means that no job is queued.",
            "s",
            Query(with_pool(f"max by ({BY}) (pool:trainfleet_queue_age:max{{{SOME}}})"), NAME),
            scale=Scale("text", ((3600, "red"),)),
        ),
        table(
            "Queued jobs",
            "Queued jobs with their position (1 is next) and the accelerators that they request.",
            "provider job_name job_id user_name pool_name",
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
        counts(
            "Workloads by type",
            "Workloads that are neither queued nor finished, including those that are not training jobs. The values of "
            "a parent include its nested pools.",
            Query(
                with_pool(_workloads("provider, pool_id, workload_type", "queued|succeeded|failed|stopped", "!~")),
                NAME + " · {{workload_type}}",
            ),
        ),
        counts(
            "Queued workloads",
            "Workloads that wait in each pool. The values of a parent include its nested pools.",
            Query(with_pool(_workloads("provider, pool_id", "queued")), NAME),
        ),
    ]


def _workloads(by: str, status: str, how: str = "=~") -> str:
    series = f'trainfleet_pool_workloads{{{SOME}, status{how}"{status}"}}'
    each = once("provider, pool_id, workload_type, status, platform_status", series)
    some = " > 0" if "workload_type" in by else ""
    return f"sum by ({by}) ({each}){some}"


def _users() -> list[Panel]:
    by = "provider, pool_id, user_id, user_name, workload_type"
    held = once(f"{by}, accelerator", f"trainfleet_pool_user_accelerators{{{SOME}}}")
    return [
        row("Users"),
        table(
            "Who holds the pools",
            "Accelerators that users hold in each pool, without its nested pools. Needs the collector `pool_users`, "
            "which is off by default.",
            "provider pool_name user_name user_id workload_type",
            [Column("Accelerators", with_pool(f"sum by ({by}) ({held})"), "short")],
            sort="Accelerators",
        ),
    ]


def _nodes() -> list[Panel]:
    by = "provider, pool_id, node_name"
    capacity, allocated = (
        f"sum by ({by}) ({once(f'{by}, accelerator', f'trainfleet_node_{what}_accelerators{{{SOME}}}')})"
        for what in ("capacity", "allocated")
    )
    status = info(by, "status", f"trainfleet_node_status{{{SOME}}}")
    return [
        row("Nodes"),
        counts(
            "Nodes by condition",
            "Nodes of ModelArts pools. Available nodes are healthy, but may be in use.",
            Query(
                with_pool(f"{once(f'{BY}, status', f'trainfleet_pool_nodes{{{SOME}}}')} > 0"),
                NAME + " · {{status}}",
            ),
            width=8,
        ),
        counts(
            "Empty nodes",
            "Nodes of PAI quotas without workloads.",
            Query(with_pool(of_pool("empty_nodes")), NAME),
            width=8,
        ),
        timeseries(
            "Power",
            "Power that the accelerators of each pool draw, if the cloud reports it.",
            "watt",
            Query(with_pool(of_pool("accelerator_power_watts")), NAME),
            width=8,
        ),
        table(
            "Nodes",
            "Free accelerators and status of each node. Needs the collector `nodes`, which is off by default.",
            "provider pool_name node_name status",
            [
                Column(
                    "Free accelerators",
                    f"({with_pool(f'{capacity} - {allocated}')})\n* on ({by}) group_left (status)\n{status}",
                    "short",
                ),
                Column("Accelerators", capacity, "short"),
                Column("Allocated", f"{allocated}\n/ ({capacity} > 0)", "percentunit", ROOM_TO_FULL, gauge=True),
                Column(
                    "Lease ends in", f"{once(by, f'trainfleet_node_expiry_timestamp_seconds{{{SOME}}}')} - time()", "s"
                ),
            ],
            sort="Free accelerators",
        ),
        table(
            "Announced maintenance of nodes",
            "Work that ModelArts has announced. Needs the collector `maintenance`, which is off by default.",
            "provider pool_name node_name kind state",
            [
                Column(
                    "Begins in",
                    with_pool(
                        f"({once(f'{by}, kind, state', f'trainfleet_node_maintenance_timestamp_seconds{{{SOME}}}')}\n"
                        "- time())"
                    ),
                    "s",
                )
            ],
            sort="Begins in",
        ),
    ]


QUEUE = _queue()
USERS = _users()
NODES = _nodes()
