"""The operations of AWS SageMaker."""

from __future__ import annotations

from collections.abc import Mapping

from tests.faults.columns import KEPT, SAME
from tests.faults.row import Row, Unlike
from tests.faults.row_parts import GONE, LEFT_ALONE, LOCKED, PLAIN_TEXT, USAGE, XML, short_lived
from tests.support.accounts import ACCOUNTS
from trainfleet_simulator.sagemaker import identity as aws
from trainfleet_simulator.sagemaker.identity import CONTAINER_PATH

_AWS_ROLE = aws.AwsSts.role_arn()
_SECOND_OF_TWO = {"Offset": "2"}
_JOBS = ("job_*", "jobs", "jobs_finished_total", "pod_*", "workspace_info")
_OLD_KEYS = "the exporter waits for new credentials, and meanwhile reads clusters with the old ones"
_WAITED = dict.fromkeys(("hang", "drip", "throttled hint"), Unlike(KEPT, _OLD_KEYS, ("kept for ever",)))
_CLUSTER_POOLS = ("pool_info", "pool_status", "pool_nodes", "pool_capacity_*")
_PLANS = {"api": "sagemaker", "operation": "ListTrainingPlans"}
_CREDENTIALS: tuple[tuple[str, str, Mapping[str, object] | None, Mapping[str, str], tuple[str, ...]], ...] = (
    ("sts", "AssumeRole", {**ACCOUNTS["sagemaker"].keys, "role_arn": _AWS_ROLE}, {}, ()),
    (
        "sts",
        "AssumeRoleWithWebIdentity",
        {"web_identity": {"role_arn": _AWS_ROLE, "token": aws.WEB_IDENTITY_TOKEN}},
        {},
        (),
    ),
    *(
        ("metadata", operation, None, {}, ("ListRoles", "GetRoleKeys"))
        for operation in ("PutToken", "ListRoles", "GetRoleKeys")
    ),
    (
        "metadata",
        "GetContainerKeys",
        None,
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{{metadata}}{CONTAINER_PATH}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": aws.CONTAINER_TOKEN,
        },
        (),
    ),
)
"""API, operation, credentials of the config, environment, and operations whose failures may report it."""
SAGEMAKER = (
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="Search",
        collectors=("jobs", "job_counts", "usage", "pools"),
        fails=("jobs", "job_counts", "usage"),
        loses=(*_JOBS, *USAGE),
        second_page=_SECOND_OF_TWO,
        unlike={
            "half list": Unlike(SAME, "the exporter looks up a job that the list lacks"),
            "wrong types": Unlike(
                KEPT, "the exporter leaves out a total that it cannot read", ("while it should be kept",)
            ),
        },
    ),
    Row(
        cloud="sagemaker",
        api="cloudwatch",
        operation="GetMetricData",
        collectors=("jobs", "usage", "pools"),
        fails=("usage",),
        loses=USAGE,
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="ListClusters",
        collectors=("jobs", "pools", "nodes"),
        fails=("pools",),
        loses=(*_CLUSTER_POOLS, "node_*"),
        some=("pool_nodes",),  # plans are pools, too, and nodes are read of the clusters known before
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="DescribeCluster",
        collectors=("jobs", "pools"),
        unlike=GONE,
        fails=("pools",),
        loses=_CLUSTER_POOLS,
        some=("pool_nodes",),
    ),
    Row(
        cloud="sagemaker",
        api="sagemaker",
        operation="ListClusterNodes",
        collectors=("jobs", "pools", "nodes"),
        unlike=GONE,
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
            prepare=short_lived,
            used_by=_PLANS,
            under="AWS",
            told_by=told_by,
            unlike=_WAITED | (PLAIN_TEXT if operation in {"PutToken", "ListRoles"} else XML if api == "sts" else {}),
            fails=("pools",),
            loses=("pool_*",),
            recovers_from_refusal=LOCKED,
            slow=LEFT_ALONE,
        )
        for api, operation, credentials, environ, told_by in _CREDENTIALS
    ),
)
