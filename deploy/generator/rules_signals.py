"""Records that separate working jobs from hung and slow ones: power, network, and shares of pods in the work."""

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
POWER_LOW = "job:trainfleet_accelerator_power_low:watts"
CPU = "job:trainfleet_busiest_pod_cpu:ratio"
BUSIEST = "job:trainfleet_busiest_pod_utilization:ratio"
CPU_USUAL = "job:trainfleet_busiest_pod_cpu_usual:ratio"
EVICTIONS = "job:trainfleet_evictions:sum"
QUIET = "job:trainfleet_quiet:timestamp_seconds"
"""The time, in minutes in which a job looks as if it hangs. The number of samples and the first of them show whether an
earlier wait has ended."""
SHARE = "pod:trainfleet_work_share:ratio"
USUAL_SHARE = "pod:trainfleet_work_share_usual:ratio"
"""Only for pods that have just become slower, so most pods have no series."""

_ON = f"on ({JOB})"
_POD = "provider, job_id, pod_id"
_DEVICES = f"max by ({_POD}, device) (trainfleet_device_power_watts)"
_STEP = "10m"
"""The step of medians. One reading in ten minutes is exact enough and cheaper than all readings."""
_RATES = ("receive", "transmit")

# A job loads its data and compiles after each start.
STARTS = """\
(
  time() - max by (provider, job_id) (last_over_time(trainfleet_job_started_timestamp_seconds[<bridge>]))
  < <starting_seconds>
  or on (provider, job_id)
  max by (provider, job_id) (changes(trainfleet_job_restarts_total[<starting_seconds>s])) > 0
)"""


def _quantile(name: str, share: float, of: str, meaning: str, window: str = "baseline_window") -> Record:
    known = f"{of}[<{window}>:{_STEP}]"
    return Record(
        name,
        f"quantile_over_time({share}, {known})\nand\ncount_over_time({known}) >= <baseline_readings>",
        f"{meaning} of a job within `{window}`.",
    )


def _quiet() -> str:
    """Return a query for jobs that look as if they hang: busy, with constant low power, no traffic and an idle CPU."""
    by, on = "by (provider, job_id, accelerator)", "on (provider, job_id)"
    use = f"max {by} (min_over_time({FRESH_USE}[<hung_window>]))"
    most, least = (f"{of}_over_time({POWER}[<hung_window>])" for of in ("max", "min"))
    power, network = (f"max_over_time({usual}[<baseline_held>])" for usual in (POWER_USUAL, NETWORK_USUAL))
    held = f"max by (provider, job_id, accelerator, accelerator_model) ({_HELD})"
    several = f"({held} > 1)\n  * on (provider, accelerator, accelerator_model) group_left ()"  # one may decode
    of_model = f"sum by ({JOB}) (\n  {several}\n  last_over_time({MODEL_POWER}[{LATEST}])\n)"
    sent = f"max_over_time({NETWORK}[<hung_window>])"
    return f"""\
0 * (
  (
    {use} >= <hung_busy_ratio>
    and {on}
    {most} < <hung_power_ratio> * {power}
    and {on}
    {most} - {least} < <hung_power_spread> * {power}
    or
    {use} >= <hung_spinning_ratio>
    and {on}
    {most}
    < <hung_model_power_ratio> * {of_model}
    and {on}
    {most} - {least} < <hung_power_spread> * {most}
  )
  and {on}
  (
    {sent} < <hung_network_ratio> * {network}
    or
    {sent} < <hung_network_bytes> * sum by ({JOB}) ({held})
  )
  unless {on}
  min_over_time({CPU}[<hung_window>]) > <hung_cpu_ratio> * max_over_time({CPU_USUAL}[<hung_cpu_held>])
  unless {on}
  {STARTS}
)
+ time()"""


def _work_share() -> str:
    """Return the work of pods of busy jobs, as a share of the median of their job's pods.

    Devices are averaged, so a device without a reading does not make its pod look slow. Series of two exporters are
    joined last, because each aggregation by pod takes long.
    """
    whole = "provider, job_id, pod_id, instance, job"
    use = f"avg_over_time(trainfleet_pod_accelerator_utilization_ratio{_WINDOW})"
    power = f"""\
(
  avg_over_time(trainfleet_pod_accelerator_power_watts{_WINDOW})
  or
  avg by ({whole}) (avg_over_time(trainfleet_device_power_watts{_WINDOW}))
  unless {_ON}
  trainfleet_pod_accelerator_power_watts
)"""
    of_use = f"{use}\n/ {_ON} group_left ()\n(quantile by ({JOB}) (0.5, {use}) > <straggler_busy_ratio>)"
    of_power = f"{power}\n/ {_ON} group_left ()\nquantile by ({JOB}) (0.5, {power})"
    known = "(trainfleet_pod_accelerator_power_watts or trainfleet_device_power_watts)"
    # NPUs that wait read 0, so the pod for which the others wait has a higher utilization than they have.
    return f"""\
max by ({_POD}) (
  clamp_max(
{indented(indented(of_use))},
    1
  )
  * on ({whole}) group_left ()
  (
{indented(indented(of_power))}
  )
  or
{indented(of_use)}
  unless {_ON}
  {known}
)
and {_ON}
count by ({JOB}) (max by ({_POD}) (trainfleet_pod_accelerator_utilization_ratio)) >= <straggler_pods>
{OLD}"""


