"""The providers' tables of words against the enumerations in the vendors' installed SDKs, and against the contract.

Where they differ, the difference stands here with its reason. A difference that is no longer there fails, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.enumerations import DLC, NEWER, alibaba, modelarts, modelarts_keys
from tests.support.payloads import payload
from trainfleet_exporter.model import Pod, PoolStatus, Status
from trainfleet_exporter.providers.alibaba_pai import history as pai_history
from trainfleet_exporter.providers.alibaba_pai import jobs as pai
from trainfleet_exporter.providers.alibaba_pai.usage import METRIC_TYPES
from trainfleet_exporter.providers.huawei_modelarts import history as huawei_history
from trainfleet_exporter.providers.huawei_modelarts import jobs as huawei
from trainfleet_exporter.providers.huawei_modelarts import pools as huawei_pools
from trainfleet_exporter.providers.huawei_modelarts import v1
from trainfleet_exporter.providers.huawei_modelarts.nodes import MAINTENANCE_ENDED, MAINTENANCE_STATE
from trainfleet_exporter.providers.values import POOL_STATUS


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The values of one field of an operation, by the SDK and by us."""

    name: str
    documented: Callable[[], frozenset[str]]
    ours: Iterable[str]
    only_ours: Mapping[str, str] = field(default_factory=dict)
    """Values that the SDK does not list, each with the reason why we know them."""
    only_documented: Mapping[str, str] = field(default_factory=dict)
    """Values that we do not map, each with the reason."""


_OLDER = "an older word of the contract, understood in answers and not asked for"
_OTHER_POOLS = {
    "Ready": "PAI's quotas and nodes; the table is one for both clouds",
    "Waiting": "older documentation of ModelArts pools, in the contract",
    "CreationFailed": "older documentation of ModelArts pools, in the contract",
    "ScalingFailed": "older documentation of ModelArts pools, in the contract",
}


def _evicting() -> list[str]:
    words = ("Normal", "Evicted", "Preempted", "Failed", "Other")
    pods = [{"PodId": word, "SubStatus": word} for word in words]
    found = pai.pods(payload({"JobId": "j", "Pods": pods}, pai.JobRow))
    return [pod.pod_id for pod in found if isinstance(pod, Pod) and pod.evicted]


def _payment_types() -> list[str]:
    rows: list[dict[str, Any]] = [{}, {"ResourceId": "quota"}, {"JobSpecs": [{"UseSpotInstance": True}]}]
    return [job.payment_type for row in rows if (job := pai.job(payload({"JobId": "j", **row}, pai.JobRow)))]


