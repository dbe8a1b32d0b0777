{{/* The labels and annotations of a CRD. */}}
{{- define "holdfast-crd.metadata" -}}
labels:
  {{- $labels := dict
    "app.kubernetes.io/name" .Chart.Name
    "app.kubernetes.io/instance" .Release.Name
    "app.kubernetes.io/version" .Chart.AppVersion
    "app.kubernetes.io/managed-by" .Release.Service
    "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
  }}
  {{- merge $labels (default dict .Values.additionalLabels) | toYaml | nindent 2 }}
{{- $keep := ternary (dict "helm.sh/resource-policy" "keep") dict .Values.keep }}
{{- with merge dict $keep (default dict .Values.additionalAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
