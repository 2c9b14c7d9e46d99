"""Records of how jobs spent their time: goodput, faults and the cost of lost time.

docs/goodput.md derives each formula. There are two kinds of records:

- Ratios of a job cover its whole life, from `trainfleet_job_phase_seconds`.
- Records over many jobs add up the gain of each minute, so sums over a window are right while jobs start and end.
"""

from __future__ import annotations

from deploy.generator.rules_accelerators import PEAK, PRICE
from deploy.generator.rules_model import JOB, Group, Record, indented

_ON = f"on ({JOB})"
_OF_A_JOB = "[Figures of one job](goodput.md#figures-of-one-job), with their formulas."
_OF_A_FLEET = "[Figures of a fleet](goodput.md#figures-of-a-fleet), with their formulas."
_OF_FAULTS = "[Mean times](goodput.md#faults) to a failure of one accelerator, and to the end of a recovery."
_BY_KIND = "by (provider, accelerator, accelerator_model)"

_PHASE = "job:trainfleet_phase:seconds"
_PHASE_GAIN = "job:trainfleet_phase:increase1m"
_FAULT_GAIN = "job:trainfleet_faults:increase1m"
_FAULTS = "job:trainfleet_faults:sum"
_FIRST = "job:trainfleet_run_at_first:seconds"
_AT_FAULT = "job:trainfleet_run_at_fault:seconds"
_LOST_GAIN = "job:trainfleet_lost_work:increase1m"
_LOST = "job:trainfleet_lost_work:seconds"
_PRODUCTIVE = "job:trainfleet_productive:seconds"
_BADPUT = "job:trainfleet_badput:increase1m"
_ELAPSED = f"sum by ({JOB}) ({_PHASE})"
_RUNNING = f'sum by ({JOB}) ({_PHASE}{{phase="running"}})'
_ALLOCATED = f'sum by ({JOB}) ({_PHASE}{{phase!="queued"}})'

# A job that has just ended requests nothing, but its last minutes still count.
_REQUESTED = (
    f"max by ({JOB}, accelerator, accelerator_model) "
    "(last_over_time(trainfleet_job_requested_accelerators[<bridge>])) > 0"
)
_BY_ACCELERATORS = f"  * {_ON} group_left ()\n  sum by ({JOB}) (\n    {_REQUESTED}\n  )\n)"
_JOB_PRICE = f"""\
sum by ({JOB}, currency) (
  ({_REQUESTED})
  * on (accelerator_model) group_left (currency)
  {PRICE}
)"""


def _or_zero(part: str, whole: str) -> str:
    """Return `part`, with 0 for each series of `whole` that `part` does not have."""
    return f"({part} or 0 * {whole})"


def _at_least_zero(expr: str) -> str:
    return f"clamp_min(\n{indented(expr)},\n  0\n)"


def _gained(labels: str, series: str, known_before: str) -> str:
    """Return the gain of `series` within the last minute, by `labels`.

    The gain of a gap of up to `bridge` counts in the minute after the gap. A new series adds its whole value if
    `known_before` returns its object, which was then shown a minute ago. Otherwise the counted events are older.
    """
    now = f"max by ({labels}) ({series})"
    before = f"max by ({labels}) (last_over_time({series}[<bridge>] offset 1m))"
    return f"""\
{now}
- {before}
or
(
  {now}
  unless {before}
)
and {known_before}"""


def _counted(labels: str, series: str, known_before: str) -> str:
    """Return the gain of counters within the last minute, if it is above 0. A reset adds nothing."""
    return f"(\n{indented(_gained(labels, series, known_before))}\n) > 0"


def _gained_or_moved(gained: str) -> str:
    """Return the gains of phases without the losses of jobs whose total time shrank.

    The total stays if a late report moves time to another phase. If it shrinks, the platform trimmed the history, or a
    new job has the name of an old one. The lost time was counted when it passed.
    """
    before = f"sum by ({JOB}) (last_over_time({_PHASE}[<bridge>] offset 1m))"
    return f"""\
(
{indented(gained)}
)
>= {_ON} group_left ()
-1e18 * (
  {_ELAPSED}
  >= bool
  {before}
)"""


