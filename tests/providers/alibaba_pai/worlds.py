"""Whole accounts on the scripted cloud, and configs that poll their usage by CloudMonitor."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from tests.providers.alibaba_pai.cloud import CONFIG, Cloud, at, job, metric, point
from tests.support.clock import START

MS = 1000
DAY = 86400.0
QUIET = "job_counts: {enabled: false}, pods: {enabled: false}, pool_workloads: {enabled: false}, "
MONITORED = CONFIG.replace("{usage: {source: job_metrics}}", f"{{{QUIET}usage: {{source: cloudmonitor}}}}")
CPU = metric("JOB_CPU_UTIL", "%")


def rich_cloud() -> Cloud:
    cloud = Cloud()
    spec = {"Type": "Worker", "PodCount": 2, "ResourceConfig": {"GPUType": "GU8T"}}
    cloud.jobs = [
        job(
            "run1",
            SubStatus="",
            UserId="u1",
            Username="alice",
            ResourceType="Lingjun",
            RequestCPU=184,
            RequestGPU="16",
            RequestMemory="3600Gi",
            NodeCount="2",
            Priority=5,
            Duration=500,
            RestartTimes="1",
            GmtSubmittedTime=at(-590),
            GmtRunningTime=at(-500),
            GmtFinishTime=None,
            JobSpecs=[spec],
            Settings={"Tags": {"team": "vision", "cost-center": "42", "secret": "x"}},
        ),
        job("wait1", "Queuing", ReasonCode="InsufficientResources", RequestGPU="8"),
        job("end1", "Failed", ReasonCode="PodFailed", GmtFinishTime=at(-120), GmtRunningTime=at(-300), RequestGPU="8"),
    ]
    pod = {"Type": "Worker", "Status": "Running", "SubStatus": "Normal", "GmtCreateTime": at(-580)}
    cloud.details["run1"] = cloud.jobs[0] | {
        "RestartTimes": "1/10",
        "Pods": [
            pod | {"PodId": "run1-worker-0", "Ip": "10.0.0.1", "NodeName": "n1", "GmtStartTime": at(-500)},
            pod
            | {
                "PodId": "run1-worker-1",
                "NodeName": "n2",
                "HistoryPods": [{"Type": "Worker", "PodId": "run1-worker-1", "SubStatus": "Evicted"}],
            },
        ],
    }
    values = {"CpuCoreUsage": 40.0, "MemoryUsage": 55.5, "GpuCoreUsage": 90.0, "GpuMemoryUsage": 75.0}
    rates = {"NetworkInputRate": 12.5, "NetworkOutputRate": 7.25, "DiskReadRate": 0.0, "DiskWriteRate": 1.5}
    for name, value in {**values, **rates}.items():
        cloud.metrics[("run1", name)] = [
            {"PodId": f"run1-worker-{n}", "Metrics": [{"Time": int((START - 45 + n) * MS), "Value": value + n}]}
            for n in (0, 1)
        ]
    cloud.quotas = [
        {
            "QuotaId": "quota1",
            "QuotaName": "pool-a",
            "ResourceType": "Lingjun",
            "GPUType": "GU8T",
            "Status": "Ready",
            "ParentQuotaId": "",
            "QuotaDetails": {
                "ActualMinQuota": {"CPU": "3312", "GPU": "144", "Memory": "32400Gi"},
                "AllocatedQuota": {"CPU": "184", "GPU": "16", "Memory": "3686400Mi"},
                "NodeStatistics": {"ActualMinNodeNum": 18, "AllocatedNodeNum": 2, "EmptyNodeNum": 16},
            },
        }
    ]
    return cloud


def usage(**fields: str) -> str:
    """The config with these further keys of `usage`, each as YAML."""
    inner = ", ".join(f"{key}: {value}" for key, value in {"source": "cloudmonitor", **fields}.items())
    return MONITORED.replace("usage: {source: cloudmonitor}", f"usage: {{{inner}}}")


def refresh(cloud: Cloud) -> None:
    """From now on every point is one minute old whenever it is asked for."""

    def dated(operation: str, query: dict[str, str]) -> None:
        if operation == "DescribeMetricLast":
            for points in cloud.points.values():
                for one in points:
                    one["timestamp"] = int((time.time() - 60) * 1000)

    cloud.answer = dated


def monitored_world() -> Cloud:
    """Two jobs, a pool, and every metric of the catalogue that feeds something."""
    cloud = Cloud()
    cloud.jobs = [job("a"), job("b")]
    cloud.quotas = [{"QuotaId": "quota1", "QuotaName": "pool-a"}]
    of_jobs = {
        "JOB_CPU_UTIL": ("%", 40.0),
        "JOB_MEMORY_UTIL": ("%", 55.5),
        "JOB_GPU_ACCELERATOR_DUTTY_UTIL": ("%", 90.0),
        "JOB_GPU_ACCELERATOR_MEMORY_UTIL": ("%", 75.0),
        "JOB_NETWORK_RECEVICE_RATE": ("MB/s", 12.5),
        "JOB_NETWORK_TRANSMIT_RATE": ("MiB/s", 2),
        "JOB_DISK_READ_RATE": ("Bytes/s", 0),
        "JOB_DISK_WRITE_RATE": ("Mbit/s", 8),
    }
    of_pods = {
        "POD_CPU_UTIL": ("%", 40.0),
        "POD_CPU_USED": ("Core", 3.5),
        "POD_MEMORY_USED": ("MiB", 1024),
        "POD_GPU_MEMORY_USED": ("MiB", 512),
        "POD_GPU_MEMORY_TOTAL": ("GiB", 1),
    }
    of_cards = {
        "CARD_GPU_DUTY_CYCLE": ("%", 91),
        "CARD_GPU_MEMORY_UTIL": ("%", 60),
        "CARD_GPU_POWER_USAGE": ("W", 312.5),
        "CARD_GPU_SM_UTIL": ("%", 50),
    }
    of_quotas = {
        "QUOTA_CPU_UTIL": ("%", 20),
        "QUOTA_MEMORY_UTIL": ("%", 30),
        "QUOTA_GPU_ACCELERATOR_DUTTY_UTIL": ("%", 80),
        "QUOTA_GPU_ACCELERATOR_MEMORY_UTIL": ("%", 70),
        "QUOTA_GPU_POWER_USAGE": ("W", 5000),
        "QUOTA_CPU_REQUEST": ("Core", 12),
    }
    for name, (unit, value) in {**of_jobs, **of_pods, **of_cards, **of_quotas}.items():
        cloud.catalogue.append(metric(name, unit))
        if name in of_jobs:
            cloud.points[name] = [point("a", value), point("b", value)]
        elif name in of_pods:
            cloud.points[name] = [point("a", value, pod="a-worker-0"), point("a", value, pod="a-worker-1", age=61)]
        elif name in of_cards:
            cards: list[dict[str, Any]] = [
                {"pod": "a-worker-0", "gpuId": str(card), "Value": value + card} for card in (0, 1)
            ]
            cloud.points[name] = [point("a", None, **card) for card in cards]
        else:
            cloud.points[name] = [point("", value, quotaId="quota1", quotaName="pool-a")]
    return cloud


def asked(cloud: Cloud) -> Counter[str]:
    """How often each metric was asked for at CloudMonitor."""
    return Counter(query["MetricName"] for query in cloud.called("DescribeMetricLast"))
