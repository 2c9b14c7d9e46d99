"""Every operation of both clouds as one good request each, to be sent over a socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulator.client import START, Clock
from tests.simulator.client import signed_headers as pai_headers
from tests.simulator.modelarts.client import JSON, SEARCHES, V1, V2
from tests.simulator.modelarts.client import signed_headers as modelarts_headers
from trainfleet_exporter.providers.canonical import canonical_query
from trainfleet_simulator import Simulator
from trainfleet_simulator.modelarts import catalog
from trainfleet_simulator.modelarts.agency import AGENCY_URN, OIDC_TOKEN, PROVIDER_URN
from trainfleet_simulator.modelarts.job_rows import tasks_of
from trainfleet_simulator.modelarts.legacy import v1_job_id
from trainfleet_simulator.pai.catalog import TRAIN
from trainfleet_simulator.pai.sts import ECS_ROLE
from trainfleet_simulator.pai.sts import OIDC_PROVIDER as PAI_PROVIDER
from trainfleet_simulator.pai.sts import OIDC_TOKEN as PAI_TOKEN

VERSIONS = {
    "dlc": "2020-12-03",
    "paistudio": "2022-01-12",
    "aiworkspace": "2021-02-04",
    "cloudmonitor": "2019-01-01",
    "sts": "2015-04-01",
}
_ROLE = {"RoleArn": "acs:ram::1000000000000001:role/trainfleet-reader", "RoleSessionName": "exporter"}


@dataclass(frozen=True, slots=True)
class Asking:
    """One request without its host; signed anew each time that it is sent."""

    cloud: str
    api: str
    operation: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    signed: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.cloud} {self.operation}"

    @property
    def target(self) -> str:
        """Path and query as they go on the wire."""
        text = canonical_query(self.query)
        return f"{self.path}?{text}" if text else self.path

    def signed_for(self, host: str, now: float) -> dict[str, str]:
        """The headers to send."""
        if not self.signed:
            return {"host": host, **self.headers}
        if self.cloud == "pai":
            version = VERSIONS[self.api]
            made = pai_headers(
                self.path, self.query, action=self.operation, version=version, method=self.method, host=host, now=now
            )
        else:
            pairs = list(self.query.items())
            made = modelarts_headers(self.path, pairs, method=self.method, host=host, now=now, body=self.body)
        return {**made, **self.headers}

    def at(self, **query: str) -> Asking:
        """The same with these parameters too; those of a search for jobs are in its body."""
        if self.operation == "ListTrainingJobs":
            body = json.dumps(json.loads(self.body) | {name: int(value) for name, value in query.items()}).encode()
            return Asking(self.cloud, self.api, self.operation, self.method, self.path, self.query, body)
        return Asking(self.cloud, self.api, self.operation, self.method, self.path, {**self.query, **query}, self.body)


def operations(simulator: Simulator, clock: Clock) -> dict[str, Asking]:
    """A good request for every operation, by its cloud and name."""
    found = [*_of_pai(simulator, clock), *_of_modelarts(simulator, clock)]
    return {asking.name: asking for asking in found}


def _of_pai(simulator: Simulator, clock: Clock) -> list[Asking]:
    def get(api: str, operation: str, path: str, **query: str) -> Asking:
        return Asking("pai", api, operation, "GET", path, query)

    def rpc(api: str, operation: str, **query: str) -> Asking:
        return Asking("pai", api, operation, "POST", "/", query)

    def open_(operation: str, method: str, path: str, **headers: str) -> Asking:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return Asking("pai", "metadata", operation, method, path, signed=False, headers=sent)

    jobs = {job.draft.name: job.job_id for job in simulator.world.jobs.values()}
    steady = jobs["asr-steady"]
    sts = simulator.sts
    sts.allow_v1 = True
    unsigned = {"x-acs-action": "AssumeRoleWithOIDC", "x-acs-version": VERSIONS["sts"]}
    token = {**_ROLE, "OIDCProviderArn": PAI_PROVIDER, "OIDCToken": PAI_TOKEN}
    roles = "/latest/meta-data/ram/security-credentials"
    return [
        get("dlc", "ListJobs", "/api/v1/jobs", WorkspaceId="12346", PageSize="10", SortBy="GmtCreateTime"),
        get("dlc", "GetJob", f"/api/v1/jobs/{steady}"),
        get("dlc", "GetJobMetrics", f"/api/v1/jobs/{steady}/metrics", MetricType="CpuCoreUsage"),
        get("dlc", "ListEcsSpecs", "/api/v1/ecsspecs", PageSize="3"),
        get("paistudio", "ListQuotas", "/api/v1/quotas/", PageSize="2"),
        get("paistudio", "ListQuotaWorkloads", f"/api/v1/quotas/{TRAIN}/workloads", PageSize="2"),
        get("paistudio", "ListNodes", "/api/v1/nodes", QuotaId=TRAIN, Verbose="true", PageSize="2"),
        get("aiworkspace", "ListWorkspaces", "/api/v1/workspaces", PageSize="2"),
        rpc(
            "cloudmonitor",
            "DescribeMetricLast",
            Namespace="acs_pai_dlc",
            MetricName="JOB_CPU_UTIL",
            Period="60",
            Length="5",
        ),
        rpc(
            "cloudmonitor",
            "DescribeMetricList",
            Namespace="acs_pai_dlc",
            MetricName="JOB_CPU_UTIL",
            Period="60",
            Length="5",
        ),
        rpc("cloudmonitor", "DescribeMetricMetaList", Namespace="acs_pai_dlc", PageSize="10"),
        rpc("sts", "AssumeRole", **_ROLE),
        Asking("pai", "sts", "AssumeRoleWithOIDC", "POST", "/", token, signed=False, headers=unsigned),
        open_("PutToken", "PUT", "/latest/api/token", x_aliyun_ecs_metadata_token_ttl_seconds="60"),
        open_("ListRamRoles", "GET", f"{roles}/"),
        open_("GetRamRoleCredentials", "GET", f"{roles}/{ECS_ROLE}"),
        open_("GetCredentialsUri", "GET", "/credentials-uri"),
    ]


def _of_modelarts(simulator: Simulator, clock: Clock) -> list[Asking]:
    def get(operation: str, path: str, api: str = "modelarts", **query: str) -> Asking:
        return Asking("modelarts", api, operation, "GET", path, query)

    def open_(api: str, operation: str, method: str, path: str, body: Any = None, **headers: str) -> Asking:
        content = b"" if body is None else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()} | (
            {"content-type": JSON} if content else {}
        )
        return Asking("modelarts", api, operation, method, path, body=content, signed=False, headers=sent)

    world, legacy = simulator.worlds["modelarts"], simulator.worlds["modelarts-v1"]
    steady = next(job for job in world.jobs.values() if job.draft.name == "gpu-steady")
    old = next(job for job in legacy.jobs.values() if job.draft.name == "steady-v1")
    version = f"{V1}/training-jobs/{v1_job_id(old)}/versions"
    pod = f"{version}/{old.job_id}/pod/job-steady-v1.0/metric-statistic"
    pools = f"{V2}/pools/{catalog.GPU}"
    search = {"workspace_id": catalog.TEAM_WORKSPACE, "limit": 10, "offset": 0, "sort_by": "create_time"}
    user = {"name": catalog.USER_NAME, "password": catalog.PASSWORD, "domain": {"name": catalog.DOMAIN_NAME}}
    login = {
        "auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": catalog.REGION}},
        }
    }
    assume = {
        "provider_urn": PROVIDER_URN,
        "agency_urn": AGENCY_URN,
        "id_token": OIDC_TOKEN,
        "agency_session_name": "exporter",
    }
    promql = "avg by (service_id) (last_over_time(ma_container_cpu_util[10m]))"
    session = simulator.agency.metadata_sessions.issue(clock.now, 21600)
    return [
        Asking("modelarts", "modelarts", "ListTrainingJobs", "POST", SEARCHES, body=json.dumps(search).encode()),
        get("ShowTrainingJobDetails", f"{V2}/training-jobs/{steady.job_id}"),
        get("ShowTrainingJobMetrics", f"{V2}/training-jobs/{steady.job_id}/metrics/{tasks_of(steady)[0]}"),
        get("ShowTrainingQuotas", f"{V2}/training-quotas"),
        get("ListPools", f"{V2}/pools"),
        get("ShowPoolRuntimeMetrics", f"{V2}/metrics/runtime/pools"),
        get("ShowPoolMonitor", f"{pools}/monitor"),
        get("ListPoolNodes", f"{pools}/nodes", limit="2"),
        get("ListWorkloads", f"{pools}/workloads", limit="2"),
        get("ShowWorkloadStatistics", f"{V2}/statistics/pools/{catalog.GPU}/workloads"),
        get("ListScheduledEvents", f"{V1}/scheduled-events", limit="2"),
        get("ListWorkspaces", f"{V1}/workspaces", limit="1"),
        get("ListTrainingJobsV1", f"{V1}/training-jobs", per_page="2"),
        get("ListTrainingJobVersions", version, per_page="1", page="1"),
        get("ListLogFileNames", f"{version}/{old.job_id}/log/file-names"),
        get("ShowPodMetricStatistic", pod),
        open_("iam", "KeystoneCreateUserTokenByPassword", "POST", "/v3/auth/tokens", login),
        get("KeystoneListProjects", "/v3/projects", api="iam"),
        open_("sts", "AssumeAgencyWithOIDC", "POST", "/v5/agencies/assume-with-oidc", assume),
        open_("metadata", "GetMetadataToken", "PUT", "/meta-data/latest/api/token", X_Metadata_Token_Ttl_Seconds="60"),
        open_("metadata", "GetSecurityKey", "GET", "/openstack/latest/securitykey", X_Metadata_Token=session),
        get("ListInstantQueryAomPromPost", f"{V1}/aom/api/v1/query", api="aom", query=promql),
        get(
            "ListRangeQueryAomPromPost",
            f"{V1}/aom/api/v1/query_range",
            api="aom",
            query=promql,
            start=str(int(START) - 600),
            end=str(int(START)),
            step="60",
        ),
        get("ListLabelValuesAomPromGet", f"{V1}/aom/api/v1/label/__name__/values", api="aom"),
    ]