_JOB_KNOWN = f"{_ON}\nmax by ({JOB}) (last_over_time({_PHASE}[<bridge>] offset 1m))"
_NODE_KNOWN = "on (provider)\nmax by (provider) (last_over_time(trainfleet_provider_info[<bridge>] offset 1m))"


def _window(record: str, window: str, matchers: str = "") -> str:
    return f"sum_over_time({record}{matchers}[<{window}>])"


_JOB_RATIOS = (
    Record(
        _PHASE,
        f"max by ({JOB}, phase) (trainfleet_job_phase_seconds)",
        _OF_A_JOB,
    ),
    Record(
        _PHASE_GAIN,
        _gained_or_moved(_gained(f"{JOB}, phase", _PHASE, _JOB_KNOWN)),
        "Seconds that the last minute added to each phase. Below 0 if a late report moved time to another phase. "
        "Absent for a phase that shrank together with the job's total time.",
    ),
    Record(
        _FAULT_GAIN,
        f"sum by ({JOB}, cause) (\n"
        + indented(_counted(f"{JOB}, cause, platform_cause", "trainfleet_job_faults_total", _JOB_KNOWN))
        + "\n)",
        "Faults of a job in the last minute, by cause.",
    ),
    Record(
        _FAULTS,
        f"sum by ({JOB}, cause) ({_window(_FAULT_GAIN, 'fault_window')})\nand {_ON}\n{_ELAPSED}",
        "Faults of a job within `fault_window`, by cause.",
    ),
    Record(
        _FIRST,
        f"{_or_zero(_RUNNING, _ELAPSED)}\nunless {_JOB_KNOWN}",
        "Seconds that a job had run when it was first shown. Only in this minute.",
    ),
    Record(
        _AT_FAULT,
        f"{_or_zero(_RUNNING, _ELAPSED)}\nand {_ON}\n{_FAULT_GAIN}",
        "Seconds that a job had run when it had a fault. Only in the minutes of faults.",
    ),
    Record(
        _LOST_GAIN,
        # A job that has run for less than at the fault before has a trimmed history, so its whole run counts. `1 *`
        # drops the metric name, as the subtraction does. Otherwise a range query returns two series for one job.
        f"""\
{_FAULT_GAIN}
/ {_ON} group_left () sum by ({JOB}) ({_FAULT_GAIN})
* {_ON} group_left ()
clamp_max(
  {_AT_FAULT} - last_over_time({_AT_FAULT}[<fault_window>] offset 1m) >= 0
  or
  1 * {_AT_FAULT},
  <checkpoint_seconds> / 2
)""",
        "Work in seconds that the faults of the last minute undid, by cause: half of `checkpoint_seconds`, but at most "
        "the run since the fault before. Faults of one minute share it.",
    ),
    Record(
        "job:trainfleet_lost_work:seconds",
        f"sum by ({JOB}) ({_window(_LOST_GAIN, 'fault_window')})\nand {_ON}\n{_ELAPSED}",
        _OF_A_JOB,
    ),
    Record(
        "job:trainfleet_productive:seconds",
        f"clamp_min(\n  {_or_zero(_RUNNING, _ELAPSED)}\n  - {_or_zero(_LOST, _ELAPSED)},\n  0\n)",
        _OF_A_JOB,
    ),
    Record(
        "job:trainfleet_scheduling_goodput:ratio",
        f"{_or_zero(_ALLOCATED, _ELAPSED)}\n/ ({_ELAPSED} > 0)",
        _OF_A_JOB,
    ),
    Record(
        "job:trainfleet_runtime_goodput:ratio",
        f"{_or_zero(_RUNNING, _ELAPSED)}\n/ ({_ALLOCATED} > 0)",
        _OF_A_JOB,
    ),
    Record(
        "job:trainfleet_ettr:ratio",
        f"{_PRODUCTIVE}\n/ ({_ELAPSED} > 0)",
        _OF_A_JOB,
    ),
    Record(
        "job:trainfleet_ettr_without_queue:ratio",
        f"{_PRODUCTIVE}\n/ ({_ALLOCATED} > 0)",
        _OF_A_JOB,
    ),
)

