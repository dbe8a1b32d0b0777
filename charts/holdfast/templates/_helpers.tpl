{{/* Names */}}

{{- define "holdfast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "holdfast.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.serviceAccountName" -}}
{{- default (ternary (include "holdfast.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "holdfast.leaseNamespace" -}}
{{- tpl (default .Release.Namespace .Values.settings.leaderElectionNamespace) . -}}
{{- end -}}

{{- define "holdfast.leaseName" -}}
{{- tpl (default "holdfast-leader-election" .Values.settings.leaderElectionName) . -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- $digest := .Values.image.digest -}}
{{- printf "%s:%s%s" .Values.image.repository $tag (ternary (printf "@%s" $digest) "" (ne (default "" $digest) "")) -}}
{{- end -}}

{{/* Labels and annotations */}}

{{- define "holdfast.selectorLabels" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
-}}
{{- merge $labels (include "holdfast.selectorLabels" . | fromYaml) (default dict .Values.additionalLabels) | toYaml -}}
{{- end -}}

{{/* The labels and annotations of an object. Takes the root, and labels and annotations of this object alone. */}}
{{- define "holdfast.metadata" -}}
labels:
  {{- merge (include "holdfast.labels" .root | fromYaml) (default dict .labels) | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) (default dict .root.Values.additionalAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Scheduling. As in Karpenter's chart, a term without a label selector gets the selector of the pods: without one,
a term selects no pod and has no effect. */}}

{{- define "holdfast.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $selector := dict "matchLabels" (include "holdfast.selectorLabels" . | fromYaml) -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- with get $affinity $kind -}}
{{- range .requiredDuringSchedulingIgnoredDuringExecution -}}
{{- if not .labelSelector -}}{{- $_ := set . "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- range .preferredDuringSchedulingIgnoredDuringExecution -}}
{{- if not .podAffinityTerm.labelSelector -}}{{- $_ := set .podAffinityTerm "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{- define "holdfast.topologySpreadConstraints" -}}
{{- $constraints := deepCopy .Values.topologySpreadConstraints -}}
{{- $selector := dict "matchLabels" (include "holdfast.selectorLabels" . | fromYaml) -}}
{{- range $constraints -}}
{{- if not .labelSelector -}}{{- $_ := set . "labelSelector" $selector -}}{{- end -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}

{{/* Metrics: the label matchers of this release. */}}
{{- define "holdfast.matchers" -}}
{{- default (printf `job="%s",namespace="%s"` (include "holdfast.fullname" .) .Release.Namespace) .Values.prometheusRule.matchers -}}
{{- end -}}

{{- /* The group and the plural of the node classes that Holdfast acts on. */ -}}
{{- define "holdfast.nodeClassGroup" -}}
{{- ternary "holdfast.dev" "karpenter.k8s.aws" .Values.settings.besideKarpenter -}}
{{- end }}

{{- define "holdfast.nodeClasses" -}}
{{- ternary "holdfastnodeclasses" "ec2nodeclasses" .Values.settings.besideKarpenter -}}
{{- end }}
