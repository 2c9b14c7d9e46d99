"""The providers' tables of words against the enumerations in the vendors' installed SDKs, and against the contract.

Where they differ, the difference stands here with its reason. A difference that is no longer there fails, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support import enumerations as sdk
from tests.support.enumerations import DLC, STUDIO, alibaba, modelarts, modelarts_keys
from tests.support.payloads import payload
from trainfleet_exporter.model import PoolStatus, Status
from trainfleet_exporter.providers.alibaba_pai import payloads as pai_payloads
from trainfleet_exporter.providers.alibaba_pai import translate as pai
from trainfleet_exporter.providers.alibaba_pai.usage.job_metrics import METRIC_TYPES
from trainfleet_exporter.providers.huawei_modelarts import payloads
from trainfleet_exporter.providers.huawei_modelarts import translate as huawei
from trainfleet_exporter.providers.huawei_modelarts import translate_v1 as v1
from trainfleet_exporter.providers.huawei_modelarts.usage import pool_monitor
from trainfleet_exporter.providers.jobs.statuses import POOL_STATUS


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
    _, found, _ = pai.pods(payload({"JobId": "j", "Pods": pods}, pai_payloads.JobPods))
    return [pod.pod_id for pod in found if pod.evicted]


def _payment_types() -> list[str]:
    rows: list[dict[str, Any]] = [{}, {"ResourceId": "quota"}, {"JobSpecs": [{"UseSpotInstance": True}]}]
    return [job.payment_type for row in rows if (job := pai.job(payload({"JobId": "j", **row}, pai_payloads.Job)))]


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
        (*pai.LIVE_STATUSES, *pai.TERMINAL_STATUSES),
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
        [metric.name for metric in METRIC_TYPES],
    ),
    Enumeration("ModelArts training job, status.phase", lambda: modelarts("status", "phase"), huawei.PHASE_STATUS),
    Enumeration(
        "ModelArts training job, status.phase, as it is asked for",
        lambda: modelarts("status", "phase"),
        (*huawei.LIVE_PHASES, *huawei.TERMINAL_PHASES),
    ),
    Enumeration(
        "ModelArts ListWorkloads, status",
        lambda: modelarts("list_workloads_request", "status"),
        huawei.WORKLOAD_STATUS,
    ),
    Enumeration(
        "ModelArts ShowWorkloadStatistics, items[].status",
        lambda: modelarts_keys("workload_statistics_status"),
        huawei.WORKLOAD_STATUS,
    ),
    Enumeration(
        "ModelArts ShowWorkloadStatistics, items[].type",
        lambda: modelarts("workload_statistics", "type"),
        huawei._WORKLOAD_TYPES,
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
        "ModelArts ListPools, status.resources",
        lambda: modelarts_keys("pool_status_resources"),
        huawei._NODE_CONDITIONS,
    ),
    Enumeration(
        "ModelArts flavor_detail.flavor_type",
        lambda: modelarts("flavor_detail", "flavor_type"),
        ("CPU", *(word for word in ("GPU", "Ascend") if huawei.accelerator_kind(word) is not None)),
    ),
    Enumeration(
        "ModelArts ShowPoolMonitor, metric_name",
        lambda: modelarts("pool_monitor_metric", "metric_name"),
        pool_monitor.MONITORED,
    ),
)


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda each: each.name)
def test_a_table_has_what_the_sdk_documents(enumeration: Enumeration) -> None:
    documented, ours = enumeration.documented(), frozenset(enumeration.ours)
    assert documented, "the SDK lists nothing any more: the contract's table is the reference"
    assert ours - documented == enumeration.only_ours.keys()
    assert documented - ours == enumeration.only_documented.keys()


PROSE = {
    "DLC ListJobs, Jobs[].Status": (DLC, "_job_item", "JobItem", "status"),
    "DLC ListJobs, Jobs[].SubStatus": (DLC, "_job_item", "JobItem", "sub_status"),
    "DLC GetJob, SubStatus": (DLC, "_get_job_response_body", "GetJobResponseBody", "sub_status"),
    "DLC GetJob, StatusHistory[].Status": (DLC, "_status_transition_item", "StatusTransitionItem", "status"),
    "DLC GetJob, Pods[].HistoryPods[].Status": (
        DLC,
        "_get_job_response_body",
        "GetJobResponseBodyPodsHistoryPods",
        "status",
    ),
    "PaiStudio ListQuotas, Status": (STUDIO, "_quota", "Quota", "status"),
    "PaiStudio ListNodes, NodeStatus": (STUDIO, "_node", "Node", "node_status"),
    "PaiStudio ListQuotaWorkloads, Status": (STUDIO, "_queue_info", "QueueInfo", "status"),
    "PaiStudio ListQuotaWorkloads, WorkloadStatus": (STUDIO, "_queue_info", "QueueInfo", "workload_status"),
}
"""Fields whose values the SDK does not list. The contract's table is the reference for jobs, pods, pools and nodes; for
the queue of a quota it is the vendor's example, Enqueued."""