_LAUNCH = (
    f'({_PHASE_GAIN}{{phase="preparing"}} '
    f"and {_ON} max by ({JOB}) (max_over_time(trainfleet_job_holds_resources[<bridge>])) == 0)"
)
"""The preparation of jobs that hold nothing: SageMaker launches instances for them."""
_NOT_QUEUED = '{phase!="queued"}'
_PHASES = "provider:trainfleet_phase_accelerators:sum"
_CHANGES = "provider:trainfleet_phase_accelerators:change1m"
_REPEATED = "provider:trainfleet_repeated_accelerators:sum"
_IN_ALL, _HELD_TIME, _RAN, _UNDONE = (
    f"sum by (provider) ({_window(record, 'goodput_window', matchers)})"
    for record, matchers in (
        (_CHANGES, ""),
        (_CHANGES, _NOT_QUEUED),
        (_CHANGES, '{phase="running"}'),
        (_REPEATED, ""),
    )
)


def _fleet_ratio(name: str, part: str, whole: str) -> Record:
    return Record(f"provider:trainfleet_{name}:ratio", f"{part}\n/ ({whole} > 0)", _OF_A_FLEET)


_FLEET = (
    Record(
        _CHANGES,
        f"sum by (provider, phase) (\n  ({_PHASE_GAIN} unless {_LAUNCH}) / 60\n{_BY_ACCELERATORS}",
        "Accelerators times the minutes that the last minute added to each phase, without launches. May be below 0.",
    ),
    Record(
        _PHASES,
        _at_least_zero(_CHANGES),
        _OF_A_FLEET,
    ),
    Record(
        _REPEATED,
        # The phases of a fleet do not contain the run before a job was first shown, so this run is not undone, either.
        f"""\
sum by (provider) (
  (
    {_AT_FAULT} - last_over_time({_FIRST}[<goodput_window>]) >= 0 < sum by ({JOB}) ({_LOST_GAIN})
    or
    sum by ({JOB}) ({_LOST_GAIN})
  )
  / 60
{_BY_ACCELERATORS}""",
        _OF_A_FLEET,
    ),
    _fleet_ratio(
        "scheduling_goodput",
        f"({_HELD_TIME} or 0 * {_IN_ALL})",
        _IN_ALL,
    ),
    _fleet_ratio(
        "runtime_goodput",
        f"({_RAN} or 0 * {_HELD_TIME})",
        _HELD_TIME,
    ),
    _fleet_ratio(
        "goodput",
        f"clamp_min(\n  {_RAN}\n  - ({_UNDONE} or 0 * {_RAN}),\n  0\n)",
        _HELD_TIME,
    ),
)

_MODEL_FAULTS = "provider:trainfleet_faults:increase1m"
_RECOVERIES = "provider:trainfleet_recoveries:increase1m"
_RECOVERY_SECONDS = "provider:trainfleet_recovery_seconds:increase1m"
_NODE_FAULTS = "node:trainfleet_faults:increase1m"
_HARDWARE = '{cause=~"<hardware_causes>"}'
_RELIABILITY = (
    Record(
        _MODEL_FAULTS,
        f"sum by (provider, cause, accelerator, accelerator_model) (\n  {_FAULT_GAIN}\n"
        f"  * {_ON} group_left (accelerator, accelerator_model)\n  (\n    topk by ({JOB}) (\n      1,\n"
        f"      {_REQUESTED}\n    ) > bool 0\n  )\n)",
        "Faults of jobs in the last minute, by cause and by the model of most accelerators of the job.",
    ),
    Record(
        "provider:trainfleet_mttf:seconds",
        f"60 * {_window('provider:trainfleet_held_accelerators:sum', 'fault_window')}\n"
        f"/ (sum {_BY_KIND} ({_window(_MODEL_FAULTS, 'fault_window', _HARDWARE)}) > 0)",
        _OF_FAULTS,
    ),
    Record(
        _RECOVERIES,
        "sum by (provider, strategy, result) (\n"
        + indented(_counted(f"{JOB}, strategy, result", "trainfleet_job_recoveries_total", _JOB_KNOWN))
        + "\n)",
        "Recoveries of jobs in the last minute, by strategy and result.",
    ),
    Record(
        _RECOVERY_SECONDS,
        "sum by (provider) (\n" + indented(_counted(JOB, "trainfleet_job_recovery_seconds_total", _JOB_KNOWN)) + "\n)",
        "Seconds of recoveries that ended in the last minute.",
    ),
    Record(
        "provider:trainfleet_mttr:seconds",
        f"sum by (provider) ({_window(_RECOVERY_SECONDS, 'fault_window')})\n"
        f"/ (sum by (provider) ({_window(_RECOVERIES, 'fault_window')}) > 0)",
        _OF_FAULTS,
    ),
    Record(
        _NODE_FAULTS,
        "sum by (provider, pool_id, node_name, cause) (\n"
        + indented(_counted("provider, pool_id, node_name, cause", "trainfleet_node_faults_total", _NODE_KNOWN))
        + "\n)",
        "Faults of a node in the last minute, by cause.",
    ),
    Record(
        "node:trainfleet_lemon_faults:sum",
        f"topk by (provider) (\n  <lemon_nodes>,\n  sum by (provider, pool_id, node_name) (\n"
        f"    {_window(_NODE_FAULTS, 'fault_window', _HARDWARE)}\n  ) >= <lemon_faults>\n)",
        "Lemon nodes: nodes with at least `lemon_faults` faults of `hardware_causes` within `fault_window`. Only the "
        "`lemon_nodes` nodes with the most faults are recorded.",
    ),
)

