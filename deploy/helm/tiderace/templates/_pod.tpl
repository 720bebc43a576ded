{{/* The Secrets that are mounted, each once. */}}
{{- define "tiderace.secrets" -}}
{{- append .Values.secrets .Values.metrics.token.secret | compact | uniq | toJson -}}
{{- end -}}

{{/* Sleep, drain, and what ending takes: 10 s for who is late to leave, shutdown_grace, and 30 s to close. */}}
{{- define "tiderace.grace" -}}
{{- add .Values.drain.sleepSeconds .Values.drain.overSeconds 50 -}}
{{- end -}}

{{/* A probe of the port that stays open in a drain; takes the root, the path and its numbers. */}}
{{- define "tiderace.probe" -}}
httpGet: {path: {{ index . 0 }}, port: operators}
{{ toYaml (index . 1) }}
{{- end -}}

{{/* The pod of a Deployment or StatefulSet; takes the root. */}}
{{- define "tiderace.pod" -}}
metadata:
  labels:
    {{- include "tiderace.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: tiderace
    {{- if not .Values.reloadInterval }}
    checksum/config: {{ include "tiderace.toml" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tiderace.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "tiderace.grace" . }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: tiderace
      image: {{ include "tiderace.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/tiderace/config/tiderace.toml]
      env:
        - name: TIDERACE_SERVER__NODE
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        # Beside the grace that it needs: a configuration that is read again reaches pods that have another one.
        - {name: TIDERACE_SERVER__DRAIN_OVER, value: {{ printf "%ds" (int64 .Values.drain.overSeconds) }}}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: clients, containerPort: 7800}
        - {name: operators, containerPort: 7801}
        {{- range .Values.listeners }}
        - {name: {{ .name }}, containerPort: {{ .port }}}
        {{- end }}
      startupProbe:
        {{- $times := max 1 (div (add .Values.startupSeconds 4) 5) }}
        {{- include "tiderace.probe" (list "/livez" (dict "periodSeconds" 5 "failureThreshold" $times)) | nindent 8 }}
      readinessProbe:
        {{- include "tiderace.probe" (list "/readyz" .Values.probes.readiness) | nindent 8 }}
      livenessProbe:
        {{- include "tiderace.probe" (list "/livez" .Values.probes.liveness) | nindent 8 }}
      lifecycle:
        preStop: {sleep: {seconds: {{ .Values.drain.sleepSeconds }}}}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/tiderace/config, readOnly: true}
        - {name: data, mountPath: /var/lib/tiderace}
        {{- range $place, $secret := include "tiderace.secrets" . | fromJsonArray }}
        - {name: secret-{{ $place }}, mountPath: /etc/tiderace/secrets/{{ $secret }}, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "tiderace.fullname" . }}}
    {{- if not .Values.store.enabled }}
    - name: data
      emptyDir: {sizeLimit: {{ .Values.scratch.sizeLimit }}}
    {{- end }}
    {{- range $place, $secret := include "tiderace.secrets" . | fromJsonArray }}
    - name: secret-{{ $place }}
      secret: {secretName: {{ $secret }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "tiderace.selector" . | nindent 10 }}
    {{- end }}
{{- end -}}
