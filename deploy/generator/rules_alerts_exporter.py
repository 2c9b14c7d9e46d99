"""Alerts about the exporter and its calls to the clouds."""

from __future__ import annotations

from textwrap import indent

from deploy.generator.rules_model import Alert, Group

_UP = 'up{job=~"<exporter_job>"} == 0'
_UNWATCHED = """\
(
  max by (provider, instance, job) (last_over_time(trainfleet_provider_info{job=~"<exporter_job>"}[1d]))
  unless on (provider)
  max by (provider) (trainfleet_provider_up)
)"""
# Each shard has its own parts, so each has its own alert. Replicas poll the same parts, so the best one counts.
# The age is measured at the scrape. With `time()`, it would grow until the next scrape.
_LAST_SUCCESS = "trainfleet_exporter_collector_last_success_timestamp_seconds"
_STALE = """\
min by ({by}) (
  last_over_time((timestamp({success}) - {success})[<bridge>:1m]){which}
)
> <stale_intervals> * max by ({by}) (
  last_over_time(trainfleet_exporter_collector_interval_seconds[<bridge>]){which}
)
unless on ({by})
(
  max by ({by}) ({success}{which}) == 0
  unless on ({by})
  max by ({by}) (trainfleet_exporter_collector_success{which})
)"""
_NOT_STANDBY = "unless on (instance, job) trainfleet_exporter_leader == 0"
_OF_SHARDS = f" and on (instance, job) last_over_time(trainfleet_exporter_total_shards[<bridge>]) > 1 {_NOT_STANDBY}"


