"""Pools and queue: how full the pools are, who waits how long, and on which nodes there is room."""

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
    row,
    stat,
    timeseries,
)
from deploy.generator.dashboards.pools_queue import BY, NAME, NODES, QUEUE, SOME, amount, of_pool
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
            "PAI's quotas, ModelArts' resource pools. A parent's figures include its children's.",
            regex=named("pool_name", "pool_id"),
        ),
    ]


def _now() -> list[Panel]:
    allocated, capacity = _top("allocated_accelerators").expr, _top("capacity_accelerators").expr
    return [
        row("Now, over the chosen providers"),
        stat(
            "Capacity",
            "Accelerators of all pools; nested pools are counted once.",
            "short",
            _top("capacity_accelerators"),
        ),
        stat(
            "Allocated",
            "Share of the pools' accelerators that placed workloads hold.",
            "percentunit",
            Query(f"{allocated}\n/ {capacity}", "allocated"),
            scale=ROOM_TO_FULL,
        ),
        stat("Free", "Accelerators that nothing is placed on.", "short", _top("accelerators_free")),
        stat(
            "Free in fragments",
            "Free accelerators on nodes that something is placed on: no job that needs whole nodes can have them.",
            "short",
            _top("accelerators_fragmented"),
            scale=Scale("text", ((8, "yellow"),)),
        ),
        stat(
            "Queued",
            "Accelerators that queued workloads ask for.",
            "short",
            _top("queued_accelerators"),
            scale=Scale("text", ((1, "yellow"),)),
        ),
        stat(
            "Abnormal nodes",
            "Nodes of ModelArts pools that are abnormal; nested pools are counted once.",
            "short",
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
            "Each pool now. A parent's figures include its children's. An empty cell is what the cloud does not tell.",
            {
                "provider": Column("Provider"),
                "pool_name": Column("Pool"),
                "resource_type": Column("Type"),
                "status": Column("Status"),
            },
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
        timeseries(
            "Allocated accelerators, share",
            "Of the capacity of each pool, by placed workloads.",
            "percentunit",
            Query(with_pool(_ALLOCATION), NAME),
            limits=(0, 1),
            scale=Scale("text", ((0.95, "red"),)),
        ),
        timeseries(
            "Free accelerators",
            "Accelerators of each pool that nothing is placed on.",
            "short",
            Query(with_pool(amount("accelerators_free")), NAME),
        ),
        timeseries(
            "Utilization",
            "Of each pool's accelerators, as the cloud measures it over the pool.",
            "percentunit",
            Query(with_pool(once(f"{BY}, accelerator", _usage())), NAME + " · {{accelerator}}"),
            limits=(0, 1),
        ),
        timeseries(
            "Free in fragments",
            "Free accelerators of each pool on nodes that something is placed on: no job that needs whole nodes can "
            "have them.",
            "short",
            Query(with_pool(amount("accelerators_fragmented")), NAME),
        ),
        timeseries(
            "Allocated CPU cores, share",
            "Of the capacity of each pool.",
            "percentunit",
            Query(with_pool(f"{of_pool('allocated_cpu_cores')}\n/ ({of_pool('capacity_cpu_cores')} > 0)"), NAME),
            limits=(0, 1),
            width=6,
        ),
        timeseries(
            "Allocated memory, share",
            "Of the capacity of each pool.",
            "percentunit",
            Query(with_pool(f"{of_pool('allocated_memory_bytes')}\n/ ({of_pool('capacity_memory_bytes')} > 0)"), NAME),
            limits=(0, 1),
            width=6,
        ),
        timeseries(
            "Disks",
            "Use of the disks of each pool's nodes, as a share of what they hold; ModelArts.",
            "percentunit",
            Query(with_pool(of_pool("disk_utilization_ratio")), NAME),
            limits=(0, 1),
            scale=Scale("text", ((0.9, "red"),)),
            width=6,
        ),
        timeseries(
            "Job quota used",
            "Training jobs of each provider's project, as a share of those that it may have; ModelArts.",
            "percentunit",
            Query(
                f"{once('provider', f'trainfleet_provider_job_quota_used{{{P}}}')}\n"
                f"/ ({once('provider', f'trainfleet_provider_job_quota{{{P}}}')} > 0)",
                "{{provider}}",
            ),
            limits=(0, 1),
            scale=Scale("text", ((0.9, "red"),)),
            width=6,
        ),
    ]


def _usage() -> str:
    return f"trainfleet_pool_accelerator_utilization_ratio{{{SOME}}}"


def build() -> str:
    """The dashboard's JSON."""
    return dashboard(
        UID,
        "Trainfleet / Pools and queue",
        "How full the pools are, who waits how long for what, and on which nodes there is room.",
        _variables(),
        [*_now(), *_pools(), *QUEUE, *NODES],
    )
