"""The operations of Huawei ModelArts."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults.columns import COLUMNS, KEPT, LESS, OTHER, SAME
from tests.faults.judges import another_source, unknown_states, without_nodes
from tests.faults.row import Row, Unlike
from tests.faults.row_parts import GONE, LEFT_ALONE, LOCKED, NUMBERS, PLAIN_TEXT, POOL_USAGE, USAGE, short_lived
from trainfleet_simulator.modelarts.agency import AGENCY_URN, PROVIDER_URN
from trainfleet_simulator.modelarts.agency import OIDC_TOKEN as HUAWEI_TOKEN
from trainfleet_simulator.modelarts.catalog import DOMAIN_NAME, PASSWORD, TEAM_WORKSPACE, USER_NAME

_MODELARTS_POOLS = {"api": "modelarts", "operation": "ListPools"}
_EMPTY_HISTORY = "an empty response means that the pod has no history yet, for example because it has not started"
_COUNTS_0 = "the API's documentation says that a missing type of workload counts 0"
_OTHER_TYPE = "a workload with another type has another series"
_PLACED = "the poll of jobs after that of nodes shows where tasks run"
_NO_CARDS = "devices have no names there, only an order"
_LOOKED_UP = (
    "states are numbers there; the exporter looks up a job with an unknown state, and finds that the job has ended"
)
_STRETCHED = "if many calls hang or wait, a round over all jobs takes longer, and the last good values stay longer"
_HOLD_UP = ("hang", "drip", "throttled", "throttled hint", "oversized", "gzip bomb")
_HUNG = dict.fromkeys(("hang", "drip"), Unlike(KEPT, _STRETCHED))
_V1_SURELY = {"ListTrainingJobsV1": ("jobs",), "ShowPodMetricStatistic": ("device_*", "job_usage_*", "pod_*_ratio")}
"""The list keeps its jobs in sight while it fails; jobs that only wait are not asked what they use."""
_V1: Mapping[str, Mapping[str, Unlike]] = {
    "ListTrainingJobsV1": dict.fromkeys(("unknown words", *NUMBERS), Unlike(OTHER, _LOOKED_UP, ("while it lasts",))),
    "ListTrainingJobVersions": {
        **_HUNG,
        **GONE,
        **dict.fromkeys(NUMBERS, Unlike(OTHER, "states are numbers there")),
        "endless pages": Unlike(LESS, "the listed version is not in the response"),
    },
    "ListLogFileNames": {**_HUNG, **GONE},
    "ShowPodMetricStatistic": {
        **_HUNG,
        "throttled hint": Unlike(KEPT, _STRETCHED, ("kept for ever",)),
        "not found": Unlike(LESS, "a pod that is not found has no values, and the log says so"),
        "no content": Unlike(LESS, _EMPTY_HISTORY, ("calls",)),
        "empty": Unlike(LESS, _EMPTY_HISTORY, ("calls",)),
        "duplicate rows": Unlike(OTHER, _NO_CARDS, ("while it lasts",)),
    },
}
_REFUSALS = ("denied", "not found")
"""Those by which a source of usage is closed, so that another one takes over."""
_MODELARTS_WORKSPACE = {"workspace_id": TEAM_WORKSPACE}
MODELARTS = (
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListWorkspaces",
        collectors=("jobs", "job_counts", "pools"),
        fails=("workspaces",),
        loses=("workspace_info",),
        second_page={"offset": "1"},
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListTrainingJobs",
        collectors=("jobs", "job_counts", "usage", "pools"),
        fails=("jobs", "job_counts", "usage", "task_metrics"),
        loses=("job_*", "jobs", "jobs_finished_total", "pod_*", "device_*"),
        second_page={"offset": "1"},
        recovery={"unknown words": 4},
        slow="a job changes its source only after AOM and task metrics have both responded",
        one_workspace=_MODELARTS_WORKSPACE,
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListTrainingJobs",
        under="nodes of tasks",
        query={"by": "nodes"},
        collectors=("jobs", "pools", "nodes"),
        fails=("nodes",),
        loses=("pod_info",),
        some=(),  # tasks on public pools have no nodes
        recovers=2,
        recovers_from_refusal=2,
        slow=_PLACED,
        judges=dict.fromkeys([column.name for column in COLUMNS], without_nodes),
        one_workspace=_MODELARTS_WORKSPACE,
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ShowTrainingJobMetrics",
        collectors=("jobs", "usage:source: task_metrics, max_jobs: 4", "pools"),
        fails=("task_metrics",),
        loses=USAGE,
        unlike={
            "no content": Unlike(LESS, _EMPTY_HISTORY, ("calls",)),
            "empty": Unlike(LESS, _EMPTY_HISTORY, ("calls",)),
            **GONE,
        },
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ShowTrainingQuotas",
        collectors=("jobs", "job_counts", "pools"),
        fails=("job_counts",),
        loses=("provider_job_quota*",),
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListPools",
        collectors=("jobs", "pools", "pool_workloads", "pool_usage", "nodes"),
        fails=("pools",),
        loses=("pool_info", "pool_status", "pool_nodes"),
        recovers=2,
        slow=_PLACED,
        one_workspace={"workspaceId": TEAM_WORKSPACE},
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ShowPoolRuntimeMetrics",
        collectors=("jobs", "pools"),
        fails=("pools",),
        loses=("pool_capacity_*", "pool_allocated_*"),
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ShowWorkloadStatistics",
        collectors=("jobs", "pools", "pool_workloads"),
        fails=("pool_workloads",),
        loses=("pool_workloads", "pool_queued_accelerators", "job_queue_position"),
        unlike={**GONE, "half list": Unlike(OTHER, _COUNTS_0, ("while it lasts",))},
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListWorkloads",
        collectors=("jobs", "pools", "pool_workloads", "pool_users"),
        fails=("pool_workloads", "pool_users"),
        loses=("pool_queued_accelerators", "job_queue_position", "pool_user_accelerators"),
        some=("job_queue_position",),
        unlike={**GONE, "hostile strings": Unlike(OTHER, _OTHER_TYPE, ("while it lasts",))},
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ShowPoolMonitor",
        collectors=("jobs", "pools", "pool_usage"),
        fails=("pool_usage",),
        loses=POOL_USAGE,
        unlike=GONE,
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListPoolNodes",
        collectors=("jobs", "pools", "nodes"),
        fails=("nodes",),
        loses=("node_*",),
        recovers=2,
        slow=_PLACED,
        unlike=GONE,
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListScheduledEvents",
        collectors=("maintenance",),
        fails=("maintenance",),
        loses=("node_maintenance_*",),
        one_workspace={"workspaceId": TEAM_WORKSPACE},
    ),
    *(
        Row(
            cloud="modelarts",
            api="modelarts",
            operation=operation,
            collectors=("pools", "jobs_v1"),
            fails=("jobs_v1",),
            loses=("jobs", "job_*", "pod_*", "device_*"),
            some=_V1_SURELY.get(operation, ("job_*", "pod_*", "device_*")),
            recovers=2,
            recovers_from_refusal=2,
            recovery=dict.fromkeys(_HOLD_UP, 4),
            slow="the current round over all jobs finishes first, and takes longer if calls hang or wait",
            judges=dict.fromkeys(NUMBERS, unknown_states),
            unlike=_V1[operation],
        )
        for operation in ("ListTrainingJobsV1", "ListTrainingJobVersions", "ListLogFileNames", "ShowPodMetricStatistic")
    ),
    Row(
        cloud="modelarts",
        api="aom",
        operation="ListInstantQueryAomPromPost",
        collectors=("jobs", "usage:source: aom", "pools"),
        fails=("usage",),
        loses=USAGE,
    ),
    Row(
        cloud="modelarts",
        api="aom",
        operation="ListInstantQueryAomPromPost",
        under="source: auto",
        only=_REFUSALS,
        collectors=("jobs", "usage:source: auto", "pools"),
        fails=("usage",),
        loses=USAGE,
        some=("job_*_per_second", "pod_*_per_second"),  # task metrics have no rates
        judges=dict.fromkeys(_REFUSALS, another_source),
    ),
    Row(
        cloud="modelarts",
        api="aom",
        operation="ListLabelValuesAomPromGet",
        collectors=("jobs", "usage:source: aom", "pools"),
        fails=("usage",),
        loses=USAGE,
        cold=True,
        unlike=dict.fromkeys(
            ("redirect", "not found", "quoted", "quoted at length"),
            Unlike(SAME, "without names, the exporter queries all known metrics"),
        ),
    ),
    Row(
        cloud="modelarts",
        api="iam",
        operation="KeystoneCreateUserTokenByPassword",
        collectors=("pools",),
        credentials={"username": USER_NAME, "password": PASSWORD, "domain_name": DOMAIN_NAME},
        prepare=short_lived,
        used_by=_MODELARTS_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=LOCKED,
        slow=LEFT_ALONE,
    ),
    Row(
        cloud="modelarts",
        api="iam",
        operation="KeystoneListProjects",
        collectors=("pools",),
        more={"project_id": None},
        recovers=LOCKED,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*", "provider_info"),
        cold=True,
        recovers_from_refusal=LOCKED,
        slow=LEFT_ALONE,
    ),
    Row(
        cloud="modelarts",
        api="sts",
        operation="AssumeAgencyWithOIDC",
        collectors=("pools",),
        credentials={"oidc": {"provider_urn": PROVIDER_URN, "agency_urn": AGENCY_URN, "token": HUAWEI_TOKEN}},
        prepare=short_lived,
        used_by=_MODELARTS_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=LOCKED,
        slow=LEFT_ALONE,
    ),
    *(
        Row(
            cloud="modelarts",
            api="metadata",
            operation=operation,
            collectors=("pools",),
            credentials={"ecs_agency": True},
            prepare=short_lived,
            used_by=_MODELARTS_POOLS,
            told_by=("GetSecurityKey",),
            unlike=PLAIN_TEXT if operation == "GetMetadataToken" else {},
            fails=("workspaces", "pools"),
            loses=("workspace_info", "pool_*"),
            recovers_from_refusal=LOCKED,
            slow=LEFT_ALONE,
        )
        for operation in ("GetMetadataToken", "GetSecurityKey")
    ),
)
