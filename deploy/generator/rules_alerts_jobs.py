"""Alerts about jobs and their pods. They have the labels of the job's owner, so Alertmanager can notify the owner."""

from __future__ import annotations

from functools import partial

from deploy.generator.rules_accelerators import PRICE
from deploy.generator.rules_model import Alert, Group
from deploy.generator.rules_readings import FRESH_USE, OLD
from deploy.generator.rules_signals import (
    BUSIEST,
    CPU,
    CPU_USUAL,
    EVICTIONS,
    LATEST,
    NETWORK,
    NETWORK_MEDIAN,
    POWER,
    POWER_LOW,
    POWER_MEDIAN,
    QUIET,
    SHARE,
    STARTS,
    USUAL_SHARE,
)

_BY = "by (provider, job_id, accelerator)"
_ON = "on (provider, job_id, accelerator)"
# `max`, because a job whose user name changed has two series until `bridge` has passed.
_HELD = (
    f"sum {_BY} (\n  max by (provider, job_id, accelerator, accelerator_model) (\n"
    "    last_over_time(job:trainfleet_held_accelerators:sum[<bridge>])\n  )\n)"
)

# The `unless` ends bridging when the cloud reports another status. Without it, a job that has ended would count as
# running until `bridge` has passed, and alerts with a shorter `for` would fire.
_RUNNING = f"""\
and on (provider, job_id)
max by (provider, job_id) (last_over_time(trainfleet_job_status{{status="running"}}[<bridge>])) == 1
unless on (provider, job_id)
trainfleet_job_status{{status!="running"}} == 1
{OLD}"""

# Bridged for the whole window of the event. Otherwise a long gap would end the alert and cause a second notification.
_FAILED = """\
max by (provider, job_id) (last_over_time(trainfleet_job_status{status="failed"}[<job_failed_seconds>s])) == 1
unless on (provider, job_id)
time() - max by (provider, job_id) (last_over_time(trainfleet_job_finished_timestamp_seconds[<job_failed_seconds>s]))
> <job_failed_seconds>
unless on (provider, job_id)
max by (provider, job_id) (
  last_over_time(trainfleet_job_status{status="failed"}[<bridge>] offset <job_failed_seconds>s)
) == 1"""
# The current reason decides, because an earlier one may say why the job was queued.
_PLATFORM_REASON = """\
(
  max by (provider, job_id) (
    last_over_time(trainfleet_job_status_reason{reason=~"<platform_reasons>"}[<job_failed_seconds>s])
  ) == 1
  unless on (provider, job_id)
  trainfleet_job_status_reason{reason!~"<platform_reasons>"} == 1
)"""

# A single accelerator waits for data that the CPU prepares before the training.
_PREPARES = f"""\
(
  sum by (provider, job_id) ({_HELD}) == 1
  and on (provider, job_id)
  max by (provider, job_id) (avg_over_time(trainfleet_job_cpu_utilization_ratio[<idle_window>]))
  >= <preparing_cpu_ratio>
  and on (provider, job_id)
  time() - max by (provider, job_id) (last_over_time(trainfleet_job_started_timestamp_seconds[<bridge>]))
  < <preparing_seconds>
)"""

_SLOWER = f"last_over_time({SHARE}[<bridge>]) / last_over_time({USUAL_SHARE}[<straggler_held>])"

_JOB = "{{ with $labels.job_name }}{{ . }} ({{ $labels.job_id }}){{ else }}{{ $labels.job_id }}{{ end }}"
_OWNER = "{{ or $labels.user_name $labels.user_id `an unknown user` }}"
_REASON = (
    "{{ with query (printf `trainfleet_job_status_reason{provider=%q,job_id=%q} == 1` $labels.provider $labels.job_id) "
    "}} The cloud gives the reason {{ . | first | label `reason` }}.{{ end }}"
)
_EXIT_CODE = (
    "{{ with query (printf `trainfleet_pod_exit_code{provider=%q,job_id=%q} != 0` $labels.provider $labels.job_id) "
    "}} A pod exited with code {{ . | first | value }}.{{ end }}"
)
_COST = (
    "{{ with query (printf `sum by (currency) (max by (accelerator, accelerator_model, currency) "
    "(job:trainfleet_held_accelerators:sum{provider=%q,job_id=%q} * on (accelerator_model) group_left (currency) "
    f"{PRICE}))` "
    "$labels.provider $labels.job_id) }} The job costs {{ . | first | value | printf `%.0f` }} "
    "{{ . | first | label `currency` }} an hour.{{ end }}"
)
_WORKED = (
    "{{ with query (printf `max_over_time(job:trainfleet_accelerator_utilization:ratio{provider=%q,job_id=%q}[1d]) "
    ">= 0.2` $labels.provider $labels.job_id) }} It worked within the last day, so it may hang.{{ end }}"
)
_NODE = (
    "{{ with query (printf `trainfleet_pod_info{provider=%q,job_id=%q,pod_id=%q}` $labels.provider $labels.job_id "
    "$labels.pod_id) }} It runs on node {{ . | first | label `node_name` }}.{{ end }}"
)