@pytest.mark.parametrize("place", PROSE.values(), ids=PROSE)
def test_no_more_fields_are_prose_than_are_known(place: tuple[str, str, str, str]) -> None:
    assert alibaba(*place) == frozenset(), "the SDK lists the values now: compare them above"


def test_the_sdk_knows_no_v1_jobs() -> None:
    """Their numbers are the contract's alone."""
    models = sdk.folder(sdk.MODELARTS) / "v1" / "model"
    assert list(models.glob("*training_job*"))
    assert not [path.name for path in models.glob("*.py") if "JOBSTAT" in path.read_text(encoding="utf-8")]


def _by_word(words: Mapping[str, str], kind: type[Status] | type[PoolStatus]) -> dict[str, Status | PoolStatus]:
    return {word: kind(status) for status, those in words.items() for word in those.split()}


def test_the_tables_are_the_contract_s() -> None:
    assert (
        _by_word(
            {
                "creating": "Created Creating",
                "queued": "Queuing Bidding",
                "starting": "Dequeued EnvPreparing SanityChecking",
                "running": "Running",
                "restarting": "Restarting",
                "stopping": "Stopping",
                "succeeded": "Succeeded SucceededReserving",
                "failed": "Failed FailedReserving",
                "stopped": "Stopped",
            },
            Status,
        )
        == pai.JOB_STATUS
    )
    pods = {
        "queued": "Pending",
        "running": "Running",
        "succeeded": "Succeeded",
        "failed": "Failed",
        "stopped": "Stopped",
    }
    assert _by_word(pods, Status) == pai.POD_STATUS
    phases = {
        "creating": "Creating",
        "queued": "Pending",
        "running": "Running",
        "stopping": "Terminating",
        "succeeded": "Completed",
        "failed": "Failed Abnormal",
        "stopped": "Terminated",
    }
    assert _by_word(phases, Status) == huawei.PHASE_STATUS
    assert _by_word(phases | {"queued": "Queue", "starting": "Pending"}, Status) == huawei.WORKLOAD_STATUS
    assert (
        _by_word(
            {
                "ready": "Ready Running Available",
                "creating": "Creating Waiting Checking",
                "abnormal": "Abnormal Error CreationFailed ScalingFailed",
                "deleting": "Deleting",
            },
            PoolStatus,
        )
        == POOL_STATUS
    )
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
    assert numbers == {str(number): v1.status(float(number))[0] for number in range(22)}
    assert v1.status(22.0) == (Status.UNKNOWN, "JOBSTAT_22")


def test_every_documented_way_to_start_again_is_a_restart() -> None:
    """A run after a rescheduling has the start type of a first one."""
    ways = modelarts("running_record", "start_type")
    assert len(ways) == 2
    for way in ways:
        records = [{"start_at": 1, "start_type": "init_or_rescheduled"}, {"start_at": 2, "start_type": way}]
        row = {"metadata": {"id": "j"}, "status": {"running_records": records}}
        job = huawei.job(payload(row, payloads.Job))
        assert job is not None
        assert job.restarts == 1, way
