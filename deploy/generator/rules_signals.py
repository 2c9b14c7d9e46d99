"""Records that separate working jobs from hung and slow ones: power, network, and deviations between pods."""

from __future__ import annotations

from deploy.generator.rules_model import JOB, Group, Record, indented
from deploy.generator.rules_readings import FRESH_USE, OLD

POWER = "job:trainfleet_accelerator_power:watts"
NETWORK = "job:trainfleet_network:bytes_per_second"
POWER_MEDIAN = "job:trainfleet_accelerator_power_median:watts"
NETWORK_MEDIAN = "job:trainfleet_network_median:bytes_per_second"
POWER_USUAL = "job:trainfleet_accelerator_power_usual:watts"
NETWORK_USUAL = "job:trainfleet_network_usual:bytes_per_second"
MODEL_POWER = "accelerator_model:trainfleet_accelerator_power_usual:watts"
LATEST = "20m"
"""The window in which the latest sample of a record of `BASELINES` is found."""
QUIET = "job:trainfleet_quiet:timestamp_seconds"
"""The time, in minutes in which a job looks as if it hangs. The number of samples and the first of them show whether an
earlier wait has ended."""
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
    # PAI reports the power of each device, and neither that of pods nor that of jobs.
    return f"(\n  {whole}\n  or\n  {devices}\n  and on ({JOB})\n  {complete}\n)"


def _quantile(name: str, share: float, of: str, meaning: str) -> Record:
    known = f"{of}[<baseline_window>:{_STEP}]"
    return Record(
        name,
        f"quantile_over_time({share}, {known})\nand\ncount_over_time({known}) >= <baseline_readings>",
        f"{meaning} of a job within `baseline_window`. Absent until `baseline_readings` readings, ten minutes apart, "
        "are known.",
        _JOB,
    )


def _quiet() -> str:
    """Return a query for jobs that look as if they hang: busy, with constant low power and without traffic."""
    by, on = "by (provider, job_id, accelerator)", "on (provider, job_id)"
    use = f"max {by} (min_over_time({FRESH_USE}[<hung_window>]))"
    most, least = (f"{of}_over_time({POWER}[<hung_window>])" for of in ("max", "min"))
    power, network = (f"max_over_time({usual}[<baseline_held>])" for usual in (POWER_USUAL, NETWORK_USUAL))
    sent = f"max_over_time({NETWORK}[<hung_window>])"
    held = f"max by (provider, job_id, accelerator, accelerator_model) ({_HELD})"
    same = "on (provider, accelerator, accelerator_model)"
    of_model = f"sum by ({JOB}) (\n  {held}\n  * {same} group_left ()\n  last_over_time({MODEL_POWER}[{LATEST}])\n)"
    return f"""\
0 * (
  {use} >= <hung_busy_ratio>
  and {on}
  {most} < <hung_power_ratio> * {power}
  and {on}
  {most} - {least} < <hung_power_spread> * {power}
  and {on}
  {sent} < <hung_network_ratio> * {network}
  or
  {use} >= <hung_spinning_ratio>
  and {on}
  {most}
  < <hung_model_power_ratio> * {of_model}
  and {on}
  {most} - {least} < <hung_power_spread> * {most}
  and {on}
  {sent} < <hung_model_network_bytes> * sum by ({JOB}) ({held})
)
+ time()"""


def _pod_mean(name: str, expr: str, meaning: str) -> Record:
    return Record(
        f"pod:trainfleet_{name}:avg",
        f"{expr}\n{OLD}",
        f"Mean {meaning} of a pod within `straggler_window`.",
        ("provider", "job_id", "pod_id"),
    )


def _low(name: str) -> str:
    """Return pods whose mean is far below the median of their job, in median absolute deviations."""
    mean = f"pod:trainfleet_{name}:avg"
    median = f"quantile by ({JOB}) (0.5, {mean})"
    distance = f"({mean} - on ({JOB}) group_left () {median})"
    spread = f"quantile by ({JOB}) (0.5, abs{distance})"
    least = f"<straggler_least_mad> * {median} > 0"
    return f"""\
label_replace(
  {distance}
  / on ({JOB}) group_left ()
  (
    {spread} > {least}
    or
    {least}
  )
  < -<straggler_deviation>,
  "signal", "{name}", "", ""
)"""


