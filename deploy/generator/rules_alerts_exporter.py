"""Alerts about the exporter itself and its way to the clouds."""

from __future__ import annotations

from textwrap import indent

from deploy.generator.rules_model import Alert, Group

_UP = 'up{job="<exporter_job>"} == 0'
_UNWATCHED = """\
(
  max by (provider, instance, job) (last_over_time(trainfleet_provider_info{job="<exporter_job>"}[1d]))
  unless on (provider)
  max by (provider) (trainfleet_provider_up)
)"""
# Told per exporter where several share the work: each has parts of its own. Of others only the best counts, since what
# one of them does not poll another one does.
_STALE = """\
min by ({by}) (
  time() - last_over_time(trainfleet_exporter_collector_last_success_timestamp_seconds[<bridge>]){which}
)
> <stale_intervals> * max by ({by}) (
  last_over_time(trainfleet_exporter_collector_interval_seconds[<bridge>]){which}
)
unless on ({by})
(
  max by ({by}) (trainfleet_exporter_collector_last_success_timestamp_seconds{which}) == 0
  unless on ({by})
  max by ({by}) (trainfleet_exporter_collector_success{which})
)"""
_OF_SHARDS = " and on (instance, job) last_over_time(trainfleet_exporter_total_shards[<bridge>]) > 1"
# The rest of the calendar month in UTC+8, by which both clouds bill; in seconds.
_BEIJING = "vector(time() + 28800)"
_MONTH_LEFT = f"(86400 * (days_in_month({_BEIJING}) - day_of_month({_BEIJING}) + 1) - (time() + 28800) % 86400)"
_MONTH = f"(86400 * days_in_month({_BEIJING}))"

