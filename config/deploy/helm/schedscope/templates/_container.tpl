{{- /* The agent's container; in a sidecar without what belongs to the node. */ -}}
{{- define "schedscope.container" -}}
{{- $sidecar := eq .Values.mode "sidecar" -}}
name: schedscope
image: {{ include "schedscope.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [--config, /etc/schedscope/agent.yaml]
env:
{{- if $sidecar }}
  - {name: K8S_POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: K8S_POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  - {name: K8S_NAMESPACE_NAME, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
{{- else }}
  - {name: K8S_NODE_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
{{- end }}
  - {name: K8S_NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
{{- with .Values.extraEnv }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .Values.extraEnvFrom }}
envFrom:
{{ toYaml . | indent 2 }}
{{- end }}
securityContext:
  readOnlyRootFilesystem: true
{{- if .Values.security.privileged }}
  privileged: true
{{- else }}
  allowPrivilegeEscalation: false
  # user 0 without its powers: Kubernetes gives capabilities to no other user
  runAsUser: 0
  capabilities:
    drop: [ALL]
    add: {{ toJson .Values.security.capabilities }}
  seccompProfile: {type: {{ .Values.security.seccompProfile }}}
{{- end }}
readinessProbe:
  httpGet: {path: /, port: {{ .Values.healthPort }}}
  periodSeconds: 2
livenessProbe:
  httpGet: {path: /, port: {{ .Values.healthPort }}}
  initialDelaySeconds: 15
  periodSeconds: 20
  failureThreshold: 6
resources:
{{ toYaml .Values.resources | indent 2 }}
volumeMounts:
  - {name: schedscope, mountPath: /etc/schedscope, readOnly: true}
{{- if not $sidecar }}
  - {name: cgroups, mountPath: /sys/fs/cgroup, readOnly: true}
  - {name: machine-id, mountPath: /etc/machine-id, readOnly: true}
{{- range $name, $path := .Values.runtimeSockets }}
  - {name: {{ $name }}, mountPath: {{ $path }}}
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end -}}

{{- /* The volumes that the container mounts. */ -}}
{{- define "schedscope.volumes" -}}
- {name: schedscope, configMap: {name: {{ include "schedscope.fullname" . }}}}
{{- if eq .Values.mode "daemonset" }}
- {name: cgroups, hostPath: {path: /sys/fs/cgroup}}
- {name: machine-id, hostPath: {path: /etc/machine-id, type: File}}
{{- range $name, $path := .Values.runtimeSockets }}
- {name: {{ $name }}, hostPath: {path: {{ $path }}, type: Socket}}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