def _usual_share() -> str:
    """Return the earlier share of pods that have just become slower.

    The newest two samples do not count, because the pod may already have been slow. A pod that was slow for more than
    36 minutes of 12 hours was not steady.
    """
    past = f"{SHARE}[<straggler_past>] offset 10m"
    return f"""\
(
  quantile_over_time(0.5, {past}) >= <straggler_least_ratio> <= 2 - <straggler_least_ratio>
  and
  quantile_over_time(0.9, {past}) < (1 + <straggler_spread>) * quantile_over_time(0.05, {past})
  and
  count_over_time({past}) >= <straggler_readings>
)
> {SHARE} / <straggler_ratio>"""


_HELD = "job:trainfleet_held_accelerators:sum"
_WINDOW = "[<straggler_window>]"

SIGNAL_RECORDS = Group(
    "trainfleet-signals",
    (
        Record(
            POWER,
            # PAI reports the power of each device, and neither that of pods nor that of jobs.
            f"""\
(
  sum by ({JOB}) (max by ({JOB}, accelerator) (trainfleet_job_accelerator_power_watts))
  or
  avg by ({JOB}) ({_DEVICES}) * {_ON} sum by ({JOB}) ({_HELD})
  and {_ON}
  (2 * count by ({JOB}) ({_DEVICES}) >= sum by ({JOB}) ({_HELD}))
)
{OLD}""",
            "Power of the accelerators of a job. If the cloud reports only the power of devices, it is their mean "
            "times the held accelerators. At least half of them must report.",
        ),
        Record(
            NETWORK,
            "\n+ ".join(f"max by ({JOB}) (trainfleet_job_network_{way}_bytes_per_second)" for way in _RATES)
            + f"\n{OLD}",
            "Rate at which a job receives and transmits.",
        ),
        Record(
            CPU,
            f"(\n  max by ({JOB}) (trainfleet_pod_cpu_utilization_ratio)\n  or\n"
            f"  max by ({JOB}) (trainfleet_job_cpu_utilization_ratio)\n)\n{OLD}",
            "CPU utilization of the busiest pod of a job.",
        ),
        Record(
            BUSIEST,
            f"max by ({JOB}) (trainfleet_pod_accelerator_utilization_ratio)\n{OLD}",
            "Utilization of the accelerators of the busiest pod of a job.",
        ),
        Record(
            EVICTIONS,
            # By job, because the pod that replaces an evicted one may have another id.
            f"sum by ({JOB}) (max by ({_POD}) (trainfleet_pod_evictions_total))",
            "Evictions of the pods of a job.",
        ),
        Record(
            QUIET,
            _quiet(),
            "The time, only in minutes in which a job looks as if it hangs: busy accelerators with constant low power, "
            "and no traffic.",
        ),
    ),
)

BASELINES = Group(
    "trainfleet-baselines",
    (
        _quantile(POWER_MEDIAN, 0.5, POWER, "Median power of the accelerators"),
        _quantile(POWER_LOW, 0.1, POWER, "Low power of the accelerators (0.1 quantile)"),
        _quantile(NETWORK_MEDIAN, 0.5, NETWORK, "Median rate of the network"),
        _quantile(POWER_USUAL, 0.9, POWER, "Usual power of the accelerators (0.9 quantile)"),
        _quantile(NETWORK_USUAL, 0.9, NETWORK, "Usual rate of the network (0.9 quantile)"),
        _quantile(CPU_USUAL, 0.1, CPU, "Low CPU utilization of the busiest pod (0.1 quantile)", "cpu_past"),
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
        ),
    ),
    interval=_STEP,
)

STRAGGLERS = Group(
    "trainfleet-stragglers",
    (
        Record(
            SHARE,
            _work_share(),
            "Work of a pod within `straggler_window`, as a share of the median of its job's pods. The work is power "
            "times utilization of the accelerators. If no pod of the job has a known power, the work is the "
            "utilization. Only for busy jobs with at least `straggler_pods` pods.",
        ),
        Record(
            USUAL_SHARE,
            _usual_share(),
            "Median share of a pod within `straggler_past`. Only if this share was steady, and the share is now below "
            "`straggler_ratio` of it. Most pods have no series.",
        ),
    ),
    interval="5m",
    switch="pods",
)
