"""Lower half of the job dashboard: usage of the chosen job, its pods and their devices."""

from __future__ import annotations

from deploy.generator.dashboards.panels import (
    IDLE_TO_BUSY,
    Panel,
    Query,
    Scale,
    bars,
    counts,
    number,
    row,
    share,
    stat,
    timeseries,
)
from deploy.generator.dashboards.promql import P, info, of_job, once
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.rules_signals import POWER, SHARE

_ONE = f'{P}, job_id="$job_id"'
_PODS = f'{_ONE}, pod_id=~"$pod"'


def _job(family: str, legend: str, by: str = "") -> Query:
    labels = f"provider, job_id, {by}" if by else "provider, job_id"
    return Query(once(labels, f"trainfleet_job_{family}{{{_ONE}}}"), legend)


def _pod(family: str, legend: str = "{{pod_id}}", by: str = "pod_id") -> Query:
    return Query(once(by, f"trainfleet_pod_{family}{{{_PODS}}}"), legend)


def _device(family: str) -> Query:
    return Query(once("pod_id, device", f"trainfleet_device_{family}{{{_PODS}}}"), "{{pod_id}} · {{device}}")


def _of_pod(family: str) -> str:
    return once("provider, job_id, pod_id", f"trainfleet_pod_{family}{{{_PODS}}}")


def _word_of_pod(label: str, family: str) -> str:
    return info("provider, job_id, pod_id", label, f"trainfleet_pod_{family}{{{_PODS}}}")


USAGE: list[Panel] = [
    row("Usage of the job"),
    share(
        "Utilization",
        "Shares of the platform's 100 %, mean of the job's devices or pods. A gap means no reading.",
        _job("accelerator_utilization_ratio", "{{accelerator}}", "accelerator"),
        _job("accelerator_memory_utilization_ratio", "{{accelerator}} memory", "accelerator"),
        _job("cpu_utilization_ratio", "CPU"),
        _job("memory_utilization_ratio", "memory"),
    ),
    counts(
        "CPU cores",
        "CPU cores that the job uses and requests. Not every source reports them.",
        _job("cpu_usage_cores", "used"),
        _job("requested_cpu_cores", "requested"),
        width=6,
    ),
    timeseries(
        "Memory",
        "Memory that the job uses and requests. Not every source reports it.",
        "bytes",
        _job("memory_usage_bytes", "used"),
        _job("requested_memory_bytes", "requested"),
        width=6,
    ),
    timeseries(
        "Network",
        "Bytes per second that the job's pods receive and send.",
        "Bps",
        _job("network_receive_bytes_per_second", "received"),
        _job("network_transmit_bytes_per_second", "sent"),
        width=8,
    ),
    timeseries(
        "Disk",
        "Bytes per second that the job's pods read and write.",
        "Bps",
        _job("disk_read_bytes_per_second", "read"),
        _job("disk_write_bytes_per_second", "written"),
        width=8,
    ),
    timeseries(
        "Accelerator memory",
        "Accelerator memory that is used, and the memory of the devices. Not every source reports it.",
        "bytes",
        _job("accelerator_memory_usage_bytes", "used"),
        _job("accelerator_memory_capacity_bytes", "of the devices"),
        width=8,
    ),
    stat(
        "Source of the usage",
        "The API that the readings come from.",
        "none",
        Query(info("provider, job_id", "source", f"trainfleet_job_usage_info{{{_ONE}}}"), "{{source}}"),
        text="name",
        width=6,
    ),
    stat(
        "Age of the newest reading",
        "Shown if the source dates its readings. Clouds report them a few minutes late.",
        "s",
        Query(f"time() - {of_job('usage_timestamp_seconds', _ONE)}", "age"),
        scale=Scale("green", ((600, "yellow"), (900, "red"))),
        width=6,
    ),
    stat(
        "Power",
        "Power that the job's accelerators draw, if the source reports it.",
        "watt",
        Query(f"max({POWER}{{{_ONE}}})", "power"),
        width=6,
    ),
    number(
        "Replaced pods",
        "Pods of the job that newer pods replaced, by role.",
        _job("replaced_pods", "{{role}}", "role"),
        text="value_and_name",
        width=6,
    ),
]

