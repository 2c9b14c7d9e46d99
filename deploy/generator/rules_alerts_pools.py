"""Alerts about pools and about a provider's quota of jobs."""

from __future__ import annotations

from functools import partial
from textwrap import indent

from deploy.generator.rules_model import Alert, Group

_PLACE = "provider, pool_id, accelerator"
_POOL = "{{ or $labels.pool_name $labels.pool_id }} of {{ $labels.provider }}"

_ABNORMAL_NODES = (
    "{{ with printf `topk(10, max by (node_name) "
    '(trainfleet_node_status{provider=%q, pool_id=%q, status="abnormal"}))` '
    "$labels.provider $labels.pool_id | query }} Nodes:{{ range . }} {{ .Labels.node_name }}{{ end }}.{{ end }}"
)
"""The names of up to ten abnormal nodes, if the collector `nodes` reports nodes."""
_NEXT_LEASES = (
    "{{ with printf `sort(bottomk(10, min by (node_name) "
    "(trainfleet_node_expiry_timestamp_seconds{provider=%q, pool_id=%q}) < time() + <lease_seconds>))` "
    "$labels.provider $labels.pool_id | query }} Nodes:{{ range . }} {{ .Labels.node_name }} "
    "({{ (.Value | toTime).Format `2006-01-02 15:04` }} UTC){{ end }}.{{ end }}"
)
"""Up to ten nodes whose leases end first, and when they end."""
_JOBS_THERE = (
    "{{ with printf `topk(10, max by (job_id, job_name) (trainfleet_job_info{provider=%q} "
    "and on (provider, job_id) trainfleet_pod_info{provider=%q, node_name=%q}))` "
    "$labels.provider $labels.provider $labels.node_name | query }} "
    "Jobs on it:{{ range . }} {{ .Labels.job_name }} ({{ .Labels.job_id }}){{ end }}.{{ end }}"
)
"""Up to ten jobs that run on a node, if the platform reports the nodes of pods."""
_WORK_AHEAD = """\
bottomk by (provider, node_name) (
  1,
  min by (provider, pool_id, node_name) (
    last_over_time(trainfleet_node_maintenance_timestamp_seconds{pool_id!=""}[<bridge>])
  ) - time()
  < <maintenance_seconds>
)"""
"""Seconds until the next work on each node: one series, even if two pools contain the node."""

_NODE_STATES = """\
max by (provider, pool_id) (last_over_time(trainfleet_pool_nodes{status="abnormal"}[<bridge>]))
or
max by (provider, pool_id) (last_over_time(trainfleet_node_status[<bridge>]))"""
_LEASES = "max by (provider, pool_id) (last_over_time(trainfleet_node_expiry_timestamp_seconds[<bridge>]))"


def _unless_parent_has(nodes: str) -> str:
    """Return an `unless` that drops nested pools whose parent counts their nodes.

    A parent that is a training plan has no nodes, so its children are kept.
    """
    return f"""\
unless on (provider, pool_id)
(
  last_over_time(trainfleet_pool_info{{parent_pool_id!=""}}[<bridge>])
  and on (provider, parent_pool_id)
  label_replace(
{indent(nodes, " " * 4)},
    "parent_pool_id", "$1", "pool_id", "(.+)"
  )
)"""


_of_a_pool = partial(Alert, of="pool")

POOL_ALERTS = Group(
    "trainfleet-pool-alerts",
    (
        _of_a_pool(
            "TrainfleetPoolNodesAbnormal",
            f"""\
(
  max by (provider, pool_id) (last_over_time(trainfleet_pool_nodes{{status="abnormal"}}[<bridge>])) > 0
  or on (provider, pool_id)
  count by (provider, pool_id) (
    max by (provider, pool_id, node_name) (last_over_time(trainfleet_node_status{{status="abnormal"}}[<bridge>])) == 1
    unless on (provider, pool_id, node_name)
    trainfleet_node_status{{status!="abnormal"}} == 1
  )
)
{_unless_parent_has(_NODE_STATES)}""",
            "warning",
            f"The pool {_POOL} has abnormal nodes: {{{{ $value }}}}",
            "They have been abnormal for <nodes_abnormal_for>. Jobs on them may hang or be lost, and the pool has less "
            f"capacity than it shows. Nodes of nested pools count for the parent pool.{_ABNORMAL_NODES}",
            "<nodes_abnormal_for>",
        ),
        _of_a_pool(
            "TrainfleetNodeMaintenanceAhead",
            _WORK_AHEAD,
            "warning",
            f"Maintenance of the node {{{{ $labels.node_name }}}} in the pool {_POOL} is announced",
            "{{ if gt $value 0.0 }}It begins in {{ $value | humanizeDuration }}.{{ else }}It has begun.{{ end }}"
            + _JOBS_THERE,
        ),
        _of_a_pool(
            "TrainfleetNodeLeaseEnding",
            f"""\
count by (provider, pool_id) (
  max by (provider, pool_id, node_name) (last_over_time(trainfleet_node_expiry_timestamp_seconds[<bridge>])) - time()
  < <lease_seconds>
)
{_unless_parent_has(_LEASES)}""",
            "warning",
            f"Leases of nodes of the pool {_POOL} end soon: {{{{ $value }}}}",
            "Without a renewal, the cloud takes the nodes back and jobs on them are lost. Nodes of nested pools count "
            f"for the parent pool.{_NEXT_LEASES}",
        ),
        _of_a_pool(
            "TrainfleetPoolSaturated",
            f"""\
sum by ({_PLACE}) (last_over_time(pool:trainfleet_allocated_accelerators:sum[<bridge>]))
/ sum by ({_PLACE}) (last_over_time(pool:trainfleet_capacity_accelerators:sum[<bridge>]))
>= <saturated_ratio>
and on ({_PLACE})
last_over_time(pool:trainfleet_queued_accelerators:sum[<bridge>]) > 0""",
            "warning",
            f"The pool {_POOL} is full and has a queue",
            "{{ $value | humanizePercentage }} of its {{ $labels.accelerator }} accelerators are allocated. Workloads "
            "have waited for free ones for <saturated_for>.",
            "<saturated_for>",
            flaps=True,
        ),
        Alert(
            "TrainfleetJobQuotaNearlyUsed",
            """\
max by (provider) (last_over_time(trainfleet_provider_job_quota_used[<bridge>]))
/ (max by (provider) (last_over_time(trainfleet_provider_job_quota[<bridge>])) > 0)
>= <job_quota_ratio>""",
            "warning",
            "{{ $labels.provider }} uses {{ $value | humanizePercentage }} of its quota of training jobs",
            "It has used this much for <job_quota_for>. At 100 % the cloud rejects every new job, even if pools have "
            "free accelerators.",
            "<job_quota_for>",
        ),
    ),
)
