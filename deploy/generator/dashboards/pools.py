"""The dashboard "Pools and queue": use of pools, queued jobs, and nodes with free accelerators."""

from __future__ import annotations

from deploy.generator.dashboards.dashboard import dashboard
from deploy.generator.dashboards.panels import (
    BAD_ABOVE_ZERO,
    IDLE_TO_BUSY,
    ROOM_TO_FULL,
    Json,
    Panel,
    Query,
    Scale,
    counts,
    number,
    row,
    share,
    stat,
)
from deploy.generator.dashboards.pools_queue import BY, NAME, NODES, QUEUE, SOME, USERS, amount, of_pool
from deploy.generator.dashboards.promql import ON_POOL, P, info, once, with_pool
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import PROVIDER, choice, datasource, named

UID = "trainfleet-pools"


def _top(record: str) -> Query:
    return Query(f"sum(provider:trainfleet_{record}:sum{{{P}}})", record.rsplit("_", maxsplit=1)[-1])


_ABNORMAL = f'trainfleet_pool_nodes{{{P}, status="abnormal"}}'
_TOP_LEVEL = f"pool:trainfleet_pool_top_level:info{{{P}}}"
_CAPACITY, _ALLOCATED = amount("capacity_accelerators"), amount("allocated_accelerators")
_ALLOCATION = f"{_ALLOCATED}\n/ ({_CAPACITY} > 0)"


def _variables() -> list[Json]:
    return [
        datasource(),
        PROVIDER,
        choice(
            "pool",
            "Pool",
            f"query_result(max by (pool_id, pool_name) (trainfleet_pool_info{{{P}}}))",
            "Quotas of PAI, and resource pools of ModelArts. The values of a parent include its nested pools.",
            regex=named("pool_name", "pool_id"),
        ),
    ]


def _now() -> list[Panel]:
    allocated, capacity = _top("allocated_accelerators").expr, _top("capacity_accelerators").expr
    return [
        row("Chosen providers now"),
        number(
            "Capacity",
            "Accelerators of all pools. Nested pools count once.",
            _top("capacity_accelerators"),
        ),
        stat(
            "Allocated",
            "Share of the pools' accelerators that workloads hold.",
            "percentunit",
            Query(f"{allocated}\n/ {capacity}", "allocated"),
            scale=ROOM_TO_FULL,
        ),
        stat("Free", "Accelerators that no workload holds.", "short", _top("accelerators_free")),
        number(
            "Free in fragments",
            "Free accelerators on partly used nodes. Jobs that need whole nodes cannot use them.",
            _top("accelerators_fragmented"),
            scale=Scale("text", ((8, "yellow"),)),
        ),
        number(
            "Queued",
            "Accelerators that queued workloads request.",
            _top("queued_accelerators"),
            scale=Scale("text", ((1, "yellow"),)),
        ),
        number(
            "Abnormal nodes",
            "Abnormal nodes of ModelArts pools. Nested pools count once.",
            Query(f"sum({once(BY, _ABNORMAL)} and {ON_POOL} {_TOP_LEVEL})", "abnormal"),
            scale=BAD_ABOVE_ZERO,
        ),
    ]


def _pools() -> list[Panel]:
    status = info(BY, "status", f"trainfleet_pool_status{{{SOME}}}")
    names = info(BY, "pool_name, resource_type", f"trainfleet_pool_info{{{SOME}}}")
    return [
        row("Pools"),
        table(
            "Pools",
            "Each pool now. The values of a parent include its nested pools. An empty cell means "
            "that the cloud reports nothing.",
            "provider pool_name resource_type status",
            [
                Column("", f"{names}\n* {ON_POOL} group_left (status)\n{status}"),
                Column("Capacity", _CAPACITY, "short"),
                Column("Allocated", _ALLOCATION, "percentunit", ROOM_TO_FULL, gauge=True),
                Column("Free", amount("accelerators_free"), "short"),
                Column("Largest fit", f"max by ({BY}) (pool:trainfleet_node_accelerators_free:max{{{SOME}}})", "short"),
                Column("Queued", amount("queued_accelerators"), "short", Scale("text", ((1, "yellow"),))),
                Column(
                    "Longest wait",
                    f'max by ({BY}) (pool:trainfleet_queue_age:max{{{SOME}, pool_id!=""}})',
                    "s",
                    Scale("text", ((1800, "yellow"), (3600, "red"))),
                ),
                Column(
                    "Utilization",
                    f"avg by ({BY}) (trainfleet_pool_accelerator_utilization_ratio{{{SOME}}})",
                    "percentunit",
                    IDLE_TO_BUSY,
                    gauge=True,
                ),
            ],
            sort="Capacity",
        ),
        share(
            "Share of accelerators allocated",
            "Share of the accelerators of each pool that workloads hold.",
            Query(with_pool(_ALLOCATION), NAME),
            scale=Scale("text", ((0.95, "red"),)),
        ),
        counts(
            "Free accelerators",
            "Accelerators of each pool that no workload holds.",
            Query(with_pool(amount("accelerators_free")), NAME),
        ),
        share(
            "Utilization",
            "Utilization of the accelerators of each pool, as the cloud measures it.",
            Query(with_pool(once(f"{BY}, accelerator", _usage())), NAME + " · {{accelerator}}"),
        ),
        counts(
            "Free in fragments",
            "Free accelerators of each pool on partly used nodes. Jobs that need whole nodes cannot use them.",
            Query(with_pool(amount("accelerators_fragmented")), NAME),
        ),
        share(
            "Share of CPU cores allocated",
            "Share of the capacity of each pool that workloads hold.",
            Query(with_pool(f"{of_pool('allocated_cpu_cores')}\n/ ({of_pool('capacity_cpu_cores')} > 0)"), NAME),
            width=6,
        ),
        share(
            "Share of memory allocated",
            "Share of the capacity of each pool that workloads hold.",
            Query(with_pool(f"{of_pool('allocated_memory_bytes')}\n/ ({of_pool('capacity_memory_bytes')} > 0)"), NAME),
            width=6,
        ),
        share(
            "Disks",
            "Share of the disk space of each pool's nodes that is used. ModelArts only.",
            Query(with_pool(of_pool("disk_utilization_ratio")), NAME),
            scale=Scale("text", ((0.9, "red"),)),
            width=6,
        ),
        share(
            "Job quota used",
            "Training jobs of each provider's project as a share of its quota. ModelArts only.",
            Query(
                f"{once('provider', f'trainfleet_provider_job_quota_used{{{P}}}')}\n"
                f"/ ({once('provider', f'trainfleet_provider_job_quota{{{P}}}')} > 0)",
                "{{provider}}",
            ),
            scale=Scale("text", ((0.9, "red"),)),
            width=6,
        ),
    ]


def _usage() -> str:
    return f"trainfleet_pool_accelerator_utilization_ratio{{{SOME}}}"


def build() -> str:
    """Return the JSON of the dashboard."""
    return dashboard(
        UID,
        "Trainfleet / Pools and queue",
        "How full pools are, which jobs wait and how long, and which nodes have free accelerators.",
        _variables(),
        [*_now(), *_pools(), *QUEUE, *USERS, *NODES],
    )
