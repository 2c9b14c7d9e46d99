"""The dashboard "Job": the list of jobs, and one job with its pods and their devices."""

from __future__ import annotations

from deploy.generator.dashboards.dashboard import dashboard
from deploy.generator.dashboards.job_usage import DEVICES, PODS, USAGE
from deploy.generator.dashboards.panels import (
    IDLE_TO_BUSY,
    Json,
    Panel,
    Query,
    Scale,
    counts,
    money,
    number,
    row,
    stat,
    states,
    timeseries,
)
from deploy.generator.dashboards.promql import (
    ON_JOB,
    P,
    at_prices,
    hours,
    info,
    job_info,
    of_job,
    of_job_by,
    once,
    with_pool,
    with_workspace,
)
from deploy.generator.dashboards.tables import Column, table
from deploy.generator.dashboards.variables import PROVIDER, choice, datasource, named
from deploy.generator.rules_signals import LATEST, NETWORK, NETWORK_MEDIAN, POWER, POWER_MEDIAN

UID = "trainfleet-job"

_SOME = f'{P}, workspace_id=~"$workspace", user_name=~"$user"'
_ONE = f'{P}, job_id="$job_id"'
_HELD = f"sum_over_time(job:trainfleet_held_accelerators:sum{{{_ONE}}}[$__range])"
_CARDS = f"sum by (provider, job_id) (job:trainfleet_held_accelerators:sum{{{_ONE}}})"


def _variables() -> list[Json]:
    return [
        datasource(),
        PROVIDER,
        choice(
            "workspace",
            "Workspace",
            f"query_result(max by (workspace_id, workspace_name) (trainfleet_workspace_info{{{P}}}))",
            "Workspaces of the provider.",
            regex=named("workspace_name", "workspace_id"),
        ),
        choice(
            "user",
            "User",
            f'label_values(trainfleet_job_info{{{P}, workspace_id=~"$workspace"}}, user_name)',
            "Owners of the jobs.",
        ),
        choice(
            "status",
            "Status",
            f"label_values(trainfleet_job_status{{{P}}}, status)",
            "Statuses of the jobs in the list.",
        ),
        choice(
            "job_id",
            "Training job",
            f"query_result(max by (job_id, job_name) (trainfleet_job_info{{{_SOME}}}))",
            "The job that all panels below the list show.",
            regex=named("job_name", "job_id"),
            multi=False,
        ),
        choice("pod", "Pod", f"label_values(trainfleet_pod_info{{{_ONE}}}, pod_id)", "Pods of the job."),
    ]


def _list() -> list[Panel]:
    labels = "job_name, workspace_id, user_name, pool_id"
    status = info("provider, job_id", "status", f'trainfleet_job_status{{{P}, status=~"$status"}} == 1')
    created = (
        f"1000 * {of_job('created_timestamp_seconds')}\n* {ON_JOB} group_left (status)\n{status}\n"
        f"* {ON_JOB} group_left ({labels})\n{job_info(labels, _SOME)}"
    )
    those = f"and {ON_JOB} {once('provider, job_id', f'trainfleet_job_info{{{_SOME}}}')}\nand {ON_JOB} {status}"
    return [
        row("Jobs"),
        table(
            "Jobs",
            "Jobs that the exporter shows: live jobs, and finished jobs for an hour by default. Click a name to open "
            "the job below. An empty cell means that the cloud reports nothing.",
            "provider job_name job_id status user_name workspace_name pool_name",
            [
                Column("Created", with_workspace(with_pool(created)), "dateTimeAsIso"),
                Column(
                    "Accelerators",
                    f"sum by (provider, job_id) (job:trainfleet_held_accelerators:sum{{{P}}})\n{those}",
                    "short",
                ),
                Column(
                    "Utilization",
                    f"avg by (provider, job_id) (trainfleet_job_accelerator_utilization_ratio{{{P}}})\n{those}",
                    "percentunit",
                    IDLE_TO_BUSY,
                    gauge=True,
                ),
                Column(
                    "Waiting for",
                    f"max by (provider, job_id) (job:trainfleet_queue_age:seconds{{{P}}})\n{those}",
                    "s",
                    Scale("text", ((3600, "orange"),)),
                ),
                Column("Place in queue", f"{of_job('queue_position')}\n{those}"),
                Column(
                    "Restarts",
                    f"max by (provider, job_id) (trainfleet_job_restarts_total{{{P}}})\n{those}",
                    "short",
                    Scale("text", ((1, "orange"), (3, "red"))),
                ),
            ],
            sort="Created",
            height=11,
        ),
    ]


