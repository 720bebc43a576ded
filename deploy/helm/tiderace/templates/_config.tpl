{{/* A value in TOML. A string of JSON is one of TOML; whole numbers of a file of values are floats here. */}}
{{- define "tiderace.value" -}}
{{- if kindIs "string" . -}}
{{- toRawJson . -}}
{{- else if kindIs "slice" . -}}
[{{ range $place, $element := . }}{{ if $place }}, {{ end }}{{ include "tiderace.value" $element }}{{ end }}]
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{- define "tiderace.options" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ include "tiderace.value" $value }}
{{- end }}
{{- end -}}

{{/* A configuration of the server: sections, each a table or a list of tables. */}}
{{- define "tiderace.document" -}}
{{- range $name, $section := . }}
{{- if kindIs "slice" $section }}
{{- range $section }}
[[{{ $name }}]]
{{- include "tiderace.options" . }}
{{ end }}
{{- else if $section }}
[{{ $name }}]
{{- include "tiderace.options" $section }}
{{ end }}
{{- end }}
{{- end -}}

{{/* Bytes of a quantity such as 1Gi. */}}
{{- define "tiderace.bytes" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (regexFind "^[0-9.]+" . | float64) (get $units (regexFind "[A-Za-z]*$" .)) | int64 -}}
{{- end -}}

{{/* Whether somebody can log in; empty if not. */}}
{{- define "tiderace.logins" -}}
{{- $config := .Values.config -}}
{{- if or $config.user $config.token $config.jwt (default dict $config.auth_http).login_url (default dict $config.tls).client_names -}}
true
{{- end -}}
{{- end -}}

{{/* The names under which the Services and the Ingress lead to the server. */}}
{{- define "tiderace.hosts" -}}
{{- $names := list -}}
{{- $services := list "" "-operators" -}}
{{- if .Values.store.enabled }}{{ $services = append $services "-headless" }}{{ end -}}
{{- range $suffix := $services -}}
{{- $name := printf "%s%s" (include "tiderace.fullname" $) $suffix -}}
{{- range $domain := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.cluster.local" $.Release.Namespace) -}}
{{- $names = append $names (printf "%s%s" $name $domain) -}}
{{- if eq $suffix "-headless" }}{{ $names = append $names (printf "*.%s%s" $name $domain) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range (.Values.ingress.enabled | ternary .Values.ingress.hosts list) -}}
{{- $names = append $names .host -}}
{{- end -}}
{{- $names | toJson -}}
{{- end -}}

{{/* tiderace.toml: the configuration of the values, and what the rest of the chart stands on. */}}
{{- define "tiderace.toml" -}}
{{- $config := deepCopy .Values.config -}}
{{- $server := deepCopy (default dict $config.server) -}}
{{- with .Values.reloadInterval }}{{ $_ := set $server "reload_interval" . }}{{ end -}}
{{/* Without logins the server answers to names that it knows alone, so that no page makes its own name lead there. */}}
{{- if not (or $server.hosts (include "tiderace.logins" .) .Values.metrics.token.secret) -}}
{{- $_ := set $server "hosts" (include "tiderace.hosts" . | fromJsonArray) -}}
{{- end -}}
{{- $_ := set $config "server" $server -}}
{{/* The server's own default is a share of the machine's memory, which is not all the pod's. */}}
{{- $memory := deepCopy (default dict $config.memory) -}}
{{- $limit := (default dict .Values.resources.limits).memory -}}
{{/* A whole number of a file of values is a float here, which would be written with an exponent. */}}
{{- if kindIs "float64" $limit }}{{ $limit = int64 $limit }}{{ end -}}
{{- if and $limit (not $memory.messages_bytes_max) -}}
{{- $_ := set $memory "messages_bytes_max" (div (include "tiderace.bytes" (toString $limit) | int64) 4) -}}
{{- $_ := set $config "memory" $memory -}}
{{- end -}}
{{- if .Values.store.enabled -}}
{{- $_ := set $config "store" (set (deepCopy (default dict $config.store)) "directory" "/var/lib/tiderace/store") -}}
{{- end -}}
{{- $listeners := list (dict "name" "clients" "address" "*:7800") -}}
{{- range .Values.listeners -}}
{{- $listener := dict "name" .name "address" (printf "*:%d" (int64 .port)) -}}
{{- with .protocol }}{{ $_ := set $listener "protocol" . }}{{ end -}}
{{- with .tls }}{{ $_ := set $listener "tls" . }}{{ end -}}
{{- $listeners = append $listeners $listener -}}
{{- end -}}
{{/* Stays open in a drain, so that the server is not killed in the middle; in plain text as well, for the probes. */}}
{{- $operators := dict "name" "operators" "address" "*:7801" "protocol" "http" "stays_open" true -}}
{{- if (default dict $config.tls).only }}{{ $_ := set $operators "tls" "either" }}{{ end -}}
{{- $_ := set $config "listener" (append $listeners $operators) -}}
{{- with .Values.metrics.token -}}
{{- if .secret -}}
{{- $path := printf "file:/etc/tiderace/secrets/%s/%s" .secret .key -}}
{{- $_ := set $config "token" (append (default list $config.token) (dict "name" "metrics" "secret" $path)) -}}
{{- $rule := dict "allow" (list "monitor") "principals" (list "user:metrics") -}}
{{- $_ := set $config "rule" (append (default list $config.rule) $rule) -}}
{{- end -}}
{{- end -}}
{{- include "tiderace.document" $config | trim -}}
{{- end -}}

{{/* What the server would refuse to start with is said here, before anything is installed. */}}
{{- define "tiderace.check" -}}
{{- $config := .Values.config -}}
{{- if not (or (include "tiderace.logins" .) (default dict $config.auth).allow_anonymous) -}}
{{- fail "anybody could log in: give config.user, config.token, config.jwt, config.auth_http or config.tls.client_names, and config.rule; or, for closed networks, config.auth.allow_anonymous" -}}
{{- end -}}
{{- if and .Values.metrics.token.secret (not $config.rule) -}}
{{- fail "metrics.token brings a rule, and what no rule allows is refused: give config.rule for everybody else" -}}
{{- end -}}
{{- if eq (default dict $config.proxy).protocol "require" -}}
{{- fail "config.proxy.protocol: probes have no header of the PROXY protocol, so that the pods would be killed; use accept" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty" -}}
{{- end -}}
{{- end -}}
