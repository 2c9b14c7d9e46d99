"""What the simulator sends, against the values that the vendors' installed SDKs document."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from tests.simulator.client import POOLS, V1, V2, ModelArts, Pai, decoded
from tests.support.enumerations import DLC, NEWER, STUDIO, WORKSPACES, alibaba, modelarts, modelarts_keys
from trainfleet_simulator.modelarts.job_rows import PHASES, WORKLOAD_STATUSES, job_row
from trainfleet_simulator.pai.dlc import detail
from trainfleet_simulator.world.nouns import JOB_STATUSES

_LISTED, _JOB = ("_list_jobs_request", "ListJobsRequest"), ("_get_job_response_body", "GetJobResponseBody")
_POD = ("_get_job_response_body", "GetJobResponseBodyPods")
_OLD_POD = ("_get_job_response_body", "GetJobResponseBodyPodsHistoryPods")
_STOPPED = {"Stopped": "the vendor's example of a pod, in the contract"}
_RECORD, _RECOVERY = "job.status.running_records[]", "job.status.running_records[].recover_records[]"

FIELDS: Mapping[str, tuple[Callable[[], frozenset[str]], Mapping[str, str]]] = {
    "detail.Status": (lambda: alibaba(DLC, *_JOB, "status"), {}),
    "detail.StatusHistory[].Status": (lambda: alibaba(DLC, *_JOB, "status"), {}),
    "detail.ResourceType": (lambda: alibaba(DLC, *_JOB, "resource_type"), {}),
    "detail.JobType": (
        lambda: alibaba(DLC, *_LISTED, "job_type"),
        {"MPIJob": "a newer type than the filter lists", "RayJob": "a newer type than the filter lists"},
    ),
    "detail.Pods[].Status": (lambda: alibaba(DLC, *_POD, "status"), _STOPPED),
    "detail.Pods[].SubStatus": (lambda: alibaba(DLC, *_POD, "sub_status"), {}),
    "detail.Pods[].HistoryPods[].SubStatus": (lambda: alibaba(DLC, *_OLD_POD, "sub_status"), {}),
    "detail.Pods[].HistoryPods[].Status": (lambda: alibaba(DLC, *_POD, "status"), {}),
    "quotas.Quotas[].ResourceType": (lambda: alibaba(STUDIO, "_quota", "Quota", "resource_type"), {}),
    "workspaces.Workspaces[].Status": (
        lambda: alibaba(WORKSPACES, "_list_workspaces_request", "ListWorkspacesRequest", "status"),
        {},
    ),
    "job.kind": (lambda: modelarts("job_response", "kind"), {}),
    "job.status.phase": (lambda: modelarts("status", "phase") | NEWER.keys(), {}),
    "job.spec.resource.policy": (lambda: modelarts("resource", "policy"), {}),
    "job.spec.resource.flavor_detail.flavor_type": (lambda: modelarts("flavor_detail", "flavor_type"), {}),
    f"{_RECORD}.start_type": (lambda: modelarts("running_record", "start_type"), {}),
    f"{_RECORD}.end_recover": (lambda: modelarts("running_record", "end_recover"), {}),
    f"{_RECOVERY}.recover": (lambda: modelarts("recover_record", "recover"), {}),
    f"{_RECOVERY}.fault_scenario": (lambda: modelarts("recover_record", "fault_scenario"), {}),
    f"{_RECOVERY}.recover_result": (lambda: modelarts("recover_record", "recover_result"), {}),
    "pools.items[].spec.type": (lambda: modelarts("pool_spec_model", "type"), {}),
    "pools.items[].status.phase": (
        lambda: modelarts("pool_status", "phase"),
        {"CreationFailed": "older documentation of pools, in the contract"},
    ),
    "pools.items[].status.resources.*": (lambda: modelarts_keys("pool_status_resources"), {}),
    "pool_nodes.items[].status.phase": (lambda: modelarts("node_status", "phase"), {}),
    "events.events[].type": (lambda: modelarts("scheduled_event", "type"), {}),
    "events.events[].state": (lambda: modelarts("scheduled_event", "state"), {}),
    "workloads.items[].status": (lambda: modelarts("list_workloads_request", "status"), {}),
    "workloads.items[].type": (lambda: modelarts("workload", "type"), {}),
    "counts.statistics.items[].type": (lambda: modelarts("workload_statistics", "type"), {}),
    "counts.statistics.items[].status.*": (lambda: modelarts_keys("workload_statistics_status"), {}),
}
"""By answer and field, what the SDK documents, and what the simulator says besides that, with the reason."""


def _values(payload: Any, path: str) -> Iterator[str]:
    """The values of a field; behind [] of every item, for * the keys."""
    name, _, rest = path.partition(".")
    if not name:
        yield payload
        return
    if name == "*":
        yield from payload
        return
    found = payload.get(name.removesuffix("[]"))
    if found is None:
        return
    for each in found if name.endswith("[]") else [found]:
        yield from _values(each, rest)


def _answers() -> Iterator[tuple[str, Any]]:
    """Answers of both clouds over forty minutes, by what they are."""
    pai, huawei = Pai(), ModelArts()
    yield "workspaces", decoded(pai.get("aiworkspace", "ListWorkspaces", "/api/v1/workspaces"))
    yield "quotas", decoded(pai.get("paistudio", "ListQuotas", "/api/v1/quotas/", PageSize="100"))
    yield "events", decoded(huawei.get(f"{V1}/scheduled-events"))
    pools = decoded(huawei.get(POOLS))
    yield "pools", pools
    for pool in pools["items"]:
        name = pool["metadata"]["name"]
        yield "pool_nodes", decoded(huawei.get(f"{POOLS}/{name}/nodes"))
        yield "workloads", decoded(huawei.get(f"{POOLS}/{name}/workloads"))
        yield "counts", decoded(huawei.get(f"{V2}/statistics/pools/{name}/workloads"))
    for _ in range(120):
        pai.clock.now += 20
        pai.world.advance(pai.clock.now)
        huawei.world.advance(pai.clock.now)
        for job in pai.world.live():
            yield "detail", detail(job, pai.world.now)
        for job in huawei.world.live():
            yield "job", job_row(job, huawei.world.now)
    for job in pai.world.jobs.values():
        yield "detail", detail(job, pai.world.now)
    for job in huawei.world.jobs.values():
        yield "job", job_row(job, huawei.world.now)


@cache
def _emitted() -> tuple[Mapping[str, set[str]], set[tuple[str, str]]]:
    """By field, the values that were seen; and how runs ended with what the next ones are."""
    found: dict[str, set[str]] = defaultdict(set)
    starts: set[tuple[str, str]] = set()
    for kind, answer in _answers():
        for field in FIELDS:
            if field.partition(".")[0] == kind:
                found[field].update(_values(answer, field.partition(".")[2]))
        if kind == "job":
            records = answer["status"].get("running_records", [])
            starts.update((old["end_recover"], new["start_type"]) for old, new in pairwise(records))
    return found, starts


@pytest.mark.parametrize("field", FIELDS)
def test_the_simulator_says_what_the_sdk_documents(field: str) -> None:
    documented, besides = FIELDS[field][0](), FIELDS[field][1]
    emitted = _emitted()[0][field]
    assert documented
    assert emitted
    assert emitted - documented == besides.keys()


def test_runs_start_as_the_recovery_before_them_says() -> None:
    """A rescheduled run is a first one after being scheduled; only a process started again in place is not."""
    starts = _emitted()[1]
    assert starts == {("pod_reschedule", "init_or_rescheduled"), ("proc_restart", "restarted")}
    assert {way for _, way in starts} == modelarts("running_record", "start_type")


def test_evictions_are_told_of_replaced_pods() -> None:
    assert _emitted()[0]["detail.Pods[].HistoryPods[].SubStatus"] == {"Normal", "Evicted"}


def test_the_world_s_states_are_those_of_the_sdk() -> None:
    assert set(JOB_STATUSES) == alibaba(DLC, *_LISTED, "status")
    assert set(PHASES) == modelarts("status", "phase") | NEWER.keys()
    assert set(WORKLOAD_STATUSES) == modelarts("list_workloads_request", "status") | NEWER.keys()