ENUMERATIONS = (
    Enumeration(
        "DLC ListJobs, Status",
        lambda: alibaba(DLC, "_list_jobs_request", "ListJobsRequest", "status"),
        pai.JOB_STATUS,
        only_ours={"Created": _OLDER, "Dequeued": _OLDER},
    ),
    Enumeration(
        "DLC ListJobs, Status, as it is asked for",
        lambda: alibaba(DLC, "_list_jobs_request", "ListJobsRequest", "status"),
        (*pai.LIVE, *pai.TERMINAL),
    ),
    Enumeration(
        "DLC GetJob, Status",
        lambda: alibaba(DLC, "_get_job_response_body", "GetJobResponseBody", "status"),
        pai.JOB_STATUS,
        only_ours={"Created": _OLDER, "Dequeued": _OLDER},
    ),
    Enumeration(
        "DLC GetJob, Pods[].Status",
        lambda: alibaba(DLC, "_get_job_response_body", "GetJobResponseBodyPods", "status"),
        pai.POD_STATUS,
        only_ours={"Stopped": "the vendor's example of a pod, in the contract"},
        only_documented={"Unknown": "unknown, as every word that is not in the table"},
    ),
    *(
        Enumeration(
            f"DLC GetJob, {name}.SubStatus, of evictions",
            lambda model=model: alibaba(DLC, "_get_job_response_body", model, "sub_status"),  # type: ignore[misc]
            _evicting(),
            only_ours={"Preempted": "spot pods have it in the field"},
            only_documented={"Normal": "no eviction"},
        )
        for name, model in (
            ("Pods[]", "GetJobResponseBodyPods"),
            ("Pods[].HistoryPods[]", "GetJobResponseBodyPodsHistoryPods"),
        )
    ),
    Enumeration(
        "DLC ListJobs, PaymentType",
        lambda: alibaba(DLC, "_list_jobs_request", "ListJobsRequest", "payment_type"),
        _payment_types(),
    ),
    Enumeration(
        "DLC GetJobMetrics, MetricType",
        lambda: alibaba(DLC, "_get_job_metrics_request", "GetJobMetricsRequest", "metric_type"),
        list(METRIC_TYPES),
    ),
    Enumeration("ModelArts, status.phase", lambda: modelarts("status", "phase"), huawei.JOB_STATUS, NEWER),
    Enumeration(
        "ModelArts ListWorkloads, status",
        lambda: modelarts("list_workloads_request", "status"),
        huawei_pools.WORKLOAD_STATUS,
        only_ours=NEWER,
    ),
    Enumeration(
        "ModelArts ShowWorkloadStatistics, items[].status",
        lambda: modelarts_keys("workload_statistics_status"),
        huawei_pools.WORKLOAD_STATUS,
        only_ours=NEWER,
    ),
    Enumeration(
        "ModelArts ShowWorkloadStatistics, items[].type",
        lambda: modelarts("workload_statistics", "type"),
        huawei_pools.WORKLOAD_TYPES,
    ),
    Enumeration(
        "ModelArts ListPools, status.phase",
        lambda: modelarts("pool_status", "phase"),
        POOL_STATUS,
        only_ours={**_OTHER_POOLS, "Available": "a node's", "Checking": "a node's"},
    ),
    Enumeration(
        "ModelArts ListPoolNodes, status.phase",
        lambda: modelarts("node_status", "phase"),
        POOL_STATUS,
        only_ours={**_OTHER_POOLS, "Running": "a pool's", "Error": "a pool's"},
    ),
    Enumeration(
        "ModelArts ListScheduledEvents, state",
        lambda: modelarts("scheduled_event", "state"),
        (*MAINTENANCE_STATE, *MAINTENANCE_ENDED),
    ),
    Enumeration(
        "ModelArts ListPools, status.resources",
        lambda: modelarts_keys("pool_status_resources"),
        huawei_pools.CONDITIONS,
    ),
    Enumeration(
        "ModelArts flavor_detail.flavor_type",
        lambda: modelarts("flavor_detail", "flavor_type"),
        ("CPU", *(word for word in ("GPU", "Ascend") if huawei.accelerator_kind(word) is not None)),
    ),
    Enumeration(
        "ModelArts ShowPoolMonitor, metric_name",
        lambda: modelarts("pool_monitor_metric", "metric_name"),
        huawei_pools.MONITORED,
    ),
    Enumeration(
        "ModelArts running_records[].recover_records[].fault_scenario",
        lambda: modelarts("recover_record", "fault_scenario"),
        huawei_history.CAUSES,
    ),
    Enumeration(
        "DLC GetJob, StatusHistory[].Status, by phase",
        lambda: alibaba(DLC, "_get_job_response_body", "GetJobResponseBody", "status"),
        pai_history.PHASES,
        only_ours={"Created": _OLDER, "Dequeued": _OLDER},
        only_documented=dict.fromkeys(
            ("Stopping", "SucceededReserving", "FailedReserving", "Succeeded", "Failed", "Stopped"),
            "the job has ended, or is about to: its time is spent on nothing",
        ),
    ),
)


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda each: each.name)
def test_a_table_has_what_the_sdk_documents(enumeration: Enumeration) -> None:
    documented, ours = enumeration.documented(), frozenset(enumeration.ours)
    assert documented, "the SDK lists nothing any more: the contract's table is the reference"
    assert ours - documented == enumeration.only_ours.keys()
    assert documented - ours == enumeration.only_documented.keys()


def _by_word(words: Mapping[str, str], kind: type[Status] | type[PoolStatus]) -> dict[str, Status | PoolStatus]:
    return {word: kind(status) for status, those in words.items() for word in those.split()}


def test_the_tables_are_the_contract_s() -> None:
    """Those of jobs are in the conformance tests of each cloud."""
    pods = {
        "queued": "Pending",
        "running": "Running",
        "succeeded": "Succeeded",
        "failed": "Failed",
        "stopped": "Stopped",
    }
    assert _by_word(pods, Status) == pai.POD_STATUS
    assert {**huawei.JOB_STATUS, "Queue": Status.QUEUED, "Pending": Status.STARTING} == huawei_pools.WORKLOAD_STATUS
    pools = {
        "ready": "Ready Running Available",
        "creating": "Creating Waiting Checking",
        "abnormal": "Abnormal Error CreationFailed ScalingFailed",
        "deleting": "Deleting",
    }
    assert _by_word(pools, PoolStatus) == POOL_STATUS
    numbers = _by_word(
        {
            "creating": "1 18",
            "queued": "7",
            "starting": "2 4 19 20",
            "running": "8 15",
            "stopping": "9",
            "succeeded": "10",
            "failed": "3 5 11 14 16 17 21",
            "stopped": "12 13",
            "unknown": "0 6",
        },
        Status,
    )
    assert numbers == {str(number): v1.job_status(float(number))[0] for number in range(22)}
    assert {v1.job_status(given) for given in (22.0, "22.0", "JOBSTAT_22")} == {(Status.UNKNOWN, "JOBSTAT_22")}
    assert {v1.job_status(given)[1] for given in (math.nan, math.inf, 4.5, None)} == {""}
