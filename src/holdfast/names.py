"""Labels, annotations, taints, finalizers and capacity types that are not specific to a cloud.

In the lowest layer, because both the wire types (`api`, `sim`) and the values (`model`, `core`) need them and do not
import each other. Names of AWS are in `api.aws`. Karpenter's names are an API and spelled exactly as Karpenter does; our
own start with `holdfast.dev/`.
"""

from typing import Final

KARPENTER_GROUP: Final = "karpenter.sh"

# --- Labels -----------------------------------------------------------------------------------------
NODEPOOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
REGISTERED: Final = "karpenter.sh/registered"
INITIALIZED: Final = "karpenter.sh/initialized"
DO_NOT_SYNC_TAINTS: Final = "karpenter.sh/do-not-sync-taints"

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
EXCLUDE_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"

# --- Capacity types, in order of preference ---------------------------------------------------------
RESERVED: Final = "reserved"
SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
CAPACITY_TYPES: Final = (RESERVED, SPOT, ON_DEMAND)

# --- Label sets -------------------------------------------------------------------------------------
# A pod may select on these even if the NodePool's template does not have them: each offering has a value.
# Each cloud adds its own.
WELL_KNOWN_LABELS: Final = frozenset(
    {NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD}
)
# Deprecated labels that Kubernetes and Karpenter still accept, and their current names.
LABEL_ALIASES: Final = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}

# --- Annotations ------------------------------------------------------------------------------------
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DO_NOT_REPAIR: Final = "karpenter.sh/do-not-repair"
DISRUPTION_COST: Final = "karpenter.sh/disruption-cost"
REBOOT_PRE_BOOT_ID: Final = "karpenter.sh/reboot-pre-boot-id"
REBOOT_TERMINATION_GRACE_PERIOD: Final = "karpenter.sh/reboot-termination-grace-period"
NODEPOOL_HASH: Final = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"
MIN_VALUES_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"
REQUESTED_DRA_DRIVERS: Final = "karpenter.sh/requested-dra-drivers"
PRICE_OVERLAY_APPLIED: Final = "karpenter.sh/price-overlay-applied"
CAPACITY_OVERLAY_APPLIED: Final = "karpenter.sh/capacity-overlay-applied"
PROVIDER_COMPATIBILITY: Final = "compatibility.karpenter.sh/provider"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

RESERVATION_ID: Final = "holdfast.dev/reservation-id"  # of a NodeClaim: the reservation whose slot it uses
RESERVATION_ID_BEFORE_0_2: Final = "holdfast.dev/slot"  # the same, on NodeClaims of earlier releases
SLOTS_COUNTED: Final = (
    "holdfast.dev/slots-counted"  # of a NodeClaim: the count of its reservation before its launch
)
WAITS_FOR_INSTANCE: Final = "holdfast.dev/waits-for-instance"
INSTANCE_GONE: Final = (
    "holdfast.dev/instance-gone"  # since when the instance that a NodeClaim waits for is terminated
)
HELD_FOR: Final = "holdfast.dev/held-for"
PREFERRED_ZONE: Final = (
    "holdfast.dev/preferred-zone"  # of a NodeClaim: the zone to launch in among zones of equal cost
)
GANG: Final = "holdfast.dev/gang"  # a label of pods, in snapshots only: the gang that they are in
BOOKING_TAINT: Final = "holdfast.dev/booking"  # of NodePools whose nodes only pods of a booking use
GANG_LAUNCH: Final = (
    "holdfast.dev/gang-launch"  # of a NodeClaim: the NodeClaims that are launched all or none, and how many
)
MAX_RUN_DURATION: Final = "holdfast.dev/max-run-duration"  # of a pod: how long it runs at most
LAUNCH_TOKEN: Final = "holdfast.dev/launch-token"
RESERVATION_WAIT: Final = "holdfast.dev/reservation-wait"
DISRUPTION_COMMAND: Final = "holdfast.dev/disruption-command"  # of a claim: the command that disrupts it
DISRUPTION_COMMAND_BEFORE_0_2: Final = "holdfast.dev/order"  # the same, as claims of earlier releases have it
REBOOTS: Final = "holdfast.dev/reboots"
EXPLANATION: Final = "holdfast.dev/explanation"  # of a NodeClaim: why it was created, and why as it is
CONSOLIDATED: Final = "holdfast.dev/consolidated"  # of a NodePool: when consolidation last moved its pods

# --- Taints and finalizers --------------------------------------------------------------------------
DISRUPTED_TAINT: Final = "karpenter.sh/disrupted"  # NoSchedule
UNREGISTERED_TAINT: Final = "karpenter.sh/unregistered"  # NoExecute
REBOOTING_TAINT: Final = "karpenter.sh/rebooting"  # NoSchedule
FORMING_TAINT: Final = "holdfast.dev/forming"  # NoSchedule, until all nodes of a gang are ready
HELD_TAINT: Final = "holdfast.dev/held"  # only in snapshots: no Node has it
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
UNINITIALIZED_TAINT: Final = "node.cloudprovider.kubernetes.io/uninitialized"
READINESS_TAINT_PREFIX: Final = "readiness.k8s.io/"
TERMINATION_FINALIZER: Final = "karpenter.sh/termination"  # on Node and NodeClaim
