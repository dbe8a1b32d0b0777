{{/* Values of `settings` and their environment variables. */}}
{{- define "holdfast.variables" -}}
awsRegion: AWS_REGION
batchIdleDuration: BATCH_IDLE_DURATION
batchMaxDuration: BATCH_MAX_DURATION
besideKarpenter: BESIDE_KARPENTER
burstableCPUPercent: BURSTABLE_CPU_PERCENT
clusterCABundle: CLUSTER_CA_BUNDLE
clusterDNSIP: CLUSTER_DNS_IP
clusterEndpoint: CLUSTER_ENDPOINT
clusterName: CLUSTER_NAME
consolidationCooldown: CONSOLIDATION_COOLDOWN
consolidationSavingPerPod: CONSOLIDATION_SAVING_PER_POD
disableDryRun: DISABLE_DRY_RUN
disableLeaderElection: DISABLE_LEADER_ELECTION
gangCandidates: GANG_CANDIDATES
gangHold: GANG_HOLD
gangsOf: GANGS_OF
interruptionQueue: INTERRUPTION_QUEUE
isolatedVPC: ISOLATED_VPC
kubeClientBurst: KUBE_CLIENT_BURST
kubeClientQPS: KUBE_CLIENT_QPS
leaderElectionName: LEADER_ELECTION_NAME
leaderElectionNamespace: LEADER_ELECTION_NAMESPACE
ledgerLag: LEDGER_LAG
metricsPerObject: METRICS_PER_OBJECT
minValuesPolicy: MIN_VALUES_POLICY
nodeCost: NODE_COST
offeringMetrics: OFFERING_METRICS
packing: PACKING
packingCandidates: PACKING_CANDIDATES
preferencePolicy: PREFERENCE_POLICY
provisioningRequests: PROVISIONING_REQUESTS
releaseSlots: RELEASE_SLOTS
reservationWait: RESERVATION_WAIT
reservedBeforeWeight: RESERVED_BEFORE_WEIGHT
reservedENIs: RESERVED_ENIS
rollMixedPools: ROLL_MIXED_POOLS
schedulerConfig: SCHEDULER_CONFIG
serviceCIDR: SERVICE_CIDR
startEstimate: START_ESTIMATE
vmMemoryOverheadPercent: VM_MEMORY_OVERHEAD_PERCENT
{{- end -}}

{{/* Settings of Karpenter's chart that have no effect. The controller logs each one that is set. */}}
{{- define "holdfast.variablesWithoutEffect" -}}
amiRefreshInterval: AMI_REFRESH_INTERVAL
disableClusterStateObservability: DISABLE_CLUSTER_STATE_OBSERVABILITY
eksControlPlane: EKS_CONTROL_PLANE
enableZonalShift: ENABLE_ZONAL_SHIFT
ignoreDRARequests: IGNORE_DRA_REQUESTS
subnetRefreshInterval: SUBNET_REFRESH_INTERVAL
{{- end -}}

{{/* The text of a value. Numbers as JSON writes them: toString makes 1e+06 of a million. */}}
{{- define "holdfast.text" -}}
{{- if kindIs "string" .value -}}{{- tpl .value .root -}}{{- else -}}{{- toJson .value -}}{{- end -}}
{{- end -}}

{{/* `ReservedCapacity=true,NodeRepair=false`, from the values reservedCapacity and nodeRepair. */}}
{{- define "holdfast.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.settings.featureGates -}}
{{- if kindIs "bool" $on -}}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $on) -}}
{{- end -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* The environment of the controller, by name: what the values set. */}}
{{- define "holdfast.environment" -}}
{{- $found := dict
  "LOG_FORMAT" .Values.logFormat
  "LOG_LEVEL" (ternary "warning" .Values.logLevel (eq "warn" (default "" .Values.logLevel)))
  "METRICS_PORT" (toJson .Values.controller.metrics.port)
  "HEALTH_PROBE_PORT" (toJson .Values.controller.healthProbe.port)
  "API_PORT" (toJson .Values.controller.api.port)
  "API_BIND_ADDRESS" (ternary "all" "127.0.0.1" .Values.controller.api.enabled)
  "DASHBOARD" (toJson .Values.controller.api.dashboard)
  "FEATURE_GATES" (include "holdfast.featureGates" .)
-}}
{{- range $name, $variable := include "holdfast.variables" . | fromYaml -}}
{{- $value := get $.Values.settings $name -}}
{{- if not (or (kindIs "invalid" $value) (eq "" (toString $value))) -}}
{{- $_ := set $found $variable (include "holdfast.text" (dict "value" $value "root" $)) -}}
{{- end -}}
{{- end -}}
{{- range $name, $variable := include "holdfast.variablesWithoutEffect" . | fromYaml -}}
{{- with get $.Values.settings $name -}}
{{- $_ := set $found $variable (include "holdfast.text" (dict "value" . "root" $)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.logOutputPaths -}}{{- $_ := set $found "LOG_OUTPUT_PATHS" (join "," .) -}}{{- end -}}
{{- with .Values.logErrorOutputPaths -}}{{- $_ := set $found "LOG_ERROR_OUTPUT_PATHS" (join "," .) -}}{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{/* The same as a list. A variable of controller.env replaces that of a value: the API server refuses to apply a list
with the same name twice. */}}
{{- define "holdfast.env" -}}
{{- $own := dict -}}
{{- range .Values.controller.env -}}{{- $_ := set $own .name true -}}{{- end -}}
{{- range $name, $value := include "holdfast.environment" . | fromYaml }}
{{- if and $value (not (hasKey $own $name)) }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}
{{- with .Values.controller.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Mistakes that the schema cannot explain: each message names the value and what to do. */}}
{{- define "holdfast.checks" -}}
{{- if .Values.controller.image -}}
{{- fail "controller.image is the image of Karpenter. Remove it, and set image.repository, image.tag or image.digest to an image of Holdfast" -}}
{{- end -}}
{{- $hasClusterName := false -}}
{{- range .Values.controller.env -}}{{- if eq .name "CLUSTER_NAME" -}}{{- $hasClusterName = true -}}{{- end -}}{{- end -}}
{{- if not $hasClusterName -}}
{{- $_ := required "settings.clusterName is required: set it to the name of the EKS cluster" .Values.settings.clusterName -}}
{{- end -}}
{{- if .Values.settings.disableLeaderElection -}}
{{- if or (gt (int .Values.replicas) 1) (ne "Recreate" (default "" (.Values.strategy).type)) -}}
{{- fail "settings.disableLeaderElection: two controllers would launch nodes for the same pods. Set replicas to 1 and strategy.type to Recreate" -}}
{{- end -}}
{{- end -}}
{{- end -}}
