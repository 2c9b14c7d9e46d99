"""One full and, where fields may be absent, one bare object of every model class that is rendered."""

from __future__ import annotations

from trainfleet_exporter.model import (
    Accelerators,
    DeviceUsage,
    FinishedCount,
    Job,
    JobCount,
    JobPods,
    JobUsage,
    NodeCount,
    Pod,
    PodUsage,
    Pool,
    PoolAmounts,
    PoolStatus,
    PoolWorkloads,
    ProviderFacts,
    RoleCount,
    RoleStatusCount,
    Status,
    UsageValues,
    Workspace,
)

JOB_LABELS = ("team", "cost-center", "cost.center", "not-there")

_USAGE = UsageValues(
    cpu=0.2345,
    memory=0.5,
    accelerator="gpu",
    accelerator_utilization=1.0,
    accelerator_memory=0.875,
    network_receive=1_500_000.0,
    network_transmit=0.0,
    disk_read=1e-3,
    disk_write=2.5e17,
)

EXAMPLES: dict[str, tuple[object, ...]] = {
    "provider_facts": (ProviderFacts(platform="alibaba_pai", region="cn-hangzhou"),),
    "workspace": (Workspace("12345", 'ws "train"\\n'), Workspace("12346", "研究\nzwei")),
    "job_count": (
        JobCount("12345", Status.RUNNING, "Running", 3),
        JobCount("12345", Status.FAILED, "FailedReserving", 0),
    ),
    "finished_count": (
        FinishedCount("12345", Status.SUCCEEDED, 17),
        FinishedCount("12345", Status.FAILED, 0),
    ),
    "job": (
        Job(
            job_id="dlc1example0001a",
            name="llm-pretrain-7b",
            job_type="PyTorchJob",
            workspace_id="12345",
            pool_id="quota1example0a",
            user_id="200000000000000001",
            user_name="alice",
            resource_type="Lingjun",
            payment_type="PrePaid",
            status=Status.RUNNING,
            platform_status="Running",
            reason="JobRunning",
            holds_resources=True,
            priority=5,
            created=1767225610.0,
            submitted=1767225641.0,
            started=1767225802.25,
            finished=1767316123.0,
            duration=90321.0,
            restarts=2,
            cpu_cores=736.0,
            memory_bytes=7730941132800.0,
            nodes=8.0,
            accelerators=(Accelerators("gpu", "GU8T", 64.0), Accelerators("gpu", "L20X", 0.5)),
            tags=(("team", "nlp"), ("cost.center", "b"), ("cost-center", "a"), ("secret", "hidden")),
        ),
        Job(job_id="dlc-bare"),
    ),
    "job_pods": (
        JobPods(
            job_id="dlc1example0001a",
            restarts_allowed=10,
            requested=(RoleCount("Master", 1), RoleCount("Worker", 7)),
            replaced=(RoleCount("Worker", 2),),
            present=(
                RoleStatusCount("Master", Status.RUNNING, 1),
                RoleStatusCount("Worker", Status.RUNNING, 6),
                RoleStatusCount("Worker", Status.QUEUED, 1),
                RoleStatusCount("Worker", Status.FAILED, 0),
            ),
        ),
        JobPods(job_id="dlc-bare"),
    ),
    "pod": (
        Pod(
            job_id="dlc1example0001a",
            pod_id="dlc1example0001a-worker-0",
            role="Worker",
            node_name="lrn-node-01",
            pod_ip="10.0.1.2",
            status=Status.FAILED,
            evicted=True,
            created=1767225721.0,
            started=1767225750.0,
            finished=1767225999.0,
        ),
        Pod(job_id="dlc1example0001a", pod_id="dlc1example0001a-worker-1", evicted=False),
        Pod(job_id="dlc-bare", pod_id="dlc-bare-worker-0"),
    ),
    "pool": (
        Pool(
            pool_id="quota1example0a",
            name="pool-a",
            resource_type="Lingjun",
            parent_pool_id="quotaroot",
            status=PoolStatus.READY,
            allocated_nodes=1,
            empty_nodes=17,
            nodes=(NodeCount("available", 17), NodeCount("abnormal", 1)),
        ),
        Pool(pool_id="quota-bare"),
    ),
    "pool_amounts": (
        PoolAmounts(
            pool_id="quota1example0a",
            capacity_cpu_cores=3312.0,
            capacity_memory_bytes=34789235097600.0,
            capacity_accelerators=(Accelerators("gpu", "GU8T", 144.0),),
            allocated_cpu_cores=103.0,
            allocated_memory_bytes=585189294080.0,
            allocated_accelerators=(Accelerators("gpu", "GU8T", 5.0),),
        ),
        PoolAmounts(pool_id="quota-bare"),
    ),
    "pool_workloads": (
        PoolWorkloads("pool-a", "train", Status.QUEUED, "Queue", 2),
        PoolWorkloads("pool-a", "infer", Status.UNKNOWN, "Sleeping", 0),
    ),
    "device_usage": (
        DeviceUsage("567524/1108482", "job-demo.0", "3", "gpu", 0.5, 0.25),
        DeviceUsage("bare", "bare.0", "0", "npu"),
    ),
    "pod_usage": (
        PodUsage("dlc1example0001a", "dlc1example0001a-worker-0", _USAGE),
        PodUsage("dlc-bare", "dlc-bare-worker-0", UsageValues()),
    ),
    "job_usage": (
        JobUsage("dlc1example0001a", "job_metrics", 1767316120.0, _USAGE),
        JobUsage("dlc-bare", "job_metrics", None, UsageValues(accelerator="npu", accelerator_utilization=0.0)),
    ),
}