EXPORTER_ALERTS = Group(
    "trainfleet-exporter-alerts",
    (
        Alert(
            "TrainfleetExporterDown",
            # By provider, so that it mutes only the alerts about providers that no exporter polls.
            # The second part finds exporters that are no longer targets, such as a pod that Kubernetes cannot place.
            f"""\
{_UNWATCHED}
and on (instance, job)
{_UP}
or on (provider, job)
(
  max by (provider, job) (
{indent(_UNWATCHED, " " * 4)}
    unless on (instance, job)
    up{{job=~"<exporter_job>"}}
  )
  unless on (job)
  min by (job) (up{{job=~"<exporter_job>"}}) == 1
)
or on (instance, job)
{_UP}
or on ()
absent(up{{job=~"<exporter_job>"}})""",
            "critical",
            "{{ if $labels.instance }}The exporter {{ $labels.instance }} does not respond"
            "{{ else if $labels.provider }}No exporter that polls {{ $labels.provider }} responds"
            "{{ else }}Prometheus scrapes no exporter{{ end }}",
            "Prometheus could not scrape {{ with $labels.instance }}it{{ else }}any{{ end }} for "
            "<exporter_down_for>. {{ with $labels.provider }}The jobs and pools of {{ . }} are not monitored."
            "{{ else }}Jobs and pools may not be monitored.{{ end }}",
            "<exporter_down_for>",
        ),
        Alert(
            "TrainfleetProviderDown",
            "max by (provider) (last_over_time(trainfleet_provider_up[<bridge>])) == 0",
            "critical",
            "No collector of {{ $labels.provider }} succeeds",
            "No collector of {{ $labels.provider }} has succeeded for <provider_down_for>. The last good values stay "
            "for a few polls. Then the series disappear and their alerts end.",
            "<provider_down_for>",
        ),
        Alert(
            "TrainfleetCollectorStale",
            # The last `unless` of each part excludes a first cycle over many jobs that has not ended yet.
            _STALE.format(by="provider, collector, instance, job", which=_OF_SHARDS, success=_LAST_SUCCESS)
            + "\nor on (provider, collector)\n"
            + _STALE.format(by="provider, collector", which="", success=_LAST_SUCCESS),
            "warning",
            "The collector {{ $labels.collector }} of {{ $labels.provider }} is stale"
            "{{ with $labels.instance }} in the shard {{ . }}{{ end }}",
            "{{ if gt $value 1e9 }}It has had no completely successful poll.{{ else }}Its latest completely successful "
            "poll was {{ $value | humanizeDuration }} ago.{{ end }} Parts that fail keep their last good values for a "
            "few polls. Then their series disappear.",
            "<stale_for>",
        ),
        Alert(
            "TrainfleetApiThrottled",
            """\
sum by (provider, api) (rate(trainfleet_exporter_api_requests_total{outcome="throttled"}[<throttled_window>]))
/ sum by (provider, api) (rate(trainfleet_exporter_api_requests_total[<throttled_window>]))
> <throttled_ratio>""",
            "warning",
            "The cloud throttles calls to {{ $labels.api }} of {{ $labels.provider }}",
            "{{ $value | humanizePercentage }} of the calls to {{ $labels.api }} of {{ $labels.provider }} were "
            "throttled within <throttled_window>.",
            "<throttled_for>",
            flaps=True,
        ),
        Alert(
            "TrainfleetApiBudgetExceeded",
            """\
30 * 86400 * sum by (provider, api) (rate(trainfleet_exporter_api_requests_total[<budget_window>]))
> <budget_ratio> * max by (provider, api) (last_over_time(trainfleet_exporter_api_budget_calls[<bridge>]))""",
            "warning",
            "{{ $labels.provider }} makes more calls to {{ $labels.api }} than its budget allows",
            "At the rate of the last <budget_window>, {{ $labels.provider }} would call {{ $labels.api }} "
            "{{ $value | humanize }} times in 30 days. This is more than <budget_ratio> times its budget. Nothing "
            "stops these calls. The usual cause is an exporter that restarts again and again.",
            "<budget_for>",
        ),
        Alert(
            "TrainfleetCollectorStretched",
            """\
max by (provider, collector) (
  last_over_time(trainfleet_exporter_collector_interval_seconds[<bridge>])
  / last_over_time(trainfleet_exporter_collector_configured_interval_seconds[<bridge>])
) > <stretched_ratio>""",
            "warning",
            "The collector {{ $labels.collector }} of {{ $labels.provider }} polls too rarely",
            "Its interval is {{ $value | humanize }} times the configured one. A budget of calls, the rate limit or a "
            "slow cloud makes it longer.",
            "<stretched_for>",
        ),
        Alert(
            "TrainfleetCredentialsExpiring",
            """\
min by (provider) (
  last_over_time(trainfleet_exporter_credentials_expiry_timestamp_seconds[<bridge>]) - time()
) < <credentials_seconds>""",
            "critical",
            "The credentials of {{ $labels.provider }} {{ if gt $value 0.0 }}expire soon{{ else }}have expired"
            "{{ end }}",
            "{{ if gt $value 0.0 }}They expire in {{ $value | humanizeDuration }}. Then the cloud rejects every call."
            "{{ else }}The cloud rejects every call.{{ end }} The exporter could not refresh them.",
            "<credentials_for>",
        ),
        Alert(
            "TrainfleetConfigReloadFailed",
            "last_over_time(trainfleet_exporter_config_last_reload_successful[<bridge>]) == 0",
            "warning",
            "The config file of {{ $labels.instance }} is invalid",
            "The latest reload failed, and the old config stays in use. The exporter will not start with this file.",
            "<reload_failed_for>",
        ),
        Alert(
            "TrainfleetShardMissing",
            # Present shards are not bridged, because that would delay the alert. If none is present, the count is 0.
            """\
max by (job) (last_over_time(trainfleet_exporter_total_shards[<bridge>]) > 1)
- on (job)
(
  count by (job) (
    count_values by (job) (
      "shard",
      trainfleet_exporter_shard_ordinal and on (instance, job) trainfleet_exporter_total_shards > 1
    )
  )
  or on (job)
  0 * max by (job) (last_over_time(trainfleet_exporter_total_shards[<bridge>]))
)
> 0""",
            "critical",
            "Shards of {{ $labels.job }} are missing: {{ $value }}",
            "Prometheus has not scraped them for <shards_for>. Their providers are not monitored.",
            "<shards_for>",
        ),
        Alert(
            "TrainfleetShardsDisagree",
            f"""\
count by (job) (count_values by (job) ("total", trainfleet_exporter_total_shards > 1)) > 1
or on (job)
max by (job) (
  count_values by (job) (
    "shard",
    trainfleet_exporter_shard_ordinal
    and on (instance, job) trainfleet_exporter_total_shards > 1
    {_NOT_STANDBY}
  )
) > 1""",
            "warning",
            "The shards of {{ $labels.job }} have conflicting flags",
            "For <shards_for>, shards have had different values of --total-shards or the same --shard. If two "
            "shards poll a provider, sums count it twice. If no shard polls it, its series are missing.",
            "<shards_for>",
        ),
        Alert(
            "TrainfleetNoLeader",
            """\
sum by (job) (trainfleet_exporter_leader)
< on (job)
max by (job) (trainfleet_exporter_total_shards and on (instance, job) trainfleet_exporter_leader)""",
            "critical",
            "No exporter of {{ $labels.job }} holds the lease",
            "For <exporter_down_for>, fewer exporters of {{ $labels.job }} have polled than there are shards. Jobs and "
            "pools that no exporter polls are not monitored.",
            "<exporter_down_for>",
        ),
        Alert(
            "TrainfleetWriteErrors",
            # A busy API server may fail a few writes of the lease. A ledger is written only when a job ends.
            """\
max by (instance, job, target) (
  changes(trainfleet_exporter_write_errors_total{target="lease"}[<bridge>]) > 2
  or
  increase(trainfleet_exporter_write_errors_total{target="ledger"}[<bridge>]) > 0
)""",
            "warning",
            "The exporter {{ $labels.instance }} cannot write the {{ $labels.target }}",
            "Its writes failed within <bridge>. {{ if eq $labels.target `lease` }}It cannot take or keep the lease."
            "{{ else }}Jobs that ended wait for the ledger, and some may be lost.{{ end }} Its log names the cause.",
        ),
        Alert(
            "TrainfleetHandshakesRefused",
            """\
sum by (instance, job) (
  increase(trainfleet_exporter_http_rejected_total{reason="tls"}[<handshakes_window>])
) >= <handshakes>""",
            "info",
            "The exporter {{ $labels.instance }} refuses TLS handshakes",
            "It refused {{ $value | humanize }} within <handshakes_window>. A client has no valid certificate, does "
            "not trust the certificate of the exporter, or does not speak TLS. The log names the client and the cause.",
            "<handshakes_for>",
        ),
    ),
)