def _facts() -> list[Panel]:
    owner = "job_name, job_type, user_name, resource_type, payment_type"
    return [
        row("Job $job_id"),
        stat(
            "Status",
            "The current status.",
            "none",
            Query(f"{of_job_by('status', 'status', _ONE)} == 1", "{{status}}"),
            text="name",
            width=3,
        ),
        stat(
            "Reason",
            "The platform's reason code of the status, if there is one.",
            "none",
            Query(of_job_by("reason", "status_reason", _ONE), "{{reason}}"),
            text="name",
            width=3,
        ),
        stat(
            "User",
            "Owner of the job, if the cloud reports one.",
            "none",
            Query(job_info("user_name", f'{_ONE}, user_name!=""'), "{{user_name}}"),
            text="name",
            width=3,
        ),
        number(
            "Held accelerators",
            "Accelerators that the job holds now, by model.",
            Query(
                f"sum by (accelerator, accelerator_model) (job:trainfleet_held_accelerators:sum{{{_ONE}}})",
                "{{accelerator}} {{accelerator_model}}",
            ),
            text="value_and_name",
            width=3,
        ),
        stat(
            "Running for",
            "Duration of the job, as the platform counts it.",
            "s",
            Query(of_job("duration_seconds", _ONE), "duration"),
            width=3,
        ),
        number(
            "Restarts",
            "Restarts so far, and the allowed number if the cloud reports it.",
            Query(f"max(trainfleet_job_restarts_total{{{_ONE}}})", "so far"),
            Query(of_job("restarts_allowed", _ONE), "allowed"),
            text="value_and_name",
            width=3,
        ),
        stat(
            "Accelerator-hours",
            "Held and wasted within the chosen time. Wasted is held minus used, for accelerators with known usage.",
            "h",
            Query(hours(f"job:trainfleet_held_accelerators:sum{{{_ONE}}}", ""), "held"),
            Query(hours(f"job:trainfleet_wasted_accelerators:sum{{{_ONE}}}", ""), "wasted"),
            text="value_and_name",
            width=3,
        ),
        money(
            "Cost",
            "Cost of the accelerators held within the chosen time, by the table of prices.",
            Query(f"sum by (currency) (\n{at_prices(_HELD)}\n) / 60", "{{currency}}"),
            width=3,
        ),
        table(
            "Details and requests",
            "From the cloud's list of jobs. An empty cell means that the cloud reports nothing.",
            "job_name=Job job_type user_name resource_type=Resources payment_type",
            [
                Column(
                    "Created",
                    f"1000 * {of_job('created_timestamp_seconds', _ONE)}\n"
                    f"* {ON_JOB} group_left ({owner})\n{job_info(owner, _ONE)}",
                    "dateTimeAsIso",
                ),
                Column("Started", f"1000 * {of_job('started_timestamp_seconds', _ONE)}", "dateTimeAsIso"),
                Column("Finished", f"1000 * {of_job('finished_timestamp_seconds', _ONE)}", "dateTimeAsIso"),
                Column("Priority", of_job("priority", _ONE)),
                Column("Nodes", of_job("requested_nodes", _ONE)),
                Column("CPU cores", of_job("requested_cpu_cores", _ONE), "short"),
                Column("Memory", of_job("requested_memory_bytes", _ONE), "bytes"),
                Column(
                    "Accelerators",
                    f"sum by (provider, job_id) ({_once_requested()})",
                    "short",
                ),
            ],
            sort="Created",
            height=4,
        ),
        states(
            "Status over time",
            "The job's status, in the terms that all clouds share.",
            Query(f"{once('status', f'trainfleet_job_status{{{_ONE}}}')} == 1", "{{status}}"),
            words={1: ("this status", "blue")},
            width=12,
            height=7,
        ),
        counts(
            "Restarts",
            "Restarts of the job within each interval of the graph.",
            Query(f"max(increase(trainfleet_job_restarts_total{{{_ONE}}}[$__rate_interval]))", "restarts"),
            width=6,
            height=7,
        ),
        counts(
            "Accelerators",
            "Held accelerators, and used ones: held times utilization.",
            Query(_CARDS, "held"),
            Query(_CARDS.replace("held", "used"), "used"),
            width=6,
            height=7,
        ),
        states(
            "Alerts",
            "Alerts about the job and its pods, pending or firing.",
            Query(
                f'max by (alertname, alertstate) (ALERTS{{alertname=~"Trainfleet.+", {_ONE}}})',
                "{{alertname}} {{alertstate}}",
            ),
            words={1: ("active", "red")},
            width=12,
        ),
        timeseries(
            "Power and traffic compared with the job's own median",
            "A hung job keeps its accelerators busy, but draws less power and has no traffic. The graph begins an hour "
            "after the first reading, if the source reports power and traffic.",
            "percentunit",
            Query(_of_median(POWER, POWER_MEDIAN), "power"),
            Query(_of_median(NETWORK, NETWORK_MEDIAN), "traffic"),
            width=12,
        ),
    ]


def _of_median(signal: str, median: str) -> str:
    return f"max({signal}{{{_ONE}}} / (last_over_time({median}{{{_ONE}}}[{LATEST}]) > 0))"


def _once_requested() -> str:
    return once("provider, job_id, accelerator, accelerator_model", f"trainfleet_job_requested_accelerators{{{_ONE}}}")


def build() -> str:
    """Return the JSON of the dashboard."""
    return dashboard(
        UID,
        "Trainfleet / Job",
        "The list of jobs. Then the status, usage, pods and devices of one job.",
        _variables(),
        [*_list(), *_facts(), *USAGE, *PODS, *DEVICES],
    )
