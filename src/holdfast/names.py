"""Names on the wire that no cloud owns: labels, annotations, taints, finalizers, capacity types.

At the bottom of the house because both sides need them: the wire types (`api`, `sim`) and the values
(`model`, `core`), which know nothing of each other. Names of one cloud live with that cloud's wire
types, e.g. `api.aws`. Karpenter's names are an interface and are spelt exactly as it spells them;
our own start with `holdfast.dev/`.
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

# --- Capacity types, in the order they are preferred ------------------------------------------------
RESERVED: Final = "reserved"
SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
CAPACITY_TYPES: Final = (RESERVED, SPOT, ON_DEMAND)

# --- Label sets -------------------------------------------------------------------------------------
# A template need not mention these for a pod to select on them: some offering will have a value.
# Each cloud adds its own.
WELL_KNOWN_LABELS: Final = frozenset(
    {NODEPOOL, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, WINDOWS_BUILD}
)
# Deprecated spellings that Kubernetes and Karpenter still accept, and what they mean today.
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

RESERVATION_ID: Final = "holdfast.dev/reservation-id"  # of a claim: the reservation whose slot it holds
RESERVATION_ID_BEFORE_0_2: Final = "holdfast.dev/slot"  # the same, as claims of earlier releases have it
WAITS_FOR_INSTANCE: Final = "holdfast.dev/waits-for-instance"
INSTANCE_GONE: Final = "holdfast.dev/instance-gone"  # since when the instance that a claim waits for is gone
HELD_FOR: Final = "holdfast.dev/held-for"
PREFERRED_ZONE: Final = (
    "holdfast.dev/preferred-zone"  # of a claim: among zones of equal cost, the one to launch in
)
LAUNCH_TOKEN: Final = "holdfast.dev/launch-token"
RESERVATION_WAIT: Final = "holdfast.dev/reservation-wait"
DISRUPTION_COMMAND: Final = "holdfast.dev/disruption-command"  # of a claim: the command that disrupts it
DISRUPTION_COMMAND_BEFORE_0_2: Final = "holdfast.dev/order"  # the same, as claims of earlier releases have it
REBOOTS: Final = "holdfast.dev/reboots"
CONSOLIDATED: Final = "holdfast.dev/consolidated"  # of a NodePool: when consolidation last moved its pods

# --- Taints and finalizers --------------------------------------------------------------------------
DISRUPTED_TAINT: Final = "karpenter.sh/disrupted"  # NoSchedule
UNREGISTERED_TAINT: Final = "karpenter.sh/unregistered"  # NoExecute
REBOOTING_TAINT: Final = "karpenter.sh/rebooting"  # NoSchedule
HELD_TAINT: Final = "holdfast.dev/held"  # in snapshots alone: no Node has it
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
UNINITIALIZED_TAINT: Final = "node.cloudprovider.kubernetes.io/uninitialized"
READINESS_TAINT_PREFIX: Final = "readiness.k8s.io/"
TERMINATION_FINALIZER: Final = "karpenter.sh/termination"  # on Node and NodeClaim
