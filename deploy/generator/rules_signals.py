"""Records that separate working jobs from hung and slow ones: power, network, and deviations between pods."""

from __future__ import annotations

from deploy.generator.rules_model import JOB, Group, Record
from deploy.generator.rules_readings import OLD

POWER = "job:trainfleet_accelerator_power:watts"
NETWORK = "job:trainfleet_network:bytes_per_second"
POWER_MEDIAN = "job:trainfleet_accelerator_power_median:watts"
NETWORK_MEDIAN = "job:trainfleet_network_median:bytes_per_second"
POD_USE = "pod:trainfleet_accelerator_utilization:avg"
SIGNALS = "pod:trainfleet_straggling_signals:count"

_JOB = ("provider", "job_id")
_POD = "provider, job_id, pod_id"
_DEVICES = f"max by ({_POD}, device) (trainfleet_device_power_watts)"
_STEP = "10m"
"""The step of medians. One reading in ten minutes is exact enough and cheaper than all readings."""
_RATES = ("receive", "transmit")


def _network(level: str, by: str, window: str = "") -> str:
    read = "avg_over_time(trainfleet_{level}_network_{way}_bytes_per_second{window})" if window else ""
    read = read or "trainfleet_{level}_network_{way}_bytes_per_second"
    ways = (read.format(level=level, way=way, window=window) for way in _RATES)
    return "\n+ ".join(f"max by ({by}) ({way})" for way in ways)


def _or_devices(whole: str, devices: str, complete: str) -> str:
    # PAI reports the power of each device, and neither that of pods nor that of jobs. A sum without all devices would
    # look like a job that draws less power.
    return f"(\n  {whole}\n  or\n  {devices}\n  and on ({JOB})\n  {complete}\n)"


def _median(name: str, of: str, meaning: str) -> Record:
    known = f"{of}[<baseline_window>:{_STEP}]"
    return Record(
        name,
        f"quantile_over_time(0.5, {known})\nand\ncount_over_time({known}) >= <baseline_readings>",
        f"Median {meaning} of a job within `baseline_window`. Absent until `baseline_readings` readings, ten minutes "
        "apart, are known.",
        _JOB,
    )


def _pod_mean(name: str, expr: str, meaning: str) -> tuple[Record, Record]:
    """Return the records of a signal's mean of each pod, and of its deviation from the pods of the same job."""
    mean = f"pod:trainfleet_{name}:avg"
    median = f"quantile by ({JOB}) (0.5, {mean})"
    distance = f"({mean} - on ({JOB}) group_left () {median})"
    spread = f"quantile by ({JOB}) (0.5, abs{distance})"
    least = f"<straggler_least_mad> * {median} > 0"
    return (
        Record(
            mean,
            f"{expr}\n{OLD}",
            f"Mean {meaning} of a pod within `straggler_window`.",
            ("provider", "job_id", "pod_id"),
        ),
        Record(
            f"pod:trainfleet_{name}_deviation:mad",
            f"{distance}\n/ on ({JOB}) group_left ()\n(\n  {spread} > {least}\n  or\n  {least}\n)",
            f"Distance of a pod's mean {meaning} from the median of its job's pods, as a multiple of the median "
            "absolute deviation. Below 0 for a lower mean. The median absolute deviation counts as at least "
            "`straggler_least_mad` times the median.",
            ("provider", "job_id", "pod_id"),
        ),
    )


def _low(name: str) -> str:
    return f'label_replace(pod:trainfleet_{name}_deviation:mad < -<straggler_deviation>, "signal", "{name}", "", "")'


_WINDOW = "[<straggler_window>]"
_NAMES = ("accelerator_utilization", "accelerator_power", "network")

SIGNAL_RECORDS = Group(
    "trainfleet-signals",
    (
        Record(
            POWER,
            _or_devices(
                f"sum by ({JOB}) (max by ({JOB}, accelerator) (trainfleet_job_accelerator_power_watts))",
                f"sum by ({JOB}) ({_DEVICES})",
                f"(count by ({JOB}) ({_DEVICES}) >= sum by ({JOB}) (job:trainfleet_held_accelerators:sum))",
            )
            + f"\n{OLD}",
            "Power of the accelerators of a job, only while its reading is new enough for alerts. It is the sum of "
            "the devices if the cloud reports only their power, and that of all of them.",
            _JOB,
        ),
        Record(
            NETWORK,
            f"{_network('job', JOB)}\n{OLD}",
            "Rate at which a job receives and transmits, only while its reading is new enough for alerts.",
            _JOB,
        ),
        _median(POWER_MEDIAN, POWER, "power of the accelerators"),
        _median(NETWORK_MEDIAN, NETWORK, "rate of the network"),
        *_pod_mean(
            "accelerator_utilization",
            f"max by ({_POD}) (avg_over_time(trainfleet_pod_accelerator_utilization_ratio{_WINDOW}))",
            "utilization of the accelerators",
        ),
        *_pod_mean(
            "accelerator_power",
            _or_devices(
                f"max by ({_POD}) (avg_over_time(trainfleet_pod_accelerator_power_watts{_WINDOW}))",
                f"sum by ({_POD}) (max by ({_POD}, device) (avg_over_time(trainfleet_device_power_watts{_WINDOW})))",
                POWER,
            ),
            "power of the accelerators",
        ),
        *_pod_mean("network", _network("pod", _POD, _WINDOW), "rate of the network"),
        Record(
            SIGNALS,
            f"count by ({_POD}) (\n  " + "\n  or\n  ".join(map(_low, _NAMES)) + f"\n)\nor\n0 * {POD_USE}",
            "Number of signals (utilization, power, network) of a pod that are more than `straggler_deviation` "
            "deviations below the median of its job's pods.",
            ("provider", "job_id", "pod_id"),
        ),
    ),
)