_HELD = "job:trainfleet_held_accelerators:sum"
_WINDOW = "[<straggler_window>]"
_NAMES = ("accelerator_utilization", "accelerator_power", "network")

SIGNAL_RECORDS = Group(
    "trainfleet-signals",
    (
        Record(
            POWER,
            _or_devices(
                f"sum by ({JOB}) (max by ({JOB}, accelerator) (trainfleet_job_accelerator_power_watts))",
                f"avg by ({JOB}) ({_DEVICES}) * on ({JOB}) group_left () sum by ({JOB}) ({_HELD})",
                f"(2 * count by ({JOB}) ({_DEVICES}) >= sum by ({JOB}) ({_HELD}))",
            )
            + f"\n{OLD}",
            "Power of the accelerators of a job, only while its reading is new enough for alerts. If the "
            "cloud reports only the power of devices, it is their mean times the held accelerators. At least half of "
            "them must report.",
            _JOB,
        ),
        Record(
            NETWORK,
            f"{_network('job', JOB)}\n{OLD}",
            "Rate at which a job receives and transmits, only while its reading is new enough for alerts.",
            _JOB,
        ),
        Record(
            QUIET,
            _quiet(),
            "The time, only in minutes in which a job looks as if it hangs: busy accelerators with constant low power, "
            "and no traffic.",
            ("provider", "job_id", "accelerator"),
        ),
        _pod_mean(
            "accelerator_utilization",
            f"max by ({_POD}) (avg_over_time(trainfleet_pod_accelerator_utilization_ratio{_WINDOW}))",
            "utilization of the accelerators",
        ),
        _pod_mean(
            "accelerator_power",
            _or_devices(
                f"max by ({_POD}) (avg_over_time(trainfleet_pod_accelerator_power_watts{_WINDOW}))",
                f"sum by ({_POD}) (max by ({_POD}, device) (avg_over_time(trainfleet_device_power_watts{_WINDOW})))",
                # The pod of a missing device would look slow.
                f"(count by ({JOB}) ({_DEVICES}) >= sum by ({JOB}) ({_HELD}))",
            ),
            "power of the accelerators",
        ),
        _pod_mean("network", _network("pod", _POD, _WINDOW), "rate of the network"),
        Record(
            SIGNALS,
            f"count by ({_POD}) (\n" + indented("\nor\n".join(map(_low, _NAMES))) + f"\n)\nor\n0 * {POD_USE}",
            "Number of signals (utilization, power, network) of a pod that are more than `straggler_deviation` "
            "deviations below the median of its job's pods. The unit is the median absolute deviation, which counts as "
            "at least `straggler_least_mad` times the median.",
            ("provider", "job_id", "pod_id"),
        ),
    ),
)

BASELINES = Group(
    "trainfleet-baselines",
    (
        _quantile(POWER_MEDIAN, 0.5, POWER, "Median power of the accelerators"),
        _quantile(NETWORK_MEDIAN, 0.5, NETWORK, "Median rate of the network"),
        _quantile(POWER_USUAL, 0.9, POWER, "Usual power of the accelerators (0.9 quantile)"),
        _quantile(NETWORK_USUAL, 0.9, NETWORK, "Usual rate of the network (0.9 quantile)"),
        Record(
            MODEL_POWER,
            f"""\
quantile by (provider, accelerator, accelerator_model) (
  0.5,
  {POWER_USUAL}
  / on ({JOB}) group_right ()
  (
    max by (provider, job_id, accelerator, accelerator_model) ({_HELD})
    and on ({JOB})
    count by ({JOB}) (max by (provider, job_id, accelerator, accelerator_model) ({_HELD})) == 1
  )
)""",
            "Usual power of one accelerator of a model: the median of the jobs of a provider.",
            ("provider", "accelerator", "accelerator_model"),
        ),
    ),
    interval=_STEP,
)
