{{- define "trainfleet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "trainfleet.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "trainfleet.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "trainfleet.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The headless Service, which gives each shard a DNS name. */}}
{{- define "trainfleet.shards" -}}
{{- printf "%s-shards" (include "trainfleet.fullname" . | trunc 56 | trimSuffix "-") }}
{{- end }}

{{- define "trainfleet.selector" -}}
app.kubernetes.io/name: {{ include "trainfleet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The pod of `helm test`. It has another name in its labels, so that no Service routes to it. */}}
{{- define "trainfleet.test" -}}
{{- printf "%s-test" (include "trainfleet.fullname" . | trunc 58 | trimSuffix "-") }}
{{- end }}

{{- define "trainfleet.testSelector" -}}
app.kubernetes.io/name: {{ printf "%s-test" (include "trainfleet.name" . | trunc 58 | trimSuffix "-") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The update strategy of the Deployment or StatefulSet. */}}
{{- define "trainfleet.strategy" -}}
{{- $given := .Values.updateStrategy }}
{{- if .Values.sharding.enabled }}
{{- if eq ($given.type | default "") "Recreate" }}
{{- fail "updateStrategy.type: shards are a StatefulSet; allowed: RollingUpdate, OnDelete" }}
{{- end }}
{{- toYaml ($given | default (dict "type" "RollingUpdate")) }}
{{- else }}
{{- if and $given (not .Values.lease.enabled) (ne ($given.type | default "") "Recreate") }}
{{- fail "updateStrategy.type: the new pod would poll at the same time as the old one; allowed: Recreate; with lease.enabled or sharding.enabled also RollingUpdate" }}
{{- end }}
{{- if or (eq ($given.type | default "") "OnDelete") (hasKey ($given.rollingUpdate | default dict) "partition") }}
{{- fail "updateStrategy: OnDelete and partition need shards, which are a StatefulSet; allowed: Recreate, or RollingUpdate with maxSurge and maxUnavailable" }}
{{- end }}
{{- $rolling := dict "type" "RollingUpdate" "rollingUpdate" (dict "maxSurge" 0 "maxUnavailable" 1) }}
{{- toYaml ($given | default (ternary $rolling (dict "type" "Recreate") (gt (int .Values.replicaCount) 1))) }}
{{- end }}
{{- end }}

{{- define "trainfleet.labels" -}}
{{ include "trainfleet.selector" . }}
app.kubernetes.io/component: exporter
{{ include "trainfleet.otherLabels" . }}
{{- end }}

{{- define "trainfleet.otherLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: trainfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "trainfleet.image" -}}
{{- $repository := required "set image.repository to the image in your registry" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "trainfleet.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "trainfleet.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "trainfleet.workload" -}}
{{ ternary "statefulset" "deploy" .Values.sharding.enabled }}/{{ include "trainfleet.fullname" . }}
{{- end }}

{{/* The spec of the volume claim for the ledger. */}}
{{- define "trainfleet.claim" -}}
accessModes:
  {{- toYaml .Values.persistence.accessModes | nindent 2 }}
{{- with .Values.persistence.storageClass }}
storageClassName: {{ ternary "" . (eq . "-") | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .Values.persistence.size }}
{{- end }}

{{/* The config file from config.inline; empty if another source is set. Fails unless exactly one source is set. */}}
{{- define "trainfleet.config" -}}
{{- $sources := compact (list (ternary "demo" "" .Values.demo) (ternary "config.inline" "" (not (empty .Values.config.inline))) (ternary "config.existingConfigMap" "" (not (empty .Values.config.existingConfigMap))) (ternary "config.existingSecret" "" (not (empty .Values.config.existingSecret)))) }}
{{- if ne (len $sources) 1 }}
{{- fail (printf "exactly one of config.inline, config.existingConfigMap, config.existingSecret and demo=true must be given; found: %s" (join ", " $sources | default "none")) }}
{{- end }}
{{- if and .Values.demo (or .Values.web.config.existingSecret (eq .Values.web.scheme "https")) }}
{{- fail "the demo has no TLS and no users; with demo=true, set web.config.existingSecret to \"\" and web.scheme to http" }}
{{- end }}
{{- if and .Values.sharding.enabled .Values.demo }}
{{- fail "the demo is one exporter; with demo=true, set sharding.enabled to false" }}
{{- end }}
{{- if and .Values.sharding.enabled .Values.persistence.existingClaim }}
{{- fail "each shard needs its own volume; with sharding.enabled, set persistence.existingClaim to \"\"" }}
{{- end }}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.lease.enabled) }}
{{- fail "replicaCount: two replicas would poll everything twice; set it to 1, or set lease.enabled to true to make the others standbys" }}
{{- end }}
{{- if and .Values.lease.enabled .Values.demo }}
{{- fail "the demo is one exporter; with demo=true, set lease.enabled to false" }}
{{- end }}
{{- if and (gt (int .Values.replicaCount) 1) .Values.persistence.enabled (not .Values.persistence.existingClaim) (not .Values.sharding.enabled) (not (has "ReadWriteMany" .Values.persistence.accessModes)) }}
{{- fail "two pods share the volume; set persistence.accessModes to [ReadWriteMany], or persistence.enabled to false" }}
{{- end }}
{{- if and (eq .Values.web.scheme "https") (not .Values.web.config.existingSecret) (not .Values.extraArgs) }}
{{- fail "web.scheme: https needs a web config with a tls_server_config; set web.config.existingSecret" }}
{{- end }}
{{- $rules := .Values.prometheusRule }}
{{- $zero := toDate "2006" "1970" }}
{{- range prepend $rules.overrides $rules }}
{{- $wait := .thresholds.idle_for | default "1d" }}
{{- if and (not (regexMatch "[dwy]" $wait)) (le (sub (dateModify $wait $zero | unixEpoch) (unixEpoch $zero)) (int64 $rules.thresholds.reading_oldest_seconds)) }}
{{- fail (printf "prometheusRule: idle_for: found %s; allowed: over %vs, which is reading_oldest_seconds: else one old reading makes a job idle" $wait $rules.thresholds.reading_oldest_seconds) }}
{{- end }}
{{- end }}
{{- with .Values.config.inline }}
{{- $text := kindIs "string" . | ternary . (toYaml .) }}
{{- $removed := dict "state_file" "the exporter keeps no count of calls" "sharding" "a provider belongs to one shard, see docs/scale.md" }}
{{- range $key, $reason := $removed }}
{{- if regexMatch (printf "(?m)^[- ]*%s *:" $key) $text }}
{{- fail (printf "config.inline: %s was removed: %s; delete the key" $key $reason) }}
{{- end }}
{{- end }}
{{- $text }}
{{- end }}
{{- end }}

{{/* A probe of the page .path, with the periods and thresholds of .timing. */}}
{{- define "trainfleet.probe" -}}
{{- $web := .root.Values.web }}
{{- if eq .root.Values.probes.type "httpGet" }}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ upper $web.scheme }}
{{- else if eq .root.Values.probes.type "exec" }}
exec:
  command:
    - trainfleet-exporter
    - healthcheck
    - --url={{ $web.scheme }}://127.0.0.1:{{ $web.port }}{{ .path }}
    {{- if eq $web.scheme "https" }}
    - --tls.insecure-skip-verify
    {{- end }}
{{- else }}
tcpSocket:
  port: http
{{- end }}
{{- with .timing }}
{{ toYaml . }}
{{- end }}
{{- end }}