EXPORTER_ALERTS = Group(
    "trainfleet-exporter-alerts",
    (
        Alert(
            "TrainfleetExporterDown",
            # By provider, so that it can silence what is said about those that nobody polls now, and only about them.
            # The second part is of exporters that are no target any more, such as a pod that Kubernetes cannot place.
            f"""\
{_UNWATCHED}
and on (instance, job)
{_UP}
or on (provider, job)
(
  max by (provider, job) (
{indent(_UNWATCHED, " " * 4)}
    unless on (instance, job)
    up{{job="<exporter_job>"}}
  )
  and on (job)
  ({_UP} or absent(up{{job="<exporter_job>"}}))
)
or on (instance, job)
{_UP}
or on (job)
absent(up{{job="<exporter_job>"}})""",
            "critical",
            "Prometheus cannot scrape the exporter, or has none to scrape; one alert for each provider that nobody "
            "watches meanwhile.",
            "{{ if $labels.instance }}The exporter {{ $labels.instance }} does not answer{{ else if $labels.provider }}"
            "No exporter that polls {{ $labels.provider }} answers{{ else }}Prometheus scrapes no exporter{{ end }}",
            "Prometheus has not been able to scrape {{ with $labels.instance }}it{{ else }}any{{ end }} for "
            "<exporter_down_for>. {{ with $labels.provider }}Nobody watches the jobs and pools of {{ . }} meanwhile."
            "{{ else }}What it watches may have gone unseen since.{{ end }}",
            "<exporter_down_for>",
        ),
        Alert(
            "TrainfleetProviderDown",
            "max by (provider) (last_over_time(trainfleet_provider_up[<bridge>])) == 0",
            "critical",
            "No collector of a provider succeeds.",
            "Nothing can be polled of {{ $labels.provider }}",
            "No collector of {{ $labels.provider }} has succeeded for <provider_down_for>. Its last good answers are "
            "shown for a few polls and then go, and its alerts with them.",
            "<provider_down_for>",
        ),
        Alert(
            "TrainfleetCollectorStale",
            # The last `unless` of each is about a first cycle over many jobs, after a start, that has not ended yet.
            _STALE.format(by="provider, collector, instance, job", which=_OF_SHARDS)
            + "\nor on (provider, collector)\n"
            + _STALE.format(by="provider, collector", which=""),
            "warning",
            "A collector has not polled with full success for <stale_intervals> of its intervals.",
            "The collector {{ $labels.collector }} of {{ $labels.provider }} is behind"
            "{{ with $labels.instance }} in the shard {{ . }}{{ end }}",
            "{{ if gt $value 1e9 }}It has never polled with every part succeeding.{{ else }}It last polled with every "
            "part succeeding {{ $value | humanizeDuration }} ago.{{ end }} What fails shows its last good answer for "
            "a few polls and then goes.",
            "<stale_for>",
        ),
        Alert(
            "TrainfleetApiThrottled",
            """\
sum by (provider, api) (rate(trainfleet_exporter_api_requests_total{outcome="throttled"}[<throttled_window>]))
/ sum by (provider, api) (rate(trainfleet_exporter_api_requests_total[<throttled_window>]))
> <throttled_ratio>""",
            "warning",
            "More than <throttled_ratio> of an API's calls were refused as too many.",
            "{{ $labels.provider }} throttles calls to {{ $labels.api }}",
            "{{ $value | humanizePercentage }} of the calls to {{ $labels.api }} of {{ $labels.provider }} were "
            "refused as too many within <throttled_window>.",
            "<throttled_for>",
        ),
        Alert(
            "TrainfleetApiBudgetRunningOut",
            f"""\
min by (provider, api) (last_over_time(trainfleet_exporter_api_budget_remaining_calls[<bridge>]))
and on (provider, api)
(
  min by (provider, api) (
    predict_linear(
      trainfleet_exporter_api_budget_remaining_calls[<budget_window>],
      <budget_share> * scalar{_MONTH_LEFT}
    )
  ) < 0
  and on (provider, api)
  min by (provider, api) (
    last_over_time(trainfleet_exporter_api_budget_remaining_calls[<bridge>])
    / last_over_time(trainfleet_exporter_api_budget_calls[<bridge>])
  ) < <budget_share> * scalar({_MONTH_LEFT} / {_MONTH})
  or
  min by (provider, api) (last_over_time(trainfleet_exporter_api_budget_remaining_calls[<bridge>])) <= 0
)
and on ()
{_MONTH_LEFT} > 86400""",
            "warning",
            "A month's budget of calls will be spent before the month ends, or is spent.",
            "The month's calls to {{ $labels.api }} of {{ $labels.provider }} run out",
            "{{ if gt $value 0.0 }}{{ $value | humanize }} calls are left of the month's budget, and at the pace of "
            "the last <budget_window> they are spent before the month ends{{ else }}None of the month's budget are left"
            "{{ end }}. Without any, what needs them is not polled until the next month.",
            "<budget_for>",
        ),
        Alert(
            "TrainfleetCredentialsExpiring",
            """\
min by (provider) (
  last_over_time(trainfleet_exporter_credentials_expiry_timestamp_seconds[<bridge>]) - time()
) < <credentials_seconds>""",
            "critical",
            "Temporary credentials end within <credentials_seconds> s, and are not being renewed.",
            "The credentials for {{ $labels.provider }} {{ if gt $value 0.0 }}are about to end{{ else }}have ended"
            "{{ end }}",
            "{{ if gt $value 0.0 }}They end in {{ $value | humanizeDuration }}{{ else }}They have ended{{ end }}, and "
            "the exporter, which renews them minutes before, has not been able to. Every call is refused from then on.",
            "<credentials_for>",
        ),
        Alert(
            "TrainfleetConfigReloadFailed",
            "last_over_time(trainfleet_exporter_config_last_reload_successful[<bridge>]) == 0",
            "warning",
            "The config file was read again and is not fit for use.",
            "The config file of {{ $labels.instance }} is not fit for use",
            "The exporter was told to read its config file again, and keeps the config before. It would not start with "
            "the file as it is.",
            "<reload_failed_for>",
        ),
        Alert(
            "TrainfleetShardMissing",
            """\
max by (job) (last_over_time(trainfleet_exporter_total_shards[<bridge>]) > 1)
- on (job)
count by (job) (
  count_values by (job) (
    "shard",
    last_over_time(trainfleet_exporter_shard_ordinal[<bridge>])
    and on (instance, job) last_over_time(trainfleet_exporter_total_shards[<bridge>]) > 1
  )
)
> 0""",
            "critical",
            "Of several exporters that share the work, some are not scraped.",
            "Shards of {{ $labels.job }} are missing: {{ $value }}",
            "Of the exporters that share the work, {{ $value }} have not been scraped for <shards_for>. Nobody watches "
            "the workspaces and pools that are theirs.",
            "<shards_for>",
        ),
        Alert(
            "TrainfleetShardsDisagree",
            """\
count by (job) (count_values by (job) ("total", trainfleet_exporter_total_shards > 1)) > 1
or on (job)
max by (job) (
  count_values by (job) (
    "shard",
    trainfleet_exporter_shard_ordinal and on (instance, job) trainfleet_exporter_total_shards > 1
  )
) > 1""",
            "warning",
            "Exporters that share the work were told different numbers of shards, or two of them the same one.",
            "The shards of {{ $labels.job }} do not agree on who polls what",
            "For <shards_for> the exporters have had more than one --total-shards, or two of them the same --shard. "
            "What two of them poll is counted twice in every sum, and what none of them polls is missing.",
            "<shards_for>",
        ),
    ),
)
