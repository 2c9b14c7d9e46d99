"""The operations of Alibaba PAI."""

from __future__ import annotations

from tests.faults.columns import COLUMNS, LESS, OTHER
from tests.faults.judges import without_models
from tests.faults.row import Row, Unlike
from tests.faults.row_parts import GONE, LEFT_ALONE, LOCKED, PLAIN_TEXT, POOL_USAGE, USAGE, short_lived
from tests.support.accounts import ACCOUNTS
from trainfleet_simulator.pai.sts import OIDC_PROVIDER, OIDC_TOKEN, Sts

_ROLE = Sts.role_arn()
_PAI_WORKSPACE = {"WorkspaceId": "12345"}
_ONE, _TWO = ("12345",), ("12345", "12346")
_PAGE_TWO = {"PageNumber": "2"}
_OF_PODS = ("job_restarts_allowed", "job_requested_pods", "job_replaced_pods", "job_pods", "pod_*")
_POOLS = ("pool_info", "pool_status", "pool_*_nodes", "pool_capacity_*", "pool_allocated_*")
_PAI_POOLS = {"api": "paistudio", "operation": "ListQuotas"}
_NO_CODE = "the exporter drops and counts a reason that is not a code"
_TEXTS = ("hostile strings", "lone surrogates")
PAI = (
    Row(
        api="aiworkspace",
        operation="ListWorkspaces",
        collectors=("job_counts", "pools"),
        fails=("workspaces",),
        loses=("workspace_info",),
        second_page=_PAGE_TWO,
    ),
    Row(
        api="dlc",
        operation="ListJobs",
        workspaces=_TWO,
        collectors=("jobs", "job_counts", "pods", "usage", "pools"),
        fails=("jobs", "job_counts", "pods", "usage", "job_metrics"),
        loses=("job_*", "jobs", "jobs_finished_total", "pod_*", "device_*"),
        unlike=dict.fromkeys(_TEXTS, Unlike(OTHER, _NO_CODE, ("while it lasts",))),
        second_page=_PAGE_TWO,
        one_workspace=_PAI_WORKSPACE,
        finished_jobs={"TimeRangeField": "GmtFinishTime"},
    ),
    Row(
        api="dlc",
        operation="GetJob",
        workspaces=_ONE,
        collectors=("jobs", "pods:max_jobs: 4", "pools"),
        fails=("pods",),
        loses=(*_OF_PODS, "job_phase_seconds"),
        some=_OF_PODS,  # ListJobs has statuses as well
        unlike=GONE,
    ),
    Row(
        api="dlc",
        operation="GetJobMetrics",
        workspaces=_ONE,
        collectors=("jobs", "usage:source: job_metrics, max_jobs: 2", "pools"),
        fails=("job_metrics",),
        loses=USAGE,
        unlike=GONE,
    ),
    Row(
        api="dlc",
        operation="ListEcsSpecs",
        workspaces=_ONE,
        collectors=("jobs", "pools"),
        fails=(),
        loses=("job_requested_*",),
        cold=True,
        copes="jobs on public resources lack the values that only their machine type defines",
        judges={column.name: without_models for column in COLUMNS},
        recovers=11,
        slow="after a failed call, the exporter waits ten minutes before it reads the machine types again",
        recovers_from_refusal=11,
        second_page=_PAGE_TWO,
    ),
    Row(
        api="paistudio",
        operation="ListQuotas",
        collectors=("pools", "pool_workloads", "pool_users", "nodes"),
        fails=("pools",),
        loses=_POOLS,
        second_page=_PAGE_TWO,
    ),
    Row(
        api="paistudio",
        operation="ListQuotaWorkloads",
        workspaces=_ONE,
        collectors=("jobs", "pools", "pool_workloads"),
        fails=("pool_workloads",),
        loses=("pool_workloads", "pool_queued_accelerators", "job_queue_position", "job_pending_reason"),
    ),
    Row(
        api="paistudio",
        operation="ListQuotaActiveUserUsages",
        collectors=("pools", "pool_users"),
        fails=("pool_users",),
        loses=("pool_user_accelerators",),
    ),
    Row(
        api="paistudio",
        operation="ListNodes",
        collectors=("pools", "nodes"),
        fails=("nodes",),
        loses=("node_*",),
        unlike=dict.fromkeys(_TEXTS, Unlike(LESS, _NO_CODE, ("while it lasts",))),
        second_page=_PAGE_TWO,
    ),
    Row(
        api="cloudmonitor",
        operation="DescribeMetricLast",
        workspaces=_ONE,
        collectors=("jobs", "pools", "usage:source: cloudmonitor, profiling: [sm, flops, nvlink]"),
        fails=("usage",),
        loses=(*USAGE, *POOL_USAGE),
    ),
    Row(
        api="cloudmonitor",
        operation="DescribeMetricMetaList",
        workspaces=_ONE,
        collectors=("jobs", "pools", "usage:source: cloudmonitor"),
        fails=("usage",),
        loses=(*USAGE, *POOL_USAGE),
        cold=True,
        second_page=_PAGE_TWO,
        recovery={"one bad row": 11},
        slow="after an invalid row, the exporter reads the catalogue again ten minutes later",
    ),
    Row(
        api="sts",
        operation="AssumeRole",
        collectors=("pools",),
        credentials={**ACCOUNTS["pai"].keys, "role_arn": _ROLE},
        prepare=short_lived,
        used_by=_PAI_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=LOCKED,
        slow=LEFT_ALONE,
    ),
    Row(
        api="sts",
        operation="AssumeRoleWithOIDC",
        collectors=("pools",),
        credentials={"oidc": {"provider_arn": OIDC_PROVIDER, "role_arn": _ROLE, "token": OIDC_TOKEN}},
        prepare=short_lived,
        used_by=_PAI_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=LOCKED,
        slow=LEFT_ALONE,
    ),
    *(
        Row(
            api="metadata",
            operation=operation,
            collectors=("pools",),
            credentials={"ecs_ram_role": True},
            prepare=short_lived,
            used_by=_PAI_POOLS,
            told_by=("ListRamRoles", "GetRamRoleCredentials"),
            unlike=PLAIN_TEXT if operation != "GetRamRoleCredentials" else {},
            fails=("workspaces", "pools"),
            loses=("workspace_info", "pool_*"),
            recovers_from_refusal=LOCKED,
            slow=LEFT_ALONE,
        )
        for operation in ("PutToken", "ListRamRoles", "GetRamRoleCredentials")
    ),
)
