{{/*
The labels of an object: (list . "controller"), and perhaps a map with more. The chart's own win, then those of the map,
then commonLabels. Pods and selectors have the name only, as they must not change.
*/}}
{{- define "zoneward.labels" -}}
{{- $root := index . 0 -}}
{{- $more := ternary (last .) dict (eq (len .) 3) | default dict -}}
{{- $chart := printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $own := dict
  "app.kubernetes.io/name" (printf "zoneward-%s" (index . 1))
  "app.kubernetes.io/instance" $root.Release.Name
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" $chart
-}}
{{- toYaml (mergeOverwrite dict ($root.Values.commonLabels | default dict) $more $own) -}}
{{- end }}

{{/* Where the kubelet, which is on the node itself, reaches a port that listens on an address. */}}
{{- define "zoneward.probeHost" -}}
{{- if has . (list "" "0.0.0.0") }}127.0.0.1{{ else if eq . "[::]" }}::1{{ else }}{{ trimAll "[]" . }}{{ end -}}
{{- end }}

{{/* The image by its digest, else by its tag. */}}
{{- define "zoneward.image" -}}
{{- with .Values.image -}}
{{- .repository -}}{{- if .digest -}}@{{ .digest }}{{- else -}}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end }}

{{/* The configuration file of a program: (list . "controller"). */}}
{{- define "zoneward.configuration" -}}
{{- $root := index . 0 -}}
apiVersion: zoneward.dev/v1alpha1
kind: ZonewardConfiguration
{{- with omit ((index $root.Values (index . 1)).configuration | default dict) "apiVersion" "kind" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The ConfigMap of that file. */}}
{{- define "zoneward.configMap" -}}
{{- $root := index . 0 -}}
{{- $program := index . 1 -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: zoneward-{{ $program }}
  namespace: {{ (index $root.Values $program).namespace | quote }}
  labels:
    {{- include "zoneward.labels" . | nindent 4 }}
data:
  configuration.yaml: |
    {{- include "zoneward.configuration" . | nindent 4 }}
{{- end }}

{{/* Has Pods replaced when their configuration changes: programs read it once. */}}
{{- define "zoneward.checksum" -}}
checksum/configuration: {{ include "zoneward.configuration" . | sha256sum | quote }}
{{- end }}

{{/* A namespace that outlives the release: (list . "controller" "restricted"). */}}
{{- define "zoneward.namespace" -}}
{{- $root := index . 0 -}}
apiVersion: v1
kind: Namespace
metadata:
  name: {{ (index $root.Values (index . 1)).namespace | quote }}
  labels:
    {{- include "zoneward.labels" (list $root (index . 1)) | nindent 4 }}
    pod-security.kubernetes.io/enforce: {{ index . 2 }}
  annotations:
    # Deleting a namespace deletes everything in it, what others made too.
    helm.sh/resource-policy: keep
{{- end }}