_RECOVERING = f'{_PHASE_GAIN}{{phase="recovering"}}'
_MONEY = (
    Record(
        _BADPUT,
        f"""\
sum by ({JOB}, cause) (
  label_replace({_PHASE_GAIN}{{phase!~"queued|running|recovering"}} unless {_LAUNCH}, "cause", "$1", "phase", "(.+)")
  or
  label_replace({_RECOVERING} != 0 unless {_ON} {_FAULTS}, "cause", "unknown", "", "")
  or
  label_replace(
    {_FAULTS}
    / {_ON} group_left () sum by ({JOB}) ({_FAULTS})
    * {_ON} group_left () sum by ({JOB}) ({_RECOVERING}),
    "loss", "recovery", "", ""
  )
  or
  label_replace({_LOST_GAIN}, "loss", "repeated work", "", "")
)""",
        "Seconds without useful work that the last minute added to a job, by "
        "[cause](goodput.md#money-lost-to-each-cause). Undone work counts in the minute of the fault.",
    ),
    Record(
        "provider:trainfleet_badput_accelerators:sum",
        _at_least_zero(f"sum by (provider, cause) (\n  {_BADPUT} / 60\n{_BY_ACCELERATORS}"),
        "Accelerator-minutes without useful work that the last minute added, by cause. At least 0.",
    ),
    Record(
        "provider:trainfleet_badput_cost:per_hour",
        _at_least_zero(
            f"sum by (provider, cause, currency) (\n  {_BADPUT} / 60\n  * {_ON} group_left (currency)\n"
            f"{indented(_JOB_PRICE)}\n)"
        ),
        "Cost for an hour of the accelerators without useful work, by cause. At least 0.",
    ),
)

_HELD = "job:trainfleet_held_accelerators:sum"
_MFU = "job:trainfleet_mfu:ratio"
_ON_KIND = "on (provider, job_id, accelerator)"
_UTILIZATION = (
    Record(
        _MFU,
        f"""\
max by ({JOB}, accelerator) (trainfleet_job_tensor_flops_per_second)
/ {_ON_KIND}
(
  sum by ({JOB}, accelerator) (
    {_HELD}
    * on (accelerator_model) group_left ()
    {PEAK}
  )
  unless {_ON_KIND}
  ({_HELD} unless on (accelerator_model) {PEAK})
)""",
        "[Model FLOPs utilization](goodput.md#mfu) of a job.",
    ),
    Record(
        "provider:trainfleet_mfu:ratio",
        f"sum {_BY_KIND} ({_HELD} * {_ON_KIND} group_left () {_MFU})\n/ sum {_BY_KIND} ({_HELD} and {_ON_KIND} {_MFU})",
        "MFU of the jobs with a known MFU, weighted by their accelerators.",
    ),
)

GOODPUT = Group("trainfleet-goodput", (*_JOB_RATIOS, *_FLEET, *_RELIABILITY, *_MONEY, *_UTILIZATION), switch="goodput")