PODS: list[Panel] = [
    row("Pods"),
    table(
        "Pods",
        "Pods of the job (tasks on ModelArts) and their nodes. An empty cell means that the cloud reports nothing.",
        "pod_id role status node_name pod_ip",
        [
            Column("", _word_of_pod("role, node_name, pod_ip", "info")),
            Column("", f"{_word_of_pod('status', 'status')} == 1"),
            Column("Started", f"1000 * {_of_pod('started_timestamp_seconds')}", "dateTimeAsIso"),
            Column(
                "Evicted",
                _of_pod("evicted"),
                words={0: ("no", "green"), 1: ("yes", "red")},
            ),
            Column("Utilization", _of_pod("accelerator_utilization_ratio"), "percentunit", IDLE_TO_BUSY, gauge=True),
            Column(
                "Against the job's mean",
                f"{_of_pod('accelerator_utilization_ratio')}\n- on (provider, job_id) group_left ()\n"
                f"avg by (provider, job_id) ({_of_pod('accelerator_utilization_ratio')})",
                "percentunit",
                Scale("red", ((-0.3, "yellow"), (-0.1, "text"))),
            ),
        ],
        sort="Pod",
        descending=False,
        width=16,
        height=8,
    ),
    counts(
        "Pods by status",
        "Current pods of the job, by role and status.",
        _job("pods", "{{role}} · {{status}}", "role, status"),
        stacked=True,
        width=8,
    ),
    share(
        "Accelerator utilization by pod",
        "If one pod is far below the others, they all wait for it.",
        _pod("accelerator_utilization_ratio"),
    ),
    share(
        "Accelerator memory by pod",
        "Share of the accelerator memory of a pod that is used.",
        _pod("accelerator_memory_utilization_ratio"),
    ),
    counts(
        "Work compared with the other pods",
        "Power times utilization of a pod, divided by the median of the job's pods. A pod that falls below its own "
        "past is a straggler.",
        Query(f"max by (pod_id) (last_over_time({SHARE}{{{_PODS}}}[10m]))", "{{pod_id}}"),
        width=24,
        height=6,
    ),
    share(
        "CPU utilization by pod",
        "Share of the platform's 100 %.",
        _pod("cpu_utilization_ratio"),
        width=8,
    ),
    share(
        "Memory utilization by pod",
        "Share of the platform's 100 %.",
        _pod("memory_utilization_ratio"),
        width=8,
    ),
    timeseries(
        "Network by pod",
        "Bytes per second that each pod receives and sends.",
        "Bps",
        _pod("network_receive_bytes_per_second", "{{pod_id}} received"),
        _pod("network_transmit_bytes_per_second", "{{pod_id}} sent"),
        width=8,
    ),
]

DEVICES: list[Panel] = [
    row("Devices"),
    bars(
        "Devices now",
        "Utilization of each accelerator of the chosen pods.",
        "percentunit",
        _device("utilization_ratio"),
        scale=IDLE_TO_BUSY,
        limits=(0, 1),
        width=8,
        height=9,
    ),
    share(
        "Device utilization",
        "Utilization of each accelerator of the chosen pods, if the source reports devices.",
        _device("utilization_ratio"),
        width=16,
        height=9,
    ),
    share(
        "Device memory",
        "Share of each accelerator's memory that is used.",
        _device("memory_utilization_ratio"),
    ),
    timeseries(
        "Device power",
        "Power that each accelerator draws, if the source reports it.",
        "watt",
        _device("power_watts"),
    ),
    counts(
        "Device health",
        "1 if the cloud calls the accelerator healthy, 0 if not. Only if `usage.profiling` names `health`.",
        _device("healthy"),
        limits=(0, 1),
    ),
    timeseries(
        "Device temperature",
        "Temperature of each accelerator. Only if `usage.profiling` names `health` and the source reports it.",
        "celsius",
        _device("temperature_celsius"),
    ),
]
