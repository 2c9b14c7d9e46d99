"""The rows of the matrix: every operation that the exporter calls, what polls it, and what depends on its answer."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults.columns import COLUMNS, KEPT, LESS, OTHER, SAME, SHUT, VOID, Column
from tests.faults.judges import another_source, unknown_states, without_models
from tests.faults.row import Row, Unlike
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts.agency import AGENCY_URN, PROVIDER_URN
from trainfleet_simulator.modelarts.agency import OIDC_TOKEN as HUAWEI_TOKEN
from trainfleet_simulator.modelarts.catalog import (
    DOMAIN_NAME,
    PASSWORD,
    SECRET_KEY,
    TEAM_WORKSPACE,
    USER_NAME,
)
from trainfleet_simulator.pai.sts import OIDC_PROVIDER, OIDC_TOKEN, ROLE, Sts
from trainfleet_simulator.sagemaker import identity as aws
from trainfleet_simulator.sagemaker.catalog import ACCESS_KEY_ID as AWS_KEY_ID
from trainfleet_simulator.sagemaker.catalog import SECRET_ACCESS_KEY
from trainfleet_simulator.sagemaker.metadata import CONTAINER_PATH
from trainfleet_simulator.server import ACCESS_KEY_ID, ACCESS_KEY_SECRET
from trainfleet_simulator.world.nouns import PLANTED_SECRETS

SECRETS = {
    "access key secret": ACCESS_KEY_SECRET,
    "secret key": SECRET_KEY,
    "password": PASSWORD,
    "PAI OIDC token": OIDC_TOKEN,
    "Huawei OIDC token": HUAWEI_TOKEN,
    "secret access key": SECRET_ACCESS_KEY,
    "web identity token": aws.WEB_IDENTITY_TOKEN,
    "container token": aws.CONTAINER_TOKEN,
    **{f"in a job's body {number}": text for number, text in enumerate(PLANTED_SECRETS)},
}
"""What opens something, or would; all of it passes through the exporter."""


def _short_lived(simulator: Simulator) -> None:
    """Keys that are renewed for each poll and do not last until the one after the next."""
    simulator.sts.lifetime = 100.0
    simulator.agency.lifetime = 100.0
    simulator.tokens.lifetime = 100.0
    simulator.aws_sts.lifetime = 100.0


_ROLE = Sts.role_arn(ROLE)
_PAI_WORKSPACE = {"WorkspaceId": "12345"}
_ONE = ("12345",)
_PAGE_TWO = {"PageNumber": "2"}
_OF_PODS = ("job_restarts_allowed", "job_requested_pods", "job_replaced_pods", "job_pods", "pod_*")
_USAGE = (
    "device_*",
    "job_usage_*",
    *(
        f"{level}_{family}"
        for level in ("job", "pod")
        for family in ("*_ratio", "*_per_second", "*_usage_*", "*_watts", "accelerator_memory_capacity_bytes")
    ),
)
_POOLS = ("pool_info", "pool_status", "pool_*_nodes", "pool_capacity_*", "pool_allocated_*")
_POOL_USAGE = ("pool_*_ratio", "pool_*_watts", "pool_*_usage_*", "pool_*_per_second", "pool_disk_*")
_PAI_POOLS = {"api": "paistudio", "operation": "ListQuotas"}
_MODELARTS_POOLS = {"api": "modelarts", "operation": "ListPools"}
_LOCKED = 6
_LEFT_ALONE = "the exporter does not use rejected credentials for five minutes, because wrong passwords lock an account"

_GONE = {
    "not found": Unlike(
        KEPT,
        "the object disappears at once; if a list still has it, the next poll fails",
        ("while it should be kept",),
    )
}
_TEXT = "the response is plain text, not JSON"
_NO_CODE = "a reason that is not a code is dropped and counted"
_XML = dict.fromkeys(
    ("truncated", "wrong top", "null", "deep", "wrong types"), Unlike(VOID, "the response is XML, not JSON")
)
_PLAIN_TEXT = dict.fromkeys(("truncated", "wrong top", "null", "deep", "wrong types"), Unlike(VOID, _TEXT))

PAI = (
    Row(
        api="aiworkspace",
        operation="ListWorkspaces",
        collectors=("jobs", "job_counts", "pools"),
        fails=("workspaces",),
        loses=("workspace_info",),
        second_page=_PAGE_TWO,
    ),
    Row(
        api="dlc",
        operation="ListJobs",
        collectors=("jobs", "job_counts", "pods", "usage", "pools"),
        fails=("jobs", "job_counts", "pods", "usage", "job_metrics"),
        loses=("job_*", "jobs", "jobs_finished_total", "pod_*", "device_*"),
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
        unlike=_GONE,
    ),
    Row(
        api="dlc",
        operation="GetJobMetrics",
        workspaces=_ONE,
        collectors=("jobs", "usage:source: job_metrics, max_jobs: 2", "pools"),
        fails=("job_metrics",),
        loses=_USAGE,
        unlike=_GONE,
    ),
    Row(
        api="dlc",
        operation="GetMetrics",
        workspaces=_ONE,
        collectors=("jobs", "usage:source: dlc_metrics, max_jobs: 2", "pools"),
        fails=("dlc_metrics",),
        loses=_USAGE,
        unlike=_GONE,
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
        slow="after a table fails, the exporter reads it again ten minutes later",
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
        unlike=dict.fromkeys(("hostile strings", "lone surrogates"), Unlike(LESS, _NO_CODE, ("while it lasts",))),
        second_page=_PAGE_TWO,
    ),
    Row(
        api="cloudmonitor",
        operation="DescribeMetricLast",
        workspaces=_ONE,
        collectors=("jobs", "pools", "usage:source: cloudmonitor, profiling: [sm, flops, nvlink]"),
        fails=("usage",),
        loses=(*_USAGE, *_POOL_USAGE),
    ),
    Row(
        api="cloudmonitor",
        operation="DescribeMetricMetaList",
        workspaces=_ONE,
        collectors=("jobs", "pools", "usage:source: cloudmonitor"),
        fails=("usage",),
        loses=(*_USAGE, *_POOL_USAGE),
        cold=True,
        second_page=_PAGE_TWO,
        recovery={"one bad row": 11},
        slow="after an invalid row, the exporter reads the catalogue again ten minutes later",
    ),
    Row(
        api="sts",
        operation="AssumeRole",
        collectors=("pools",),
        credentials=(
            f"{{{{access_key_id: {ACCESS_KEY_ID}, access_key_secret: {ACCESS_KEY_SECRET}, role_arn: '{_ROLE}'}}}}"
        ),
        prepare=_short_lived,
        used_by=_PAI_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=_LOCKED,
        slow=_LEFT_ALONE,
    ),
    Row(
        api="sts",
        operation="AssumeRoleWithOIDC",
        collectors=("pools",),
        credentials=(
            f"{{{{oidc: {{{{provider_arn: '{OIDC_PROVIDER}', role_arn: '{_ROLE}', token: {OIDC_TOKEN}}}}}}}}}"
        ),
        prepare=_short_lived,
        used_by=_PAI_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=_LOCKED,
        slow=_LEFT_ALONE,
    ),
    *(
        Row(
            api="metadata",
            operation=operation,
            collectors=("pools",),
            credentials="{{ecs_ram_role: true}}",
            prepare=_short_lived,
            used_by=_PAI_POOLS,
            told_by=("ListRamRoles", "GetRamRoleCredentials"),
            unlike=_PLAIN_TEXT if operation != "GetRamRoleCredentials" else {},
            fails=("workspaces", "pools"),
            loses=("workspace_info", "pool_*"),
            recovers_from_refusal=_LOCKED,
            slow=_LEFT_ALONE,
        )
        for operation in ("PutToken", "ListRamRoles", "GetRamRoleCredentials")
    ),
)
_COARSE = "a query that is too large becomes coarser for an hour, metric by metric"
_EMPTY_HISTORY = "an empty response means no history yet, as before a task runs"
_COUNTS_0 = "the API's documentation says that a missing type of workload counts 0"
_OTHER_TYPE = "a workload with another type has another series"
_NO_CARDS = "cards have no names there, only an order"
_NUMBERS = ("negative", "nan", "infinite")
_LOOKED_UP = "states are numbers there; the exporter looks up a job with an unknown state, and it has ended"
_STRETCHED = "if many calls hang, the cycle and the retention of values take longer"
_TOO_LARGE = ("oversized", "gzip bomb", "many lists", "many objects", "many nans", "many surrogates")
_HOLD_UP = ("hang", "drip", "throttled", "throttled hint", "oversized", "gzip bomb")
_HUNG = dict.fromkeys(("hang", "drip"), Unlike(KEPT, _STRETCHED))
_V1_SURELY = {"ListTrainingJobsV1": ("jobs",), "ShowPodMetricStatistic": ("device_*", "job_usage_*", "pod_*_ratio")}
"""The list keeps its jobs in sight while it fails; jobs that only wait are not asked what they use."""
_V1: Mapping[str, Mapping[str, Unlike]] = {
    "ListTrainingJobsV1": dict.fromkeys(("unknown words", *_NUMBERS), Unlike(OTHER, _LOOKED_UP, ("while it lasts",))),
    "ListTrainingJobVersions": {
        **_HUNG,
        **_GONE,
        **dict.fromkeys(_NUMBERS, Unlike(OTHER, "states are numbers there")),
        "endless pages": Unlike(LESS, "the listed version is not in the response"),
    },
    "ListLogFileNames": {**_HUNG, **_GONE},
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
        operation="ShowTrainingJobMetrics",
        collectors=("jobs", "usage:source: task_metrics, max_jobs: 4", "pools"),
        fails=("task_metrics",),
        loses=_USAGE,
        unlike={
            "no content": Unlike(LESS, _EMPTY_HISTORY, ("calls",)),
            "empty": Unlike(LESS, _EMPTY_HISTORY, ("calls",)),
            **_GONE,
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
        unlike={
            **_GONE,
            "half list": Unlike(OTHER, _COUNTS_0, ("while it lasts",)),
        },
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListWorkloads",
        collectors=("jobs", "pools", "pool_workloads", "pool_users"),
        fails=("pool_workloads", "pool_users"),
        loses=("pool_queued_accelerators", "job_queue_position", "pool_user_accelerators"),
        some=("job_queue_position",),
        unlike={**_GONE, "hostile strings": Unlike(OTHER, _OTHER_TYPE, ("while it lasts",))},
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ShowPoolMonitor",
        collectors=("jobs", "pools", "pool_usage"),
        fails=("pool_usage",),
        loses=_POOL_USAGE,
        unlike=_GONE,
    ),
    Row(
        cloud="modelarts",
        api="modelarts",
        operation="ListPoolNodes",
        collectors=("jobs", "pools", "nodes"),
        fails=("nodes",),
        loses=("node_*",),
        unlike=_GONE,
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
            slow="the current cycle finishes first, and takes longer if calls hang or wait",
            judges=dict.fromkeys(_NUMBERS, unknown_states),
            unlike=_V1[operation],
        )
        for operation in (
            "ListTrainingJobsV1",
            "ListTrainingJobVersions",
            "ListLogFileNames",
            "ShowPodMetricStatistic",
        )
    ),
    Row(
        cloud="modelarts",
        api="aom",
        operation="ListInstantQueryAomPromPost",
        collectors=("jobs", "usage:source: aom", "pools"),
        fails=("usage",),
        loses=_USAGE,
        recovery=dict.fromkeys(_TOO_LARGE, 62),
        slow=_COARSE,
        unlike=dict.fromkeys(_TOO_LARGE, Unlike(KEPT, _COARSE, ("lines",))),
    ),
    Row(
        cloud="modelarts",
        api="aom",
        operation="ListInstantQueryAomPromPost",
        under="source: auto",
        only=_REFUSALS,
        collectors=("jobs", "usage:source: auto", "pools"),
        fails=("usage",),
        loses=_USAGE,
        some=("job_*_per_second", "pod_*_per_second"),  # task metrics have no rates
        judges=dict.fromkeys(_REFUSALS, another_source),
    ),
    Row(
        cloud="modelarts",
        api="aom",
        operation="ListLabelValuesAomPromGet",
        collectors=("jobs", "usage:source: aom", "pools"),
        fails=("usage",),
        loses=_USAGE,
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
        credentials=f"{{{{username: {USER_NAME}, password: {PASSWORD}, domain_name: {DOMAIN_NAME}}}}}",
        prepare=_short_lived,
        used_by=_MODELARTS_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=_LOCKED,
        slow=_LEFT_ALONE,
    ),
    Row(
        cloud="modelarts",
        api="iam",
        operation="KeystoneListProjects",
        collectors=("pools",),
        project="",
        recovers=_LOCKED,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*", "provider_info"),
        cold=True,
        recovers_from_refusal=_LOCKED,
        slow=_LEFT_ALONE,
    ),
    Row(
        cloud="modelarts",
        api="sts",
        operation="AssumeAgencyWithOIDC",
        collectors=("pools",),
        credentials=(
            f'{{{{oidc: {{{{provider_urn: "{PROVIDER_URN}", agency_urn: "{AGENCY_URN}", token: {HUAWEI_TOKEN}}}}}}}}}'
        ),
        prepare=_short_lived,
        used_by=_MODELARTS_POOLS,
        fails=("workspaces", "pools"),
        loses=("workspace_info", "pool_*"),
        recovers_from_refusal=_LOCKED,
        slow=_LEFT_ALONE,
    ),
    *(
        Row(
            cloud="modelarts",
            api="metadata",
            operation=operation,
            collectors=("pools",),
            credentials="{{ecs_agency: true}}",
            prepare=_short_lived,
            used_by=_MODELARTS_POOLS,
            told_by=("GetSecurityKey",),
            unlike=_PLAIN_TEXT if operation == "GetMetadataToken" else {},
            fails=("workspaces", "pools"),
            loses=("workspace_info", "pool_*"),
            recovers_from_refusal=_LOCKED,
            slow=_LEFT_ALONE,
        )
        for operation in ("GetMetadataToken", "GetSecurityKey")
    ),
)


def _without_search(simulator: Simulator) -> None:
    """A policy that lacks sagemaker:Search."""
    simulator.aws_denied.add("Search")


_AWS_ROLE = aws.AwsSts.role_arn(aws.ROLE)
_AWS_KEYS = f"access_key_id: {AWS_KEY_ID}, secret_access_key: {SECRET_ACCESS_KEY}"
_SECOND_OF_TWO = {"Offset": "2"}
_JOBS = ("job_*", "jobs", "jobs_finished_total", "pod_*", "workspace_info")
_OTHER_WAY = "jobs come from ListTrainingJobs and DescribeTrainingJob, finished ones are not counted"
_TWO_CLOCKS = "the other APIs have the right time, so the exporter corrects its clock to and fro"
_REMEMBERED = ("not found", "unknown words", *_NUMBERS)
"""Faults of a description that last until the job changes, because it is not read again before."""
_REFUSED_LIKE_SEARCH = ("denied", "skewed clock", "expired credentials", "revoked credentials")
"""Faults for which the log has one line, that of Search."""
_OF_DESCRIPTIONS = tuple(
    column.name for column in COLUMNS if column.name not in {*_REMEMBERED, *_REFUSED_LIKE_SEARCH, "closed while idle"}
)
_BOTH_DENIED = "Search stays denied, and the log has one line for both"
_OLD_KEYS = "the plans wait for new credentials, then the old ones still read the clusters"
_WAITED = dict.fromkeys(("hang", "drip", "throttled hint"), Unlike(KEPT, _OLD_KEYS, ("kept for ever",)))
_SKEWED = {"skewed clock": Unlike(KEPT, _TWO_CLOCKS, ("lines",))}
_CLUSTER_POOLS = ("pool_info", "pool_status", "pool_nodes", "pool_capacity_*")
_PLANS = {"api": "sagemaker", "operation": "ListTrainingPlans"}
SAGEMAKER = (
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="Search",
        collectors=("jobs", "job_counts", "usage", "pools"),
        fails=("jobs", "job_counts", "usage"),
        loses=(*_JOBS, *_USAGE),
        second_page=_SECOND_OF_TWO,
        recovery={"denied": 62, **dict.fromkeys(_NUMBERS, 2)},
        slow="a Search that was denied is tried again after an hour; usage returns one poll after the jobs",
        unlike={
            **_SKEWED,
            "denied": Unlike(LESS, _OTHER_WAY),
            "half list": Unlike(SAME, "a job that the list lacks is looked up by its name"),
            "wrong types": Unlike(KEPT, "a total that cannot be read is left out", ("while it should be kept",)),
        },
    ),
    *(
        Row(
            cloud="sagemaker",
            api="sagemaker",
            operation=operation,
            collectors=("jobs", "pools"),
            prepare=_without_search,
            cold=operation == "DescribeTrainingJob",  # a job is described when it has changed
            only=_OF_DESCRIPTIONS if operation == "DescribeTrainingJob" else (),
            unlike={**_SKEWED, "denied": Unlike(KEPT, _BOTH_DENIED, ("after it",))},
            fails=("jobs",),
            loses=_JOBS,
            second_page=_SECOND_OF_TWO if operation == "ListTrainingJobs" else {},
        )
        for operation in ("ListTrainingJobs", "DescribeTrainingJob")
    ),
    Row(
        cloud="sagemaker",
        api="cloudwatch",
        operation="GetMetricData",
        collectors=("jobs", "usage", "pools"),
        fails=("usage",),
        loses=_USAGE,
        unlike=_SKEWED,
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="ListClusters",
        collectors=("jobs", "pools", "nodes"),
        unlike=_SKEWED,
        fails=("pools",),
        loses=(*_CLUSTER_POOLS, "node_*"),
        some=("pool_nodes",),  # plans are pools, too, and nodes are read of the clusters known before
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="DescribeCluster",
        collectors=("jobs", "pools"),
        unlike={**_SKEWED, **_GONE},
        fails=("pools",),
        loses=_CLUSTER_POOLS,
        some=("pool_nodes",),
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="ListClusterNodes",
        collectors=("jobs", "pools", "nodes"),
        unlike={**_SKEWED, **_GONE},
        fails=("pools", "nodes"),
        loses=(*_CLUSTER_POOLS, "node_*"),
        some=("pool_nodes",),  # plans are pools, too, and nodes are read of the clusters known before
        second_page=_SECOND_OF_TWO,
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="ListTrainingPlans",
        collectors=("jobs", "pools"),
        unlike=_SKEWED,
        fails=("pools",),
        loses=("pool_*",),
        some=("pool_allocated_*", "pool_empty_nodes"),
        second_page=_SECOND_OF_TWO,
    ),
    *(
        Row(
            cloud="sagemaker",
            api=api,
            operation=operation,
            collectors=("pools",),
            credentials=credentials,
            environ=environ,
            prepare=_short_lived,
            used_by=_PLANS,
            under="AWS",
            told_by=told_by,
            unlike=(_SKEWED if operation == "AssumeRole" else {})
            | _WAITED
            | (_PLAIN_TEXT if operation in {"PutToken", "ListRoles"} else _XML if api == "sts" else {}),
            fails=("pools",),
            loses=("pool_*",),
            recovers_from_refusal=_LOCKED,
            slow=_LEFT_ALONE,
        )
        for api, operation, credentials, environ, told_by in (
            ("sts", "AssumeRole", f"{{{{{_AWS_KEYS}, role_arn: '{_AWS_ROLE}'}}}}", {}, ()),
            (
                "sts",
                "AssumeRoleWithWebIdentity",
                f"{{{{web_identity: {{{{role_arn: '{_AWS_ROLE}', token: {aws.WEB_IDENTITY_TOKEN}}}}}}}}}",
                {},
                (),
            ),
            *(
                ("metadata", operation, "null", {}, ("ListRoles", "GetRoleKeys"))
                for operation in ("PutToken", "ListRoles", "GetRoleKeys")
            ),
            (
                "metadata",
                "GetContainerKeys",
                "null",
                {
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{{metadata}}{CONTAINER_PATH}",
                    "AWS_CONTAINER_AUTHORIZATION_TOKEN": aws.CONTAINER_TOKEN,
                },
                (),
            ),
        )
    ),
)
ROWS = PAI + MODELARTS
"""Those of docs/evidence/faults.md."""


def beside(row: Row, column: Column) -> tuple[set[str], set[str]]:
    """The collectors that may fail, and the families that may be missing: where the address is shut, those of each
    operation that is called there."""
    touched = [row]
    if column.name == SHUT:
        touched += [other for other in (*ROWS, *SAGEMAKER) if (other.cloud, other.api) == (row.cloud, row.api)]
    return {name for one in touched for name in one.fails}, {family for one in touched for family in one.loses}
