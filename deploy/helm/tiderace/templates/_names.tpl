{{- define "tiderace.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough that `-operators` may follow. */}}
{{- define "tiderace.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "tiderace.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tiderace.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tiderace.selector" -}}
app.kubernetes.io/name: {{ include "tiderace.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tiderace.labels" -}}
{{ include "tiderace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What stands in `metadata` of each object; takes the root and what is put behind the name. */}}
{{- define "tiderace.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "tiderace.fullname" $root }}{{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "tiderace.labels" $root | nindent 2 }}
{{- end -}}

{{- define "tiderace.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tiderace.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tiderace.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