_of_a_job = partial(Alert, of="job")

JOB_ALERTS = Group(
    "trainfleet-job-alerts",
    (
        _of_a_job(
            "TrainfleetJobFailed",
            f"{_FAILED}\nunless on (provider, job_id)\n{_PLATFORM_REASON}",
            "warning",
            f"The job {_JOB} failed",
            f"The job of {_OWNER} on {{{{ $labels.provider }}}} failed.{_REASON}{_EXIT_CODE}",
            bridge="<job_failed_seconds>s",
            event=True,
        ),
        _of_a_job(
            "TrainfleetJobPlatformFault",
            f"{_FAILED}\nand on (provider, job_id)\n{_PLATFORM_REASON}",
            "warning",
            f"The job {_JOB} failed because of the platform",
            f"The job of {_OWNER} on {{{{ $labels.provider }}}} failed.{_REASON} The user's program is not the cause.",
            bridge="<job_failed_seconds>s",
            event=True,
        ),
        _of_a_job(
            "TrainfleetJobIdle",
            f"""\
{_HELD}
and {_ON}
max {_BY} (avg_over_time({FRESH_USE}[<idle_window>])) < <idle_ratio>
and {_ON}
max {_BY} (last_over_time({FRESH_USE}[<bridge>]))
unless on (provider, job_id)
avg_over_time({BUSIEST}[<idle_window>]) >= <idle_ratio>
unless on (provider, job_id)
max by (provider, job_id) (trainfleet_job_holds_resources) == 0
unless on (provider, job_id)
{_PREPARES}
unless on (provider, job_id)
{STARTS}
{OLD}""",
            "warning",
            f"The job {_JOB} holds {{{{ $value }}}} idle accelerators",
            f"The job of {_OWNER} on {{{{ $labels.provider }}}} holds {{{{ $value }}}} {{{{ $labels.accelerator }}}} "
            "accelerators. Their average utilization over <idle_window> has been below <idle_ratio> for <idle_for>."
            + _WORKED
            + _COST,
            "<idle_for>",
            by_held=True,
        ),
        _of_a_job(
            "TrainfleetJobHung",
            # A job whose earlier wait has ended has fewer samples of the record than minutes since the first of them.
            f"""\
{_HELD}
and {_ON}
{QUIET}
and {_ON}
(
  (time() - min_over_time({QUIET}[<hung_memory>])) / 60 - count_over_time({QUIET}[<hung_memory>]) < <hung_gap_minutes>
  or
  count_over_time({QUIET}[<hung_memory_minutes>m]) > <hung_memory_minutes> - <hung_gap_minutes>
)
{_RUNNING}""",
            "warning",
            f"The job {_JOB} seems to hang with busy accelerators",
            f"The {{{{ $value }}}} {{{{ $labels.accelerator }}}} accelerators of the job of {_OWNER} on "
            "{{ $labels.provider }} are busy, but draw much less power than usual. The job has almost no traffic. Both "
            "have lasted for <hung_window> plus <hung_for>." + _COST,
            "<hung_for>",
            by_held=True,
        ),
        _of_a_job(
            "TrainfleetJobMayHang",
            f"""\
{_HELD} > 1
and {_ON}
max {_BY} (min_over_time({FRESH_USE}{{accelerator="gpu"}}[<may_hang_window>])) >= <may_hang_busy_ratio>
and on (provider, job_id)
max_over_time({CPU}[<may_hang_window>]) < <may_hang_cpu_ratio> * max_over_time({CPU_USUAL}[<cpu_past>])
unless on (provider, job_id)
last_over_time({POWER}[<bridge>])
{_RUNNING}""",
            "info",
            f"The job {_JOB} may hang with busy accelerators",
            f"The {{{{ $value }}}} {{{{ $labels.accelerator }}}} accelerators of the job of {_OWNER} on "
            "{{ $labels.provider }} are busy, but its CPU load has been unusually low for <may_hang_window>. The cloud "
            f"does not report power, so this is a weak sign.{_COST}",
            flaps=True,
        ),
        _of_a_job(
            "TrainfleetJobSlowed",
            f"""\
avg_over_time({POWER}[<slowed_window>]) / (last_over_time({POWER_MEDIAN}[{LATEST}]) > 0)
< <slowed_ratio> > <slowed_least_ratio>
and on (provider, job_id)
max_over_time({POWER_LOW}[<slowed_past>]) > <slowed_ratio> * last_over_time({POWER_MEDIAN}[{LATEST}])
and on (provider, job_id)
avg_over_time({NETWORK}[<slowed_window>]) / (last_over_time({NETWORK_MEDIAN}[{LATEST}]) > 0)
< <slowed_ratio> > <slowed_least_ratio>
{_RUNNING}""",
            "info",
            f"The job {_JOB} is slower than usual",
            f"The job of {_OWNER} on {{{{ $labels.provider }}}} draws {{{{ $value | humanizePercentage }}}} of its "
            "median power. Its traffic is below <slowed_ratio> of the median, too. Both have lasted for <slowed_for>."
            + _COST,
            "<slowed_for>",
            flaps=True,
        ),
        _of_a_job(
            "TrainfleetPodStraggling",
            f"""\
(
  {_SLOWER} < <straggler_ratio>
  and on (provider, job_id)
  last_over_time({POWER}[<bridge>])
  or
  {_SLOWER} < <straggler_use_ratio>
)
unless on (provider, job_id, pod_id)
trainfleet_pod_status{{status=~"succeeded|failed|stopped"}} == 1
{_RUNNING}""",
            "warning",
            f"The pod {{{{ $labels.pod_id }}}} of the job {_JOB} is slower than the others",
            "It does {{ $value | humanizePercentage }} of its usual work, compared with the other pods of the job. "
            f"This has lasted for <straggler_for>.{_NODE} The job belongs to {_OWNER} on {{{{ $labels.provider }}}}."
            + _COST,
            "<straggler_for>",
            flaps=True,
        ),
        _of_a_job(
            "TrainfleetDeviceUnhealthy",
            f"""\
max by (provider, job_id, pod_id, device) (last_over_time(trainfleet_device_healthy[<bridge>])) == 0
unless on (provider, job_id, pod_id)
trainfleet_pod_status{{status=~"succeeded|failed|stopped"}} == 1
{_RUNNING}""",
            "warning",
            f"The device {{{{ $labels.device }}}} of the pod {{{{ $labels.pod_id }}}} of the job {_JOB} is unhealthy",
            f"The cloud has reported it as unhealthy for <device_unhealthy_for>.{_NODE} The job belongs to {_OWNER} on "
            "{{ $labels.provider }}.",
            "<device_unhealthy_for>",
        ),
        _of_a_job(
            "TrainfleetJobRestartStorm",
            """\
max by (provider, job_id) (
  last_over_time(trainfleet_job_restarts_total[<restarts_window>])
  - min_over_time(trainfleet_job_restarts_total[<restarts_window>])
) >= <restarts>""",
            "warning",
            f"The job {_JOB} restarts too often",
            f"The job of {_OWNER} on {{{{ $labels.provider }}}} restarted {{{{ $value }}}} times within "
            "<restarts_window>.",
        ),
        _of_a_job(
            "TrainfleetPodsEvicted",
            f"last_over_time({EVICTIONS}[<bridge>]) - min_over_time({EVICTIONS}[<evictions_window>]) >= <evictions>",
            "info",
            f"Pods of the job {_JOB} were evicted: {{{{ $value }}}}",
            f"They lost their nodes on {{{{ $labels.provider }}}} within <evictions_window>. The job of {_OWNER} was "
            "preempted, or the nodes were removed.",
            event=True,
        ),
        _of_a_job(
            "TrainfleetJobQueuedTooLong",
            """\
max by (provider, job_id) (last_over_time(job:trainfleet_queue_age:seconds[<bridge>])) > <queued_seconds>
unless on (provider, job_id)
trainfleet_job_status{status!="queued"} == 1""",
            "info",
            f"The job {_JOB} has been queued for {{{{ $value | humanizeDuration }}}}",
            f"The job of {_OWNER} waits in the queue of {{{{ with $labels.pool_id }}}}the pool {{{{ . }}}}"
            "{{ else }}the public resources{{ end }} of {{ $labels.provider }}.",
            "<queued_for>",
        ),
        Alert(
            "TrainfleetJobFailureRateHigh",
            """\
max by (provider, workspace_id) (increase(trainfleet_jobs_finished_total{status="failed"}[<failure_window>]))
/ sum by (provider, workspace_id) (
  max by (provider, workspace_id, status) (
    increase(trainfleet_jobs_finished_total{status=~"failed|succeeded"}[<failure_window>])
  )
)
>= <failure_ratio>
and on (provider, workspace_id)
sum by (provider, workspace_id) (
  max by (provider, workspace_id, status) (
    increase(trainfleet_jobs_finished_total{status=~"failed|succeeded"}[<failure_window>])
  )
) >= <failure_count>""",
            "warning",
            "{{ $value | humanizePercentage }} of the jobs in workspace {{ $labels.workspace_id }} of "
            "{{ $labels.provider }} failed",
            "This is their share of the jobs that finished within <failure_window>. Stopped jobs do not count. If jobs "
            "of several users fail, check the image, data and nodes that they share.",
            "<failure_for>",
        ),
    ),
)
