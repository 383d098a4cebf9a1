{{- /* The config as YAML: what the values say, and `config` laid over it. */ -}}
{{- define "schedscope.config" -}}
{{- $sidecar := eq .Values.mode "sidecar" -}}
{{- $kubernetes := dict "source" .Values.kubernetes.source -}}
{{- if $sidecar -}}
{{- $kubernetes = dict "source" "downward" -}}
{{- else if .Values.kubernetes.insecureSkipVerify -}}
{{- $_ := set $kubernetes "insecure_skip_verify" true -}}
{{- end -}}
{{- $runtimes := list -}}
{{- if and .Values.runtimeSockets (not $sidecar) -}}
{{- $runtimes = dict -}}
{{- range $name, $path := .Values.runtimeSockets -}}
{{- $_ := set $runtimes $name (dict "endpoint" (printf "unix://%s" $path)) -}}
{{- end -}}
{{- end -}}
{{- $container := dict "runtimes" $runtimes "kubernetes" $kubernetes -}}
{{- with .Values.kubernetes.labels -}}
{{- $_ := set $container "labels" . -}}
{{- end -}}
{{- $processors := dict "container" $container "sched_metrics" dict -}}
{{- $after := list "batch" -}}
{{- $sends := ne .Values.otlp.endpoint "" -}}
{{- if and $sends (not .Values.hostNetwork) (not $sidecar) -}}
{{- /* a pod with a network of its own has its own host name: the node's is meant */ -}}
{{- $node := dict "key" "host.name" "action" "update" "value" "${env:K8S_NODE_NAME}" -}}
{{- $_ := set $processors "resource" (dict "attributes" (list $node)) -}}
{{- $after = list "resource" "batch" -}}
{{- end -}}
{{- $pipelines := dict -}}
{{- $exporters := dict -}}
{{- if $sends -}}
{{- $_ := set $processors "batch" dict -}}
{{- $id := printf "otlp_%s" .Values.otlp.protocol -}}
{{- $exporter := dict "endpoint" .Values.otlp.endpoint -}}
{{- if .Values.otlp.insecure -}}
{{- $_ := set $exporter "tls" (dict "insecure" true) -}}
{{- end -}}
{{- with .Values.otlp.headers -}}
{{- $_ := set $exporter "headers" . -}}
{{- end -}}
{{- $_ := set $exporters $id $exporter -}}
{{- if .Values.signals.metrics -}}
{{- $_ := set $pipelines "metrics" (dict "receivers" (list "sched") "processors" (concat (list "container" "sched_metrics") $after) "exporters" (list $id)) -}}
{{- end -}}
{{- if .Values.signals.traces -}}
{{- $_ := set $processors "sched_spans" dict -}}
{{- $_ := set $pipelines "traces" (dict "receivers" (list "sched") "processors" (concat (list "container" "sched_spans") $after) "exporters" (list $id)) -}}
{{- end -}}
{{- else -}}
{{- $_ := set $exporters "table" dict -}}
{{- $_ := set $pipelines "metrics" (dict "receivers" (list "sched") "processors" (list "container" "sched_metrics") "exporters" (list "table")) -}}
{{- end -}}
{{- $config := dict
  "receivers" (dict "sched" (dict))
  "processors" $processors
  "exporters" $exporters
  "extensions" (dict "health_check" (dict "endpoint" (printf "${env:POD_IP}:%v" .Values.healthPort)))
  "service" (dict "extensions" (list "health_check") "pipelines" $pipelines) -}}
{{- mustMergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end -}}
