"""Records of queues, pools and finished jobs."""

from __future__ import annotations

from deploy.generator.rules_model import JOB, JOB_OWNERS, Group, Record, info

_PLACE = "provider, pool_id, accelerator"
_KIND = f"{_PLACE}, accelerator_model"
_TOP = "pool:trainfleet_pool_top_level:info"
_CAPACITY = "Accelerators of a pool, or of all pools of a provider."
_ALLOCATED = "Accelerators of pools that workloads hold."
_QUEUED = "Accelerators that queued workloads of pools request."
_FREE = "Free accelerators of pools."
_FRAGMENTED = (
    "Free accelerators on partly used nodes, which jobs that need whole nodes cannot use. Exact with the "
    "collector `nodes`. Without it, an estimate from the number of empty nodes. Absent if neither is known."
)
_OWNER = info(JOB, JOB_OWNERS, "trainfleet_job_info", bridged=False)


def _pool(what: str, labels: str, meaning: str) -> Record:
    """Return a record of accelerators of pools, which counts them once if two exporters poll the provider."""
    return Record(
        f"pool:trainfleet_{what}_accelerators:sum",
        f"max by ({labels}) (trainfleet_pool_{what}_accelerators)",
        meaning,
    )


def _provider(name: str, labels: str, meaning: str) -> Record:
    kept = labels.replace("pool_id, ", "")
    return Record(
        f"provider:{name}",
        f"sum by ({kept}) (\n  pool:{name} and on (provider, pool_id) {_TOP}\n)",
        meaning,
    )


QUEUES = Group(
    "trainfleet-queues",
    (
        Record(
            "job:trainfleet_queue_age:seconds",
            f"""\
(
  (
    max by (provider, job_id) (trainfleet_job_phase_seconds{{phase="queued"}})
    or
    time() - (
      max by (provider, job_id) (trainfleet_job_submitted_timestamp_seconds)
      or
      max by (provider, job_id) (trainfleet_job_created_timestamp_seconds)
    )
  )
  and on (provider, job_id)
  max by (provider, job_id) (trainfleet_job_status{{status="queued"}}) == 1
)
* on (provider, job_id) group_left ({JOB_OWNERS})
{_OWNER}""",
            "Time that a queued job has waited for capacity so far. Without its phases, the time since it was "
            "submitted, or created if the cloud does not report when it was submitted.",
        ),
        Record(
            "pool:trainfleet_queue_age:max",
            "max by (provider, pool_id) (job:trainfleet_queue_age:seconds)",
            'Longest wait of the queued jobs of a pool; `pool_id=""` means public resources. Absent if none is queued.',
        ),
    ),
)

POOLS = Group(
    "trainfleet-pools",
    (
        Record(
            _TOP,
            """\
max by (provider, pool_id) (trainfleet_pool_info{parent_pool_id=""})
or
max by (provider, pool_id) (
  trainfleet_pool_info{parent_pool_id!=""}
  unless on (provider, parent_pool_id)
  label_replace(max by (provider, pool_id) (trainfleet_pool_info), "parent_pool_id", "$1", "pool_id", "(.+)")
)""",
            "1 for each pool without a parent pool, or with a parent pool that is not shown. Sums over these pools "
            "count nothing twice.",
        ),
        _pool("capacity", _KIND, _CAPACITY),
        _pool("allocated", _KIND, _ALLOCATED),
        _pool("queued", _PLACE, _QUEUED),
        Record(
            "pool:trainfleet_accelerators_free:sum",
            "clamp_min(pool:trainfleet_capacity_accelerators:sum - pool:trainfleet_allocated_accelerators:sum, 0)",
            _FREE,
        ),
        Record(
            "pool:trainfleet_accelerators_fragmented:sum",
            f"""\
sum by ({_PLACE}) (
  (
    max by (provider, pool_id, node_name, accelerator) (trainfleet_node_capacity_accelerators)
    - max by (provider, pool_id, node_name, accelerator) (trainfleet_node_allocated_accelerators)
  )
  * (max by (provider, pool_id, node_name, accelerator) (trainfleet_node_allocated_accelerators) > bool 0)
)
or
clamp_min(
  sum by ({_PLACE}) (pool:trainfleet_accelerators_free:sum)
  - sum by ({_PLACE}) (pool:trainfleet_capacity_accelerators:sum)
  * on (provider, pool_id) group_left ()
  (
    max by (provider, pool_id) (trainfleet_pool_empty_nodes)
    / (
      max by (provider, pool_id) (trainfleet_pool_empty_nodes)
      + max by (provider, pool_id) (trainfleet_pool_allocated_nodes)
      > 0
    )
  ),
  0
)""",
            _FRAGMENTED,
        ),
        Record(
            "pool:trainfleet_accelerators_fragmentation:ratio",
            # Uses the free accelerators of the nodes if known, because values of pools are newer than those of nodes.
            f"""\
pool:trainfleet_accelerators_fragmented:sum
/ (
  (
    sum by ({_PLACE}) (
      max by (provider, pool_id, node_name, accelerator) (trainfleet_node_capacity_accelerators)
      - max by (provider, pool_id, node_name, accelerator) (trainfleet_node_allocated_accelerators)
    )
    or
    sum by ({_PLACE}) (pool:trainfleet_accelerators_free:sum)
  ) > 0
)""",
            "Share of a pool's free accelerators that is fragmented. Absent if no accelerator is free.",
        ),
        Record(
            "pool:trainfleet_node_accelerators_free:max",
            f"""\
max by ({_PLACE}) (
  max by (provider, pool_id, node_name, accelerator) (trainfleet_node_capacity_accelerators)
  - max by (provider, pool_id, node_name, accelerator) (trainfleet_node_allocated_accelerators)
)""",
            "Largest number of free accelerators on one node of a pool: the largest pod that fits. Needs the collector "
            "`nodes`.",
        ),
        _provider("trainfleet_capacity_accelerators:sum", _KIND, _CAPACITY),
        _provider("trainfleet_allocated_accelerators:sum", _KIND, _ALLOCATED),
        _provider("trainfleet_queued_accelerators:sum", _PLACE, _QUEUED),
        _provider("trainfleet_accelerators_free:sum", _KIND, _FREE),
        _provider("trainfleet_accelerators_fragmented:sum", _PLACE, _FRAGMENTED),
    ),
)

ENDINGS = Group(
    "trainfleet-endings",
    (
        Record(
            "workspace:trainfleet_jobs_finished:increase1h",
            "max by (provider, workspace_id, status) (increase(trainfleet_jobs_finished_total[1h]))",
            "Jobs that finished within the last hour, by status.",
        ),
        Record(
            "workspace:trainfleet_jobs_failed:ratio1h",
            """\
max by (provider, workspace_id) (workspace:trainfleet_jobs_finished:increase1h{status="failed"})
/ (sum by (provider, workspace_id) (workspace:trainfleet_jobs_finished:increase1h{status=~"failed|succeeded"}) > 0)""",
            "Share of failed jobs among the jobs that finished within the last hour. Stopped jobs do not count. Absent "
            "if no job failed or succeeded.",
        ),
    ),
)
