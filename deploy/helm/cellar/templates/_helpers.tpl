{{- define "cellar.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cellar.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cellar.labels" -}}
{{ include "cellar.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "cellar.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.registry -}}{{ .Values.image.registry }}/{{- end -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end -}}

{{- define "cellar.secret" -}}
{{- default (include "cellar.fullname" .) .Values.auth.existingSecret -}}
{{- end -}}

{{/* Where a pod registers: in etcd by the release's name, or nowhere but in DNS. */}}
{{- define "cellar.cluster" -}}
{{- if .Values.cluster.etcd -}}
etcd:{{ join "," .Values.cluster.etcd }}/{{ .Release.Namespace }}-{{ include "cellar.fullname" . }}
{{- else -}}
dns:{{ include "cellar.fullname" . }}-headless.{{ .Release.Namespace }}.svc
{{- end -}}
{{- end -}}

{{/* Fails for values that contradict each other, and says how to fix them. */}}
{{- define "cellar.check" -}}
{{- $auth := .Values.auth -}}
{{- if and (not $auth.enabled) (not $auth.usersSecret) (not .Values.insecure) -}}
{{- fail "without auth.enabled or auth.usersSecret every client can read and change the cache; set insecure to true to allow this" -}}
{{- end -}}
{{- if and .Values.memcached.enabled (not $auth.usersSecret) (not .Values.insecure) -}}
{{- fail "the memcached protocol has no password without users: set auth.usersSecret, or insecure to true, or memcached.enabled to false" -}}
{{- end -}}
{{- if and $auth.existingSecret (or $auth.password $auth.httpToken) -}}
{{- fail "auth.existingSecret and auth.password or auth.httpToken are both set; remove one of them" -}}
{{- end -}}
{{- if and .Values.tls.enabled (not .Values.tls.certificatesSecret) -}}
{{- fail "tls.enabled needs tls.certificatesSecret, a secret with tls.crt and tls.key" -}}
{{- end -}}
{{- if and (ne (toString .Values.pdb.minAvailable) "") (ne (toString .Values.pdb.maxUnavailable) "") -}}
{{- fail "pdb.minAvailable and pdb.maxUnavailable are both set; remove one of them" -}}
{{- end -}}
{{- if and .Values.cluster.etcd (not .Values.cluster.enabled) -}}
{{- fail "cluster.etcd needs cluster.enabled" -}}
{{- end -}}
{{- if and .Values.cluster.enabled (not .Values.redis.enabled) -}}
{{- fail "cluster.enabled needs redis.enabled: cluster clients use the Redis protocol" -}}
{{- end -}}
{{- if and .Values.cluster.etcdUser (not .Values.cluster.etcdSecret) -}}
{{- fail "cluster.etcdUser needs cluster.etcdSecret, a secret with password" -}}
{{- end -}}
{{- range .Values.cluster.etcd -}}
{{- if and (hasPrefix "https:" .) (not $.Values.cluster.etcdSecret) -}}
{{- fail "etcd over TLS needs cluster.etcdSecret, a secret with ca.crt" -}}
{{- end -}}
{{- end -}}
{{- $stop := add .Values.lameDuckSeconds .Values.drainTimeoutSeconds | int -}}
{{- if le (int .Values.terminationGracePeriodSeconds) $stop -}}
{{- fail (printf "terminationGracePeriodSeconds must exceed lameDuckSeconds plus drainTimeoutSeconds, %d" $stop) -}}
{{- end -}}
{{- end -}}
