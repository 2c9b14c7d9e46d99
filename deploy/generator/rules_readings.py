"""Records of the age of a job's usage, and of the usage that is new enough for alerts.

The exporter shows the last good reading until the next poll, which a budget may delay for hours. So alerts about usage
read these records: they have no sample in a minute without a new reading.
"""

from __future__ import annotations

from deploy.generator.rules_model import JOB, Group, Record

AGE = "job:trainfleet_usage_age:seconds"
LIMIT = "provider:trainfleet_usage_age_limit:seconds"
FRESH_USE = "job:trainfleet_accelerator_utilization_fresh:ratio"
OLD = f"unless on ({JOB})\n{AGE} > on (provider) group_left () {LIMIT}"
"""The end of each rule about readings. It drops jobs whose newest reading is too old."""

_USE = "job:trainfleet_accelerator_utilization:ratio"
_OWN = "trainfleet_exporter_collector"
_POLLED = f'{_OWN}_oldest_part_timestamp_seconds{{collector="usage"}}[<bridge>]'

READINGS = Group(
    "trainfleet-readings",
    (
        Record(
            AGE,
            # Bridged, so that readings also age while scrapes fail.
            f"""\
time() - max by ({JOB}) (last_over_time(trainfleet_job_usage_timestamp_seconds[<bridge>]))
or on ({JOB})
0 * max by ({JOB}) ({_USE})
+ on (provider) group_left ()
(time() - min by (provider) (last_over_time({_POLLED})))""",
            "Age of the newest usage reading of a job. If the platform reports no timestamps, the record is the "
            "time since the collector `usage` polled its oldest published part.",
        ),
        Record(
            LIMIT,
            f"""\
clamp_max(
  <reading_seconds>
  + <reading_intervals>
  * max by (provider) (last_over_time({_OWN}_interval_seconds{{collector="usage"}}[<bridge>])),
  <reading_oldest_seconds>
)""",
            "Greatest age of readings that alerts use: `reading_seconds` plus `reading_intervals` intervals of the "
            "collector `usage`, but at most `reading_oldest_seconds`.",
        ),
        Record(
            FRESH_USE,
            f"max by ({JOB}, accelerator) ({_USE})\n{OLD}",
            "Utilization of the accelerators of a job.",
        ),
    ),
)
